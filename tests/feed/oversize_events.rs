//! An event whose large fields must be read from its shard delays only the later events of its execution.

use noetl_testkit::feed::{Reader, assert_in_order, run};
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::{Deployment, QUIET};
use serde_json::{Value, json};

/// The network holds back what the shard sends to the replica, so that the read of the large event does not end.
#[tokio::test]
async fn a_large_event_delays_only_the_later_events_of_its_execution() {
    let deployment = Deployment::start(1).await;
    let leader = deployment.replica().await;
    deployment.feeds_begun().await;
    let (network, shard) = Proxy::before_database(&deployment.shard_dsns[0]).await;
    let settings = [&QUIET[..], &[("NOETL_SHARDS", shard.as_str())]].concat();
    let server = deployment.replica_with(&settings).await;
    let open = async |filter: Value| Reader::open(&server, json!({ "latest": true }), filter).await;
    let mut other = open(json!({ "executionIds": ["6"] })).await;
    let (mut all, mut interrupted) = (open(Value::Null).await, open(Value::Null).await);
    network.set(ForwardingMode::Stalled);
    let rows = "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
        SELECT CASE n WHEN 3 THEN 6 ELSE 5 END, n, 'call.done',
            jsonb_build_object('text', repeat('é', CASE n WHEN 1 THEN 1500000 ELSE 1 END))
        FROM generate_series(1, 3) AS n";
    run(&mut deployment.shard(0).await, rows).await;
    for reader in [&mut other, &mut all, &mut interrupted] {
        assert!(reader.until_seen([(6, 3)]).await, "the feed ended");
        assert_eq!(reader.seen, [(6, 3)]);
    }
    let incomplete = server.metric("noetl_stream_incomplete_events_total").await;
    assert!(incomplete < 0.5, "the read of the event has ended");
    network.set(ForwardingMode::Normal);
    // The cursor is before the large event, so another replica delivers it, and the events after it again.
    interrupted.reconnect(&leader).await;
    interrupted.seen.clear();
    assert!(interrupted.until_seen([(5, 1), (5, 2), (6, 3)]).await, "the feed ended");
    assert_in_order(&interrupted.seen, [5]);
    assert!(all.until_seen([(5, 1), (5, 2)]).await, "the feed ended");
    assert_eq!(all.seen, [(6, 3), (5, 1), (5, 2)]);
    let first = all.items.iter().find(|item| item["event"]["id"] == "1").unwrap();
    let text = first["event"]["context"]["text"].as_str().map(|text| text.chars().count());
    assert_eq!((text, &first["payloadOmitted"]), (Some(1_500_000), &Value::Bool(false)));
    // After the large event was delivered, the cursor is after all events.
    all.reconnect(&leader).await;
    all.caught_up().await;
    assert_eq!(all.seen.len(), 3);
}
