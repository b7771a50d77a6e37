//! The mutations that workers call.

use serde_json::{Value, json};

use super::Server;

const PROJECT: &str = "mutation($input: ProjectEventsInput!) { projectEvents(input: $input) {
    projected duplicates settled rejected { index eventId userErrors { code field message retryable } }
    userErrors { code field message retryable } } }";

impl Server {
    /// Sends events and returns the payload. Each rejected event also has the fields of its user error.
    pub async fn project(&self, events: &[Value]) -> Value {
        self.project_input(json!({ "events": events })).await
    }

    /// Sends events under a claim as [`Self::project`] does. With `settle`, the entry of the claim is settled too.
    pub async fn project_under(&self, claim: &Value, events: &[Value], settle: bool) -> Value {
        self.project_input(json!({ "events": events, "claim": claim, "settle": settle })).await
    }

    async fn project_input(&self, input: Value) -> Value {
        with_errors_of_items(self.data(PROJECT, json!({ "input": input })).await["projectEvents"].take())
    }
}

/// Returns the payload of a batch of events, in which each rejected event also has the fields of its user error.
pub fn with_errors_of_items(mut payload: Value) -> Value {
    for item in payload["rejected"].as_array_mut().into_iter().flatten() {
        let errors = item["userErrors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{item}");
        let error = errors[0].as_object().unwrap().clone();
        item.as_object_mut().unwrap().extend(error);
    }
    payload
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
