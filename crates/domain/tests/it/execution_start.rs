//! The started event and the message to the workers contain the data of the request (docs/messages.md).

use noetl_domain::actor::Actor;
use noetl_domain::execution::{ClaimedKey, Creation, request_hash};
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::outbox_message::is_publishable;
use noetl_domain::tenant::Tenancy;
use serde_json::{Map, Value, json};

/// A request that names no pool, no trace and no caller.
fn plain() -> Creation {
    Creation {
        execution_id: Id::new(382_384_698_866_794_496),
        event_id: Id::new(382_384_698_866_794_497),
        parent_execution_id: None,
        catalog_id: Id::new(382_384_000_000_000_001),
        path: "samples/orders/process".into(),
        workload: Map::from_iter([("order".to_owned(), json!(17))]),
        pool: None,
        trace: None,
        emitted_at: "2026-11-21T02:00:00.123456789Z".parse().unwrap(),
        actor: None,
        tenancy: Tenancy::default(),
        rerun_of: None,
        labels: Labels::default(),
        dedup: None,
    }
}

fn trace() -> Value {
    json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" })
}

#[test]
fn started_event_has_the_ids_as_texts_and_the_workload() {
    let expected = json!({
        "catalog_id": "382384000000000001",
        "execution_id": "382384698866794496",
        "path": "samples/orders/process",
        "workload": { "order": 17 },
    });
    assert_eq!(plain().context(), expected);
}

#[test]
fn started_event_names_the_pool_the_trace_the_caller_the_origin_and_the_labels_only_if_they_are_known() {
    let common = json!({ "emitted_at": "2026-11-21T02:00:00.123456Z", "emitter": "control_plane" });
    assert_eq!(plain().meta(), common);
    let full = Creation { pool: Some("gpu".into()), trace: Some(trace()), actor: Some(Actor::new("ann")), ..plain() };
    let labels = json!({ "order": "17" });
    let full = Creation { rerun_of: Some(Id::new(17)), labels: Labels::read(&labels), ..full };
    let mut expected = common;
    expected["execution_pool"] = "gpu".into();
    expected["trace"] = trace();
    expected["actor"] = "ann".into();
    expected["rerun_of"] = "17".into();
    expected["labels"] = labels;
    assert_eq!(full.meta(), expected);
}

#[test]
fn started_event_has_the_dedup_key_from_which_a_lost_claim_is_made_again() {
    let hash = request_hash(&json!({ "order": 17 }));
    let claimed = Creation { dedup: Some(ClaimedKey::new("order-17", 60, hash)), ..plain() };
    let meta = claimed.meta();
    assert_eq!((&meta["dedup"]["key"], &meta["dedup"]["window_seconds"]), (&json!("order-17"), &json!(60)));
    let stored: ClaimedKey = plain_json::parse(meta["dedup"].to_string().as_bytes()).unwrap();
    assert_eq!((stored.hash(), Some(stored)), (Some(hash.to_vec()), claimed.dedup.clone()));
    let stored: Creation = plain_json::parse(json!(claimed).to_string().as_bytes()).unwrap();
    assert_eq!(stored, claimed);
    for malformed in ["", "0", &"g".repeat(64), &"0".repeat(66)] {
        assert_eq!(ClaimedKey { request_hash: malformed.to_owned(), ..claimed.dedup.clone().unwrap() }.hash(), None);
    }
}

#[test]
fn message_to_the_workers_has_the_documented_payload() {
    let mut documented = json!({
        "execution_id": "382384698866794496",
        "event_id": "382384698866794497",
        "catalog_id": "382384000000000001",
        "path": "samples/orders/process",
        "pool": "shared",
        "tenant_id": "default",
        "organization_id": "default",
    });
    assert_eq!(plain().command(), documented);
    documented["trace"] = trace();
    documented["pool"] = "gpu".into();
    documented["tenant_id"] = "acme".into();
    documented["organization_id"] = "west".into();
    let tenancy = Tenancy::new("acme", "west");
    assert_eq!(Creation { pool: Some("gpu".into()), trace: Some(trace()), tenancy, ..plain() }.command(), documented);
}

#[test]
fn subject_of_the_message_ends_with_the_pool_and_the_execution() {
    let gpu = Creation { pool: Some("gpu".into()), ..plain() };
    for (creation, end) in [(plain(), ".shared.382384698866794496"), (gpu, ".gpu.382384698866794496")] {
        let subject = creation.notification_subject();
        assert!(subject.ends_with(end), "{subject}");
        assert!(is_publishable(&subject), "{subject}");
    }
}

#[test]
fn weight_covers_texts_keys_and_the_memory_of_small_values() {
    let weight = |workload: Value, trace: Option<Value>| {
        let workload = workload.as_object().cloned().unwrap();
        Creation { workload, trace, ..plain() }.weight()
    };
    let large = "x".repeat(1000);
    assert_eq!(weight(json!({}), None), 0);
    for workload in [json!({ "a": { "b": [large] } }), json!({ &large: 1 }), json!({ "a": vec![0; 1000] })] {
        assert!((1000..100_000).contains(&weight(workload.clone(), None)), "{workload}");
    }
    assert!(weight(json!({ "a": vec![0; 1000] }), None) >= 1000 * size_of::<Value>());
    assert!(weight(json!({}), Some(json!({ "traceparent": large }))) >= 1000);
}
