//! Events as JSON documents: rows as NoETL's tailer publishes them, or what NoETL's workers send.

use std::collections::BTreeMap;

use plain_json::RawJson;
use serde_json::{Map, Value};

use super::EventDraft;
use super::values::value;
use crate::error::Rejection;

/// Column that only the database sets.
const TX_ID: &str = "tx_id";

impl EventDraft {
    /// Reads an event from a document. Its keys are the columns of `noetl.event`; a text can also be given as a number
    /// or a boolean, and an id as a number or a text. Other keys are additional values. The key of an event with an id is
    /// ignored: a stored event has both.
    ///
    /// # Errors
    /// The document is not a map.
    pub fn of_document(document: &RawJson) -> Result<Self, Rejection> {
        let members = document.members().map_err(|error| Rejection::invalid("", error.to_string()))?;
        // The last of several members with one key counts.
        let mut fields: BTreeMap<String, RawJson> = members.ok_or_else(not_a_map)?.into_iter().collect();
        fields.remove(TX_ID);
        let mut take = |name: &str| fields.remove(name).filter(|json| !json.is_null());
        let shown = |json: Option<RawJson>| json.map(|json| value("", &json).map(shown)).transpose();
        let read = |json: Option<RawJson>| json.map(|json| value("", &json)).transpose();
        let event_id = shown(take("event_id"))?;
        let has_id = event_id.as_ref().is_some_and(|id| !id.is_empty());
        Ok(Self {
            idempotency_key: shown(take("event_key"))?.filter(|_| !has_id),
            event_id,
            execution_id: shown(take("execution_id"))?,
            catalog_id: shown(take("catalog_id"))?,
            parent_event_id: shown(take("parent_event_id"))?,
            parent_execution_id: shown(take("parent_execution_id"))?,
            event_type: shown(take("event_type"))?,
            node_id: shown(take("node_id"))?,
            node_name: shown(take("node_name"))?,
            node_type: shown(take("node_type"))?,
            status: shown(take("status"))?,
            duration: read(take("duration"))?,
            timestamp: read(take("timestamp"))?,
            created_at: read(take("created_at"))?,
            context: take("context"),
            result: take("result"),
            meta: take("meta"),
            error: shown(take("error"))?,
            stack_trace: shown(take("stack_trace"))?,
            tenant_id: shown(take("tenant_id"))?,
            organization_id: shown(take("organization_id"))?,
            trace_component: read(take("trace_component"))?,
            extra: extra(fields)?,
        })
    }
}

fn not_a_map() -> Rejection {
    Rejection::invalid("", "an event must be a map")
}

/// Returns a value as text, as PostgreSQL's operator `->>` does.
fn shown(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn extra(rest: BTreeMap<String, RawJson>) -> Result<Option<Value>, Rejection> {
    let present = rest.into_iter().filter(|(_, json)| !json.is_null());
    let present = present.map(|(name, json)| Ok((name, value("extra", &json)?)));
    let present: Map<String, Value> = present.collect::<Result<_, Rejection>>()?;
    Ok((!present.is_empty()).then(|| present.into()))
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
        let draft = EventDraft::of_document(&(&row).into()).unwrap();
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
            assert!(EventDraft::of_document(&(&other).into()).is_err());
        }
    }

    #[test]
    fn the_key_of_a_document_with_an_id_is_ignored() {
        for (id, key) in [(json!(1), None), (json!(""), Some("k")), (Value::Null, Some("k"))] {
            let row = json!({ "event_id": id, "execution_id": 7, "event_key": "k" });
            let draft = EventDraft::of_document(&(&row).into()).unwrap();
            assert_eq!((draft.idempotency_key.as_deref(), draft.extra), (key, None), "{id}");
        }
    }
}
