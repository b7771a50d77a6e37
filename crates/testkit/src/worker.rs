//! The mutations that workers call.

use serde_json::{Value, json};

use super::Server;

const PROJECT: &str = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
    projected duplicates rejected { index eventId code message retryable } userErrors { code field message retryable } } }";

impl Server {
    /// Sends events and returns the payload.
    pub async fn project(&self, events: &[Value]) -> Value {
        self.data(PROJECT, json!({ "events": events })).await["projectEvents"].clone()
    }
}

/// Returns a valid event.
pub fn event(execution: i64, id: i64) -> Value {
    json!({ "executionId": execution.to_string(), "eventId": id.to_string(), "type": "call.done", "nodeName": "step" })
}

/// Returns an event with some fields replaced.
pub fn event_with(execution: i64, id: i64, fields: &Value) -> Value {
    let mut whole = event(execution, id);
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    whole
}
