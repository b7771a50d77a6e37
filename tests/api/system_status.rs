//! The live status for dashboards is complete, and a replica reads it once for all its readers.

use futures::future::join_all;
use noetl_testkit::feed::{insert, run};
use noetl_testkit::{Deployment, Live, Server};
use serde_json::{Value, json};

const STATUS: &str = "subscription($s: Int) { systemStatus(everySeconds: $s) { at
    shards { shard available latencyMilliseconds buckets error } outbox { pending unavailableShards }
    eventStream { enabled connected shards { shard stream leader leaseExpiresAt lastSequence publishedEvents lagEvents
        lagSeconds oldestOpenTransactionSeconds preparedTransactions oldestPreparedTransactionSeconds feedEpoch
        lastError } } } }";

async fn until(live: &mut Live, what: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..60 {
        let status = live.next().await.expect("the subscription continues")["systemStatus"].take();
        if what(&status) {
            return status;
        }
    }
    panic!("the expected status was never delivered")
}

async fn start() -> (Deployment, Server) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    (deployment, server)
}

#[tokio::test]
async fn the_status_shows_the_progress_of_publishing_and_is_polled_once_for_all_readers() {
    let (deployment, server) = start().await;
    Box::pin(many_readers(&server)).await;
    Box::pin(periods(&server)).await;
    Box::pin(progress(&deployment, &server)).await;
}

/// The status shows the progress of publishing. No event was published before.
async fn progress(deployment: &Deployment, server: &Server) {
    let mut live = server.live(STATUS, json!({ "s": 1 })).await;
    let mut shard = deployment.shard(1).await;
    insert(&mut shard, (deployment.ids_on(1, 1, 1)[0], 1)).await;
    let published = |status: &Value| status["eventStream"]["shards"][1]["publishedEvents"] == "1";
    let status = until(&mut live, published).await;
    assert_eq!(status["shards"][0]["available"], true, "{status}");
    assert_eq!((&status["eventStream"]["enabled"], &status["eventStream"]["connected"]), (&json!(true), &json!(true)));
    assert_eq!(status["outbox"], json!({ "pending": 0, "unavailableShards": [] }));
    let feed = &status["eventStream"]["shards"][1];
    assert_eq!((feed["stream"].as_str(), feed["feedEpoch"].as_i64()), (Some("noetl_events_1"), Some(1)));
    assert_eq!(feed["leader"], server.name().await);
    assert_eq!((&feed["lastSequence"], &feed["lastError"]), (&json!("1"), &Value::Null));

    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    run(&mut shard, "BEGIN").await;
    insert(&mut shard, (deployment.ids_on(1, 1, 1)[0], 2)).await;
    run(&mut shard, &format!("PREPARE TRANSACTION '{name}'")).await;
    let prepared = |status: &Value| status["eventStream"]["shards"][1]["preparedTransactions"] == "1";
    let status = until(&mut live, prepared).await;
    assert!(status["eventStream"]["shards"][1]["oldestPreparedTransactionSeconds"].is_number(), "{status}");
    run(&mut shard, &format!("ROLLBACK PREPARED '{name}'")).await;
}

/// Many readers of the status need as many polls as one. No status was read before.
async fn many_readers(server: &Server) {
    let read = async || {
        let mut live = server.live(STATUS, json!({ "s": 1 })).await;
        for _ in 0..3 {
            live.next().await.expect("the subscription continues");
        }
    };
    join_all((0..30).map(|_| read())).await;
    let polls = server.metric("noetl_status_polls_total").await;
    assert!(polls <= 12.0, "{polls} polls for 30 readers of 3 each");
}

/// A period out of range is refused.
async fn periods(server: &Server) {
    for seconds in [0, -1, 61] {
        let error = Live::open(&server.url, STATUS, json!({ "s": seconds })).await.errors().await[0].clone();
        assert_eq!(error["extensions"]["code"], "INVALID_INPUT", "{error}");
        assert_eq!(error["extensions"]["field"], json!(["everySeconds"]), "{error}");
    }
    let mut with_the_default = server.live(STATUS, json!({ "s": null })).await;
    assert!(with_the_default.next().await.is_some());
}
