//! A replica without readers of live events fetches no messages from the broker, and the next reader misses no event.

use std::collections::BTreeSet;

use async_nats::jetstream::consumer::Info;
use futures::TryStreamExt;
use noetl_testkit::feed::Reader;
use noetl_testkit::{Deployment, eventually};
use serde_json::{Value, json};

/// Returns the number of open requests for messages that live feeds have sent to the broker.
async fn asked_for(deployment: &Deployment) -> usize {
    let (_, stream) = deployment.stream(0).await;
    let consumers: Vec<Info> = stream.consumers().try_collect().await.unwrap();
    consumers.iter().filter(|consumer| consumer.config.durable_name.is_none()).map(|feed| feed.num_waiting).sum()
}

#[tokio::test]
async fn idle_feed_fetches_nothing_and_returning_reader_misses_nothing() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=3).await;
    deployment.until_published(3).await;
    assert_eq!(asked_for(&deployment).await, 0);

    let mut reader = Reader::from_latest(&server).await;
    eventually("the feed fetches messages", async || (asked_for(&deployment).await > 0).then_some(())).await;
    deployment.commit(7, 4..=6).await;
    assert!(reader.until_seen([(7, 6)]).await);
    let (seen, cursor) = (reader.seen.clone(), reader.cursor.clone());
    drop(reader);
    eventually("the feed fetches no messages", async || (asked_for(&deployment).await == 0).then_some(())).await;
    deployment.commit(7, 7..=9).await;
    deployment.until_published(9).await;
    assert_eq!(asked_for(&deployment).await, 0);

    let mut latest = Reader::from_latest(&server).await;
    let mut back = Reader::open(&server, json!({ "after": cursor }), Value::Null).await;
    deployment.commit(7, 10..=10).await;
    assert!(latest.until_seen([(7, 10)]).await && back.until_seen([(7, 10)]).await);
    assert_eq!(latest.seen, [(7, 10)]);
    back.seen.splice(0..0, seen);
    back.assert_saw_exactly(&(4..=10).map(|event| (7, event)).collect::<BTreeSet<_>>());
}
