//! Events as JSON documents: rows as NoETL's tailer publishes them, or what NoETL's workers send.

use serde_json::{Map, Value};

use super::EventDraft;
use crate::service::error::Rejection;

/// Column that only the database sets.
const TX_ID: &str = "tx_id";

impl EventDraft {
    /// Reads an event from a document. Its keys are the columns of `noetl.event`; a text can also be given as a number
    /// or a boolean, and an id as a number or a text. Other keys are additional values.
    ///
    /// # Errors
    /// The document is not a map.
    pub fn of_document(document: Value) -> Result<Self, Rejection> {
        let Value::Object(mut fields) = document else {
            return Err(Rejection::invalid("", "an event must be a map"));
        };
        fields.remove(TX_ID);
        let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
        Ok(Self {
            event_id: take("event_id").map(shown),
            execution_id: take("execution_id").map(shown),
            catalog_id: take("catalog_id").map(shown),
            parent_event_id: take("parent_event_id").map(shown),
            parent_execution_id: take("parent_execution_id").map(shown),
            event_type: take("event_type").map(shown),
            node_id: take("node_id").map(shown),
            node_name: take("node_name").map(shown),
            node_type: take("node_type").map(shown),
            status: take("status").map(shown),
            duration: take("duration"),
            timestamp: take("timestamp"),
            created_at: take("created_at"),
            context: take("context"),
            result: take("result"),
            meta: take("meta"),
            error: take("error").map(shown),
            stack_trace: take("stack_trace").map(shown),
            tenant_id: take("tenant_id").map(shown),
            organization_id: take("organization_id").map(shown),
            trace_component: take("trace_component"),
            extra: extra(fields),
        })
    }
}

/// Returns a value as text, as PostgreSQL's operator `->>` does.
fn shown(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn extra(rest: Map<String, Value>) -> Option<Value> {
    let present: Map<String, Value> = rest.into_iter().filter(|(_, value)| !value.is_null()).collect();
    (!present.is_empty()).then(|| present.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_of_noetl_becomes_an_event() {
        let row = json!({
            "event_id": 9_007_199_254_740_993_i64, "execution_id": "7", "event_type": "call.done", "status": true,
            "created_at": "2026-11-21T22:07:25.72705", "tx_id": "12", "worker_id": "w", "node_id": null, "frame_id": null,
            "trace_component": { "a": 1 }, "extra": [1],
        });
        let draft = EventDraft::of_document(row).unwrap();
        assert_eq!(draft.event_id.as_deref(), Some("9007199254740993"));
        assert_eq!(
            (draft.execution_id.as_deref(), draft.status.as_deref(), draft.node_id),
            (Some("7"), Some("true"), None)
        );
        assert_eq!(
            (draft.created_at, draft.trace_component),
            (Some(json!("2026-11-21T22:07:25.72705")), Some(json!({ "a": 1 })))
        );
        assert_eq!(draft.extra, Some(json!({ "worker_id": "w", "extra": [1] })));
        for other in [json!([]), json!("x"), Value::Null] {
            assert!(EventDraft::of_document(other).is_err());
        }
    }
}
