//! Events as JSON documents, as NoETL's servers and workers have them.

use std::collections::BTreeMap;
use std::fs;

use noetl_testkit::feed::run;
use noetl_testkit::worker::with_errors_of_items;
use noetl_testkit::{Deployment, Server, repository};
use serde_json::{Value, json};

const PROJECT: &str = "mutation($events: [JSON!]!) { projectEventDocuments(input: { events: $events }) {
    projected duplicates unknownTypes rejected { index eventId userErrors { code field } } userErrors { code } } }";

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

/// Returns the rows of a log by id; `None`: of all logs.
async fn stored(deployment: &Deployment, log: Option<i64>) -> BTreeMap<i64, Value> {
    let query = "SELECT event_id, to_jsonb(event) - 'tx_id' - 'event_key' FROM noetl.event
                 WHERE $1::bigint IS NULL OR execution_id = $1";
    let rows: Vec<(i64, Value)> =
        sqlx::query_as(query).bind(log).fetch_all(&mut deployment.shard(0).await).await.unwrap();
    rows.into_iter().collect()
}

fn by_id(rows: &[Value]) -> BTreeMap<i64, Value> {
    rows.iter().map(|row| (row["event_id"].as_i64().unwrap(), row.clone())).collect()
}

#[tokio::test]
async fn documents_are_stored_with_the_columns_of_noetl_or_rejected_by_index() {
    let deployment = Deployment::start(1).await;
    run(&mut deployment.shard(0).await, NOETL_COLUMNS).await;
    let server = deployment.replica().await;
    rows_of_noetl_are_stored_as_they_are_and_a_repetition_changes_nothing(&deployment, &server).await;
    every_invalid_document_is_rejected_by_index_and_the_others_are_stored(&deployment, &server).await;
}

/// Rows that NoETL wrote are stored with all their columns, and never overwritten.
async fn rows_of_noetl_are_stored_as_they_are_and_a_repetition_changes_nothing(
    deployment: &Deployment,
    server: &Server,
) {
    let rows = recorded_rows();
    let payload = project(server, &rows).await;
    assert_eq!((&payload["projected"], &payload["rejected"]), (&json!(rows.len()), &json!([])), "{payload}");
    assert_eq!(payload["unknownTypes"], json!([]));
    assert_eq!(stored(deployment, None).await, by_id(&rows));

    // The messages of the stream have the same form.
    deployment.until_published(rows.len()).await;
    let messages = deployment.messages().await;
    let messages: Vec<Value> =
        messages.iter().map(|message| serde_json::from_slice(&message.payload).unwrap()).collect();
    let again = project(server, &messages).await;
    assert_eq!((&again["projected"], &again["duplicates"]), (&json!(0), &json!(rows.len())), "{again}");
    let changed: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({ "event_id": row["event_id"], "event_type": "other",
        "execution_id": row["execution_id"], "worker_id": "other" })
        })
        .collect();
    let refused = project(server, &changed).await;
    assert_eq!((&refused["projected"], &refused["duplicates"]), (&json!(0), &json!(0)));
    assert!(refused["rejected"].as_array().unwrap().iter().all(|one| one["code"] == "EVENT_ID_CONFLICT"), "{refused}");
    assert_eq!(refused["unknownTypes"], json!([]), "no event of the type was stored");
    assert_eq!(stored(deployment, None).await, by_id(&rows));
}

/// An invalid document affects no other one of its batch.
async fn every_invalid_document_is_rejected_by_index_and_the_others_are_stored(
    deployment: &Deployment,
    server: &Server,
) {
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
    let payload = project(server, &documents).await;
    let rejected: Vec<u64> =
        payload["rejected"].as_array().unwrap().iter().map(|one| one["index"].as_u64().unwrap()).collect();
    assert_eq!((rejected, &payload["projected"]), (vec![1, 2, 3, 4, 5, 6], &json!(2)), "{payload}");
    assert!(payload["rejected"].as_array().unwrap().iter().all(|one| one["code"] == "INVALID_INPUT"), "{payload}");
    let stored = stored(deployment, Some(7)).await;
    let first = &stored[&1];
    assert_eq!((&first["created_at"], &first["duration"]), (&json!("2026-11-21T22:07:25.5"), &json!(1.5)));
    assert_eq!(
        (&first["current_index"], &first["tenant_id"], &first["schema_version"]),
        (&json!(3), &json!("acme"), &json!(1))
    );
    assert_eq!(stored[&7]["meta"], json!({ "extra": { "custom": { "a": 1 } } }));
}

/// Returns malformed values: their keys, and the fields that user errors name.
fn malformed() -> Vec<(&'static str, &'static str, Value)> {
    let mut cases = Vec::new();
    for (key, field) in [("event_id", "eventId"), ("execution_id", "executionId"), ("event_type", "type")] {
        cases.extend([Value::Null, json!("")].map(|value| (key, field, value)));
    }
    for (key, field) in [("event_id", "eventId"), ("execution_id", "executionId")] {
        cases.extend([json!(true), json!(1.5), json!([]), json!({}), json!("x")].map(|value| (key, field, value)));
    }
    let durations = [
        json!("NaN"),
        json!("inf"),
        json!("-infinity"),
        json!("1e999"),
        json!("a second"),
        json!(" "),
        json!(true),
        json!([1]),
        json!({ "seconds": 1 }),
    ];
    cases.extend(durations.map(|value| ("duration", "durationSeconds", value)));
    let times = [
        json!("yesterday"),
        json!("0000-12-31T23:59:59Z"),
        json!("0001-01-01T00:00:00+14:00"),
        json!("292277-01-01T00:00:00Z"),
        json!("+292277-01-01T00:00:00Z"),
        json!("9999-12-31T23:59:59-14:00"),
        json!("-0001-01-01T00:00:00Z"),
        json!("2026-02-30T00:00:00Z"),
        json!("2026-01-01"),
        json!("2026-01-01T25:00:00Z"),
        json!(" "),
        json!("\0"),
        json!(1_767_225_600),
        json!(1.5),
        json!(true),
        json!([]),
        json!({}),
    ];
    for (key, field) in [("timestamp", "timestamp"), ("created_at", "createdAt")] {
        cases.extend(times.clone().map(|value| (key, field, value)));
    }
    cases
}

#[tokio::test]
async fn values_of_documents_have_several_forms_and_a_malformed_one_refuses_its_event() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    a_malformed_value_of_a_document_refuses_only_its_event(&deployment, &server).await;
    numbers_and_times_of_documents_have_several_forms(&deployment, &server).await;
    columns_that_the_table_does_not_have_are_kept_in_the_meta(&deployment, &server).await;
}

/// A malformed value is refused with the name of its field.
async fn a_malformed_value_of_a_document_refuses_only_its_event(deployment: &Deployment, server: &Server) {
    let cases = malformed();
    let event = |id: usize| json!({ "event_id": id, "execution_id": 7, "event_type": "call.done" });
    let with = |(index, (key, _, value)): (usize, &(&str, &str, Value))| {
        let mut event = event(index + 1);
        event[*key] = value.clone();
        event
    };
    let mut documents: Vec<Value> = cases.iter().enumerate().map(with).collect();
    documents.push(event(1000));
    let payload = project(server, &documents).await;
    assert_eq!((&payload["projected"], &payload["userErrors"]), (&json!(1), &json!([])), "{payload}");
    let rejected = payload["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), cases.len(), "{payload}");
    for (index, (one, (key, field, value))) in rejected.iter().zip(&cases).enumerate() {
        assert_eq!((&one["index"], &one["code"]), (&json!(index), &json!("INVALID_INPUT")), "{key}: {value}");
        assert_eq!(one["field"], json!(["events", index.to_string(), field]), "{key}: {value}");
    }
    assert_eq!(stored(deployment, None).await.into_keys().collect::<Vec<_>>(), [1000]);
}

/// Numbers and times may be texts, as NoETL writes them.
async fn numbers_and_times_of_documents_have_several_forms(deployment: &Deployment, server: &Server) {
    let forms = [
        (
            json!({ "duration": "1.25", "timestamp": "2026-01-02T03:04:05.000006Z",
                    "created_at": "2000-01-01T00:00:00Z" }),
            (Some(1.25), "2026-01-02T03:04:05.000006"),
        ),
        (
            json!({ "duration": -3, "timestamp": "", "created_at": "2026-01-02T03:04:05.5+01:00" }),
            (Some(-3.0), "2026-01-02T02:04:05.5"),
        ),
        (json!({ "duration": "", "created_at": "2026-01-02 03:04:05" }), (None, "2026-01-02T03:04:05")),
        (json!({ "duration": null, "timestamp": "2026-01-02T03:04:05" }), (None, "2026-01-02T03:04:05")),
    ];
    let event = |(id, (fields, _)): (usize, &(Value, _))| {
        let mut event = json!({ "event_id": id.to_string(), "execution_id": "8", "event_type": "call.done",
                                "catalog_id": "", "parent_event_id": "", "parent_execution_id": "" });
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let documents: Vec<Value> = (1..).zip(&forms).map(event).collect();
    let payload = project(server, &documents).await;
    assert_eq!(payload["projected"], json!(forms.len()), "{payload}");
    for (row, (fields, expected)) in stored(deployment, Some(8)).await.values().zip(&forms) {
        assert_eq!((row["duration"].as_f64(), row["created_at"].as_str().unwrap()), *expected, "{fields}");
        assert_eq!((&row["catalog_id"], &row["parent_event_id"]), (&json!(0), &Value::Null), "{fields}");
    }
}

/// A value without a column is kept.
async fn columns_that_the_table_does_not_have_are_kept_in_the_meta(deployment: &Deployment, server: &Server) {
    let row =
        json!({ "event_id": 1, "execution_id": 9, "event_type": "call.done", "worker_id": "w", "meta": { "a": 1 } });
    assert_eq!(project(server, &[row]).await["projected"], json!(1));
    assert_eq!(stored(deployment, Some(9)).await[&1]["meta"], json!({ "a": 1, "extra": { "worker_id": "w" } }));
    for events in [vec![], vec![json!({}); 5001]] {
        let payload = project(server, &events).await;
        assert_eq!(payload["userErrors"][0]["code"], json!("INVALID_INPUT"), "{payload}");
    }
}
