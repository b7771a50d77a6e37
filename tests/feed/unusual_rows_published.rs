//! Rows with any values of other servers are published unchanged and delay no other events.

use noetl_testkit::feed::{Reader, assert_exactly, run};
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Unusual rows between ordinary ones: JSON nested deeper than parsers allow, numbers beyond 64-bit floats, and extreme
/// times.
const ODD: &str = r#"INSERT INTO noetl.event (execution_id, event_id, event_type, context, duration, created_at) VALUES
    (7, 1, 'small', '1', NULL, now()),
    (7, 2, 'deep', (repeat('[', 5000) || repeat(']', 5000))::jsonb, NULL, now()),
    (7, 3, 'wide', '{"number": 1e400}', NULL, now()),
    (7, 4, 'late', '1', 'Infinity', 'infinity'),
    (7, 5, 'early', '1', 'NaN', '-infinity'),
    (7, 6, 'far', '1', 1, '294276-12-31 23:59:59.999999'),
    (7, 7, 'old', '1', 1, '4713-01-01 00:00:00 BC'),
    (7, 8, 'small', '1', NULL, now()),
    (7, 9, E'a type\nof two lines', '1', NULL, now()),
    (7, 10, 'small', '1', NULL, now())"#;

#[tokio::test]
async fn unusual_and_large_rows_are_published_and_delay_no_other() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    a_5_mb_event_is_published_without_its_large_fields_and_delays_no_other(&deployment, &server).await;
    unusual_rows_are_published_complete_and_do_not_stop_the_feed(&deployment, &server).await;
    an_event_with_names_larger_than_a_message_is_delivered_complete(&deployment, &server).await;
}

async fn unusual_rows_are_published_complete_and_do_not_stop_the_feed(deployment: &Deployment, server: &Server) {
    let mut reader = Reader::from_latest(server).await;
    run(&mut deployment.shard(0).await, ODD).await;
    assert!(reader.until_seen([(7, 1), (7, 8), (7, 10)]).await, "the feed ended");
    let messages = deployment.messages().await;
    let keys: Vec<_> = messages.iter().filter_map(|message| message.key).collect();
    assert_exactly(&keys, &deployment.committed().await);
    let payload = |event: i64| {
        let found = messages.iter().find(|message| message.key == Some((7, event))).unwrap();
        String::from_utf8(found.payload.to_vec()).unwrap()
    };
    assert!(payload(2).contains(&format!("\"context\":{}{}", "[".repeat(5000), "]".repeat(5000))));
    assert!(payload(3).contains(&format!("1{}", "0".repeat(400))));
    assert!(payload(4).contains("\"created_at\":\"infinity\""));
    assert!(payload(5).contains("\"created_at\":\"-infinity\""));
    for event in 1..=10 {
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(&payload(event)).is_ok(), "event {event}");
    }
}

async fn a_5_mb_event_is_published_without_its_large_fields_and_delays_no_other(
    deployment: &Deployment,
    server: &Server,
) {
    let mut reader = Reader::from_latest(server).await;
    let rows = "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
        SELECT 6, n, 'call.done', jsonb_build_object('text', repeat('x', CASE n WHEN 150 THEN 5000000 ELSE 1 END))
        FROM generate_series(1, 300) AS n";
    run(&mut deployment.shard(0).await, rows).await;
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    let messages = deployment.messages().await;
    let omitted: Vec<_> = messages.iter().filter(|message| is_reduced(&message.payload)).collect();
    assert_eq!(omitted.iter().map(|message| message.key).collect::<Vec<_>>(), [Some((6, 150))]);
    assert!(omitted[0].payload.len() < 1_000);
    let metrics = server.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_stream_oversize_events_total{shard=\"0\"} 1\n"));
}

fn is_reduced(payload: &[u8]) -> bool {
    serde_json::from_slice::<Value>(payload).unwrap()["payload_omitted"] == json!(true)
}

/// NoETL's table has more columns than ours. Readers of the stream get every column, as `to_jsonb` returns it.
#[tokio::test]
async fn the_payload_is_the_row_with_every_column_of_the_table() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let rows = r#"
        ALTER TABLE noetl.event ADD COLUMN worker_id VARCHAR, ADD COLUMN current_index INTEGER,
            ADD COLUMN trace_component JSONB, ADD COLUMN event_time TIMESTAMPTZ NOT NULL DEFAULT now();
        INSERT INTO noetl.event (execution_id, event_id, event_type, created_at, worker_id, current_index, trace_component,
                                 event_time, duration, context, error)
        VALUES (7, 1, 'call.done', '2026-11-21 22:07:25.72705', 'worker-1', 3, '{"a": [1]}',
                '2026-11-21 23:07:25.727172+01', 1.5, '{"x": {"traceparent": 1}}', E'two\nlines "ß"'),
               (7, 2, 'playbook.completed', '2026-11-21', NULL, NULL, NULL, now(), NULL, NULL, NULL)"#;
    run(&mut shard, rows).await;
    let _server = deployment.replica_with(&[("NOETL_EVENT_STREAM_BACKFILL", "true")]).await;
    deployment.until_published(2).await;
    let rows = sqlx::query_scalar("SELECT to_jsonb(event) FROM noetl.event ORDER BY event_id");
    let stored: Vec<Value> = rows.fetch_all(&mut shard).await.unwrap();
    let messages = deployment.messages().await;
    let published: Vec<Value> =
        messages.iter().map(|message| serde_json::from_slice(&message.payload).unwrap()).collect();
    assert_eq!(published, stored);
    assert_eq!(
        (&published[0]["created_at"], &published[0]["worker_id"]),
        (&json!("2026-11-21T22:07:25.72705"), &json!("worker-1"))
    );
}

/// Names have no maximum length in the table, but a message has a maximum size.
async fn an_event_with_names_larger_than_a_message_is_delivered_complete(deployment: &Deployment, server: &Server) {
    let query = "subscription { events { ... on EventDelivery { event { id: eventId nodeName status } } } }";
    let mut live = server.live(query, Value::Null).await;
    let mut reader = Reader::from_latest(server).await;
    let rows = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status)
        SELECT 8, n, 'call.done', repeat('ß', CASE n WHEN 2 THEN 1500000 ELSE 1 END), repeat('s', CASE n WHEN 2 THEN 1500000 ELSE 1 END)
        FROM generate_series(1, 3) AS n";
    run(&mut deployment.shard(0).await, rows).await;
    assert!(reader.until_seen([(8, 3)]).await, "the feed ended");
    reader.assert_saw_exactly(&(1..=3).map(|event| (8, event)).collect());
    let named = loop {
        let event = live.next().await.unwrap()["events"]["event"].take();
        if event["id"] == "2" {
            break event["nodeName"].as_str().unwrap().chars().count();
        }
    };
    assert_eq!(named, 1_500_000);
}
