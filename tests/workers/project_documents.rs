//! Events as JSON documents, as NoETL's servers and workers have them.

use std::collections::BTreeMap;
use std::fs;

use noetl_testkit::feed::run;
use noetl_testkit::worker::with_errors_of_items;
use noetl_testkit::{Deployment, Server, repository};
use serde_json::{Value, json};

const PROJECT: &str = "mutation($events: [JSON!]!) { projectEventDocuments(input: { events: $events }) {
    projected duplicates rejected { index eventId userErrors { code field } } userErrors { code } } }";

/// The columns of NoETL's table that ours does not have.
const NOETL_COLUMNS: &str = "ALTER TABLE noetl.event
    ADD COLUMN current_index INTEGER, ADD COLUMN current_item TEXT, ADD COLUMN worker_id VARCHAR,
    ADD COLUMN distributed_state VARCHAR, ADD COLUMN context_key VARCHAR, ADD COLUMN context_value TEXT,
    ADD COLUMN trace_component JSONB, ADD COLUMN stream_id TEXT, ADD COLUMN stream_version BIGINT,
    ADD COLUMN aggregate_id TEXT, ADD COLUMN aggregate_type TEXT, ADD COLUMN schema_name TEXT,
    ADD COLUMN schema_version INTEGER NOT NULL DEFAULT 1, ADD COLUMN event_time TIMESTAMPTZ NOT NULL DEFAULT now(),
    ADD COLUMN ingest_time TIMESTAMPTZ NOT NULL DEFAULT now(), ADD COLUMN producer TEXT, ADD COLUMN causation_id TEXT,
    ADD COLUMN correlation_id TEXT, ADD COLUMN idempotency_key TEXT, ADD COLUMN payload_ref JSONB,
    ADD COLUMN envelope_checksum TEXT, ADD COLUMN prev_event_id BIGINT, ADD COLUMN command_id BIGINT,
    ADD COLUMN stage_id BIGINT, ADD COLUMN frame_id BIGINT";

/// Rows of all logs that NoETL's server and worker wrote.
fn recorded_rows() -> Vec<Value> {
    let folder = repository().join("crates/domain/tests/golden");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let rows = files.flat_map(|path| {
        let recorded: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        recorded["events"].as_array().unwrap().clone()
    });
    rows.collect()
}

async fn project(server: &Server, events: &[Value]) -> Value {
    with_errors_of_items(server.data(PROJECT, json!({ "events": events })).await["projectEventDocuments"].take())
}

/// Returns the rows of the table by id.
async fn stored(deployment: &Deployment) -> BTreeMap<i64, Value> {
    let query = "SELECT event_id, to_jsonb(event) - 'tx_id' FROM noetl.event";
    let rows: Vec<(i64, Value)> = sqlx::query_as(query).fetch_all(&mut deployment.shard(0).await).await.unwrap();
    rows.into_iter().collect()
}

fn by_id(rows: &[Value]) -> BTreeMap<i64, Value> {
    rows.iter().map(|row| (row["event_id"].as_i64().unwrap(), row.clone())).collect()
}

#[tokio::test]
async fn rows_of_noetl_are_stored_as_they_are_and_a_repetition_changes_nothing() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, NOETL_COLUMNS).await;
    run(&mut shard, "SET TIME ZONE 'UTC'").await;
    let server = deployment.replica().await;
    let rows = recorded_rows();
    let payload = project(&server, &rows).await;
    assert_eq!((&payload["projected"], &payload["rejected"]), (&json!(rows.len()), &json!([])), "{payload}");
    assert_eq!(stored(&deployment).await, by_id(&rows));

    // The messages of the stream have the same form.
    deployment.until_published(rows.len()).await;
    let messages = deployment.messages().await;
    let messages: Vec<Value> =
        messages.iter().map(|message| serde_json::from_slice(&message.payload).unwrap()).collect();
    let again = project(&server, &messages).await;
    assert_eq!((&again["projected"], &again["duplicates"]), (&json!(0), &json!(rows.len())), "{again}");
    let changed: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({ "event_id": row["event_id"], "event_type": "other",
        "execution_id": row["execution_id"], "worker_id": "other" })
        })
        .collect();
    let refused = project(&server, &changed).await;
    assert_eq!((&refused["projected"], &refused["duplicates"]), (&json!(0), &json!(0)));
    assert!(refused["rejected"].as_array().unwrap().iter().all(|one| one["code"] == "EVENT_ID_CONFLICT"), "{refused}");
    assert_eq!(stored(&deployment).await, by_id(&rows));
}

#[tokio::test]
async fn every_invalid_document_is_rejected_by_index_and_the_others_are_stored() {
    let deployment = Deployment::start(1).await;
    run(&mut deployment.shard(0).await, NOETL_COLUMNS).await;
    let server = deployment.replica().await;
    let documents = [
        json!({ "event_id": "1", "execution_id": 7, "event_type": "call.done", "duration": "1.5",
                "timestamp": "2026-11-21 22:07:25.5", "current_index": "3", "tenant_id": "acme", "tx_id": "1" }),
        json!(["event_id"]),
        json!({ "event_id": 2, "event_type": "call.done" }),
        json!({ "event_id": 3, "execution_id": 7 }),
        json!({ "execution_id": 7, "event_type": "call.done" }),
        json!({ "event_id": 5, "execution_id": 7, "event_type": "call.done", "current_index": "third" }),
        json!({ "event_id": 6, "execution_id": 7, "event_type": "call.done", "timestamp": "yesterday" }),
        json!({ "event_id": 7, "execution_id": 7, "event_type": "call.done", "custom": { "a": 1 }, "worker_id": null }),
    ];
    let payload = project(&server, &documents).await;
    let rejected: Vec<u64> =
        payload["rejected"].as_array().unwrap().iter().map(|one| one["index"].as_u64().unwrap()).collect();
    assert_eq!((rejected, &payload["projected"]), (vec![1, 2, 3, 4, 5, 6], &json!(2)), "{payload}");
    assert!(payload["rejected"].as_array().unwrap().iter().all(|one| one["code"] == "INVALID_INPUT"), "{payload}");
    let stored = stored(&deployment).await;
    let first = &stored[&1];
    assert_eq!((&first["created_at"], &first["duration"]), (&json!("2026-11-21T22:07:25.5"), &json!(1.5)));
    assert_eq!(
        (&first["current_index"], &first["tenant_id"], &first["schema_version"]),
        (&json!(3), &json!("acme"), &json!(1))
    );
    assert_eq!(stored[&7]["meta"], json!({ "extra": { "custom": { "a": 1 } } }));
}

#[tokio::test]
async fn columns_that_the_table_does_not_have_are_kept_in_the_meta() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    let row =
        json!({ "event_id": 1, "execution_id": 7, "event_type": "call.done", "worker_id": "w", "meta": { "a": 1 } });
    assert_eq!(project(&server, &[row]).await["projected"], json!(1));
    assert_eq!(stored(&deployment).await[&1]["meta"], json!({ "a": 1, "extra": { "worker_id": "w" } }));
    for events in [vec![], vec![json!({}); 5001]] {
        let payload = project(&server, &events).await;
        assert_eq!(payload["userErrors"][0]["code"], json!("INVALID_INPUT"), "{payload}");
    }
}
