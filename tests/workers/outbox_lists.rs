//! The outbox lists, statistics and the scaler endpoint.

use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::pages::{read_pages, texts};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const ENTRIES: &str = "query($filter: OutboxFilter, $first: Int, $after: String, $last: Int, $before: String) { outbox {
    entries(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { entryId status attempts executionId subject payload payloadCodec availableAt lastError createdAt publishedAt }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } unavailableShards } } }";

async fn entries(server: &Server, variables: Value) -> Value {
    server.data(ENTRIES, variables).await["outbox"]["entries"].clone()
}

fn ids(page: &Value) -> Vec<String> {
    texts(&page["nodes"], "entryId")
}

async fn filtered(server: &Server, filter: Value) -> Vec<String> {
    ids(&entries(server, json!({ "filter": filter, "first": 100 })).await)
}

#[tokio::test]
async fn the_outbox_of_all_shards_is_listed_in_one_order_and_counted() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    outbox_entries_have_one_order_over_all_shards_in_any_page_size(&deployment, &server).await;
    the_outbox_is_counted_by_the_form_of_the_subject(&deployment, &server).await;
    pending_is_the_number_of_claimable_rows(&deployment, &server).await;
}

/// The list has one order in pages of any size and direction, even if many rows of both shards have equal times.
async fn outbox_entries_have_one_order_over_all_shards_in_any_page_size(deployment: &Deployment, server: &Server) {
    for shard in 0..2 {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 3), 10).await;
        let times = "UPDATE noetl.outbox SET created_at = '2026-01-01T00:00:00Z'::timestamptz + (outbox_id % 4) * interval '1 us'";
        deployment.on_shard(shard, times).await;
    }
    let claimed = server.claim(json!({ "limit": 20 })).await;
    server.published(&references(&claimed)[..7]).await;
    let mut expected: Vec<(i64, u16, i64)> =
        (0..2).flat_map(|shard| (1..=30).map(move |number| (number % 4, shard, number))).collect();
    expected.sort_unstable();
    let expected: Vec<String> = expected.iter().rev().map(|(_, shard, number)| format!("{shard}-{number}")).collect();
    let whole = entries(server, json!({ "first": 100 })).await;
    assert_eq!(ids(&whole), expected);

    for backwards in [false, true] {
        let pages = read_pages(7, backwards, async |range: Value| entries(server, range).await).await;
        assert_eq!(pages.iter().flat_map(ids).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn entries_are_filtered_and_large_backlogs_are_counted_up_to_a_bound() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    entries_are_filtered_and_counted(&deployment, &server).await;
    the_backlog_count_stops_at_an_upper_bound(&deployment, &server).await;
}

/// A filter selects by status, execution and attempts.
async fn entries_are_filtered_and_counted(deployment: &Deployment, server: &Server) {
    deployment.fill_outbox(0, &[1, 2, 3, 4], 1).await;
    let claimed = references(&server.claim(json!({ "limit": 3 })).await);
    server.published(&claimed[..1]).await;
    server.failed(&claimed[1], "broken", Some(600)).await;
    server.retry(json!({ "statuses": ["FAILED"] }), false).await;
    deployment
        .on_shard(0, "UPDATE noetl.outbox SET available_at = now() + interval '1 hour' WHERE outbox_id = 4")
        .await;
    let again = references(&server.claim(json!({})).await);
    server.failed(&again[0], "broken again", None).await;

    for (filter, expected) in [
        (json!({}), vec!["0-4", "0-3", "0-2", "0-1"]),
        (json!({ "statuses": ["PENDING", "FAILED"] }), vec!["0-4", "0-2"]),
        (json!({ "statuses": ["PUBLISHED", "PUBLISHED"] }), vec!["0-1"]),
        (json!({ "statuses": [] }), vec![]),
        (json!({ "executionId": "3" }), vec!["0-3"]),
        (json!({ "executionId": "3", "statuses": ["PENDING"] }), vec![]),
        (json!({ "minAttempts": 1 }), vec!["0-3", "0-2", "0-1"]),
        (json!({ "minAttempts": 2 }), vec!["0-2"]),
        (json!({ "minAttempts": 3 }), vec![]),
        (json!({ "tenantId": "default" }), vec!["0-4", "0-3", "0-2", "0-1"]),
        (json!({ "tenantId": "acme" }), vec![]),
    ] {
        assert_eq!(filtered(server, filter.clone()).await, expected, "{filter}");
    }
    let all = entries(server, json!({})).await;
    let node = |index: usize| &all["nodes"][index];
    assert_eq!((&node(2)["lastError"], &node(2)["attempts"]), (&json!("broken again"), &json!(2)));
    assert!(node(3)["publishedAt"].is_string() && node(2)["publishedAt"].is_null());
    assert_eq!(node(0)["payload"], json!({ "n": 1 }));
    assert_eq!((&node(0)["subject"], &node(0)["payloadCodec"]), (&json!("noetl.executions.test.4"), &json!("json")));
}

const STATS: &str = "{ outbox { stats { pending inFlight failed oldestPendingAgeSeconds
    byShard { shard pending inFlight failed } unavailableShards } } }";

const SUBJECTS: &str = "{ outbox { subjects { subject pending inFlight failed dead oldestPendingAgeSeconds } } }";

/// Subjects differ in the ids of their executions; the numbers are those of the form of the subject.
async fn the_outbox_is_counted_by_the_form_of_the_subject(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    assert_eq!(server.data(SUBJECTS, Value::Null).await["outbox"]["subjects"], json!([]));
    let rows = "INSERT INTO noetl.outbox (event_id, payload, subject, status, available_at, attempts)
                VALUES (1, '{}', 'noetl.commands.gpu.17', 'PENDING', now(), 0),
                       (2, '{}', 'noetl.commands.gpu.18', 'FAILED', 'infinity', 5),
                       (3, '{}', 'noetl.commands.gpu2.18', 'PENDING', now() + interval '1 hour', 0),
                       (4, '{}', NULL, 'PENDING', now(), 0),
                       (5, '{}', 'noetl.commands.gpu.19', 'PUBLISHED', now(), 1)";
    deployment.on_shard(0, rows).await;
    deployment.on_shard(1, rows).await;
    let subjects = server.data(SUBJECTS, Value::Null).await["outbox"]["subjects"].take();
    let counts: Vec<Value> = subjects
        .as_array()
        .unwrap()
        .iter()
        .map(|of| json!([of["subject"], of["pending"], of["inFlight"], of["failed"], of["dead"]]))
        .collect();
    let expected = vec![
        json!(["noetl.commands.gpu.*", 2, 0, 0, 2]),
        json!([null, 2, 0, 0, 0]),
        json!(["noetl.commands.gpu2.*", 0, 0, 0, 0]),
    ];
    assert_eq!(counts, expected, "{subjects}");
    assert!(subjects[0]["oldestPendingAgeSeconds"].is_number() && subjects[2]["oldestPendingAgeSeconds"].is_null());
}

/// Every claimable row counts as pending: a fresh row, a failed row that is due, and a row with an expired lease.
async fn pending_is_the_number_of_claimable_rows(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let scaler = async || server.get("/scaler/outbox").await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(scaler().await, json!({ "pending": 0, "oldestAgeSeconds": 0.0 }));
    deployment.fill_outbox(0, &deployment.ids_on(0, 1, 6), 1).await;
    deployment.fill_outbox(1, &deployment.ids_on(1, 1, 2), 1).await;
    let claimed = references(&server.claim(json!({ "limit": 4, "shard": 0 })).await);
    server.failed(&claimed[0], "no", None).await;
    server.failed(&claimed[1], "no", None).await;
    let later = "UPDATE noetl.outbox SET available_at = now() + interval '1 hour' WHERE outbox_id = 1;
                 UPDATE noetl.outbox SET available_at = now() - interval '1 hour' WHERE outbox_id = 2;
                 UPDATE noetl.outbox SET lease_until = now() - interval '1 hour' WHERE outbox_id = 3;
                 UPDATE noetl.outbox SET created_at = now() - interval '1 day' WHERE outbox_id = 2";
    deployment.on_shard(0, later).await;
    // No server writes times this far in the past. Such rows may be counted a little later.
    let stats = eventually("all of them are counted", async || {
        let stats = server.data(STATS, Value::Null).await["outbox"]["stats"].take();
        (stats["pending"] == 6).then_some(stats)
    })
    .await;
    assert_eq!((&stats["pending"], &stats["inFlight"], &stats["failed"]), (&json!(6), &json!(2), &json!(2)));
    let age = stats["oldestPendingAgeSeconds"].as_f64().unwrap();
    assert!((86_400.0..86_500.0).contains(&age), "{age}");
    let shards = json!([{ "shard": 0, "pending": 4, "inFlight": 2, "failed": 2 },
                        { "shard": 1, "pending": 2, "inFlight": 0, "failed": 0 }]);
    assert_eq!((&stats["byShard"], &stats["unavailableShards"]), (&shards, &json!([])));
    let subjects = server.data(SUBJECTS, Value::Null).await["outbox"]["subjects"].take();
    let of_all = &subjects[0];
    assert_eq!(
        (&of_all["subject"], &of_all["pending"], &of_all["inFlight"], &of_all["failed"], &of_all["dead"]),
        (&json!("noetl.executions.test.*"), &json!(6), &json!(2), &json!(2), &json!(0)),
        "{subjects}"
    );
    assert_eq!(subjects.as_array().unwrap().len(), 1, "{subjects}");
    assert!(of_all["oldestPendingAgeSeconds"].as_f64().unwrap() >= 86_400.0, "{subjects}");
    // The scaler endpoint also counts the row that waits for its next attempt.
    eventually("the scaler endpoint counts them too", async || (scaler().await["pending"] == 7).then_some(())).await;
    let mut claimable = 0;
    eventually("all pending rows can be claimed", async || {
        claimable += server.claim(json!({})).await["claims"].as_array().unwrap().len();
        (claimable == 6).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_published_rows_older_than_the_retention_are_purged() {
    let deployment = Deployment::start(1).await;
    deployment.fill_outbox(0, &(1..=2500).collect::<Vec<_>>(), 1).await;
    let old = "UPDATE noetl.outbox SET status = 'PUBLISHED', published_at = now() - interval '2 hours' WHERE outbox_id <= 2400;
               UPDATE noetl.outbox SET status = 'PUBLISHED', published_at = now() WHERE outbox_id BETWEEN 2401 AND 2420;
               UPDATE noetl.outbox SET status = 'FAILED', published_at = now() - interval '2 hours',
                                       available_at = now() + interval '1 hour' WHERE outbox_id > 2480";
    deployment.on_shard(0, old).await;
    let server = deployment.replica_with(&[NO_RELAY, ("NOETL_OUTBOX_RETENTION_SECS", "3600")]).await;
    eventually("the old rows are purged", async || {
        (server.metric("noetl_outbox_purged_total").await >= 2400.0).then_some(())
    })
    .await;
    assert_eq!(deployment.outbox_rows("true").await, 100);
    assert_eq!(deployment.outbox_rows("outbox_id <= 2400").await, 0);
}

/// Counting has a fixed maximum cost: larger backlogs are returned as the upper bound.
async fn the_backlog_count_stops_at_an_upper_bound(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let fill = "INSERT INTO noetl.outbox (event_id, payload, created_at, status)
                SELECT n, '{}', now() - interval '1 day' + n * interval '1 millisecond',
                       CASE n % 2 WHEN 0 THEN 'FAILED' ELSE 'PENDING' END
                FROM generate_series(1, 202000) AS n";
    deployment.on_shard(0, fill).await;
    let stats = server.data(STATS, Value::Null).await["outbox"]["stats"].clone();
    assert_eq!((&stats["pending"], &stats["failed"]), (&json!(100_000), &json!(100_000)));
    let age = stats["oldestPendingAgeSeconds"].as_f64().unwrap();
    assert!((86_300.0..86_500.0).contains(&age), "{age}");
}
