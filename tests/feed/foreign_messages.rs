//! Messages that another program publishes on a shard's stream are detected, and the feed stays correct.

use futures::future::join_all;
use noetl_testkit::feed::assert_exactly;
use noetl_testkit::{Deployment, eventually};
use tokio_util::sync::CancellationToken;

const EVENTS: i64 = 10_000;

async fn publish_foreign(deployment: &Deployment, count: usize) {
    let (context, _) = deployment.broker().await;
    for _ in 0..count {
        context.publish("noetl.events.foreign", "not an event".into()).await.unwrap().await.unwrap();
    }
}

#[tokio::test]
async fn foreign_messages_inside_a_batch_are_reported_and_shift_no_event() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    // The broker shows a stream shortly before the stream accepts messages.
    deployment.commit(7, 1..=1).await;
    deployment.until_published(1).await;
    let writing = deployment.commit(7, 2..=EVENTS);
    tokio::join!(writing, publish_foreign(&deployment, 100));
    publish_foreign(&deployment, 1).await;
    deployment.commit(7, EVENTS + 1..=EVENTS + 5).await;
    deployment.until_published(usize::try_from(EVENTS + 5).unwrap()).await;
    assert_exactly(&deployment.published().await, &deployment.committed().await);
    assert_eq!(deployment.messages().await.len(), deployment.committed().await.len() + 101);
    eventually("the feed reports the foreign messages", async || {
        let error = deployment.last_error().await?;
        error.contains("another client publishes to the event stream").then_some(())
    })
    .await;
    let metrics = server.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_tailer_foreign_messages_total{shard=\"0\"}"));
}

/// The broker restarts without its last writes. The remaining messages end with a batch that has foreign messages in it
/// and after it. The tailer republishes from this batch on, not from the beginning of the feed.
#[tokio::test]
async fn the_tailer_finds_the_last_batch_before_foreign_messages_after_a_loss() {
    let mut deployment = Deployment::start(1).await;
    let _server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=50).await;
    deployment.until_published(50).await;
    tokio::join!(deployment.commit(7, 51..=EVENTS), publish_foreign(&deployment, 100));
    deployment.until_published(usize::try_from(EVENTS).unwrap()).await;
    publish_foreign(&deployment, 3).await;
    let earlier = deployment.copy_broker_store().await;
    deployment.commit(7, EVENTS + 1..=EVENTS + 100).await;
    deployment.until_published(usize::try_from(EVENTS + 100).unwrap()).await;

    deployment.kill_broker_and_restore_store(&earlier).await;
    deployment.nats.restart().await.unwrap();
    eventually("the epoch increases", async || (deployment.epoch().await == 2).then_some(())).await;
    deployment.until_published(usize::try_from(EVENTS + 100).unwrap()).await;
    assert_exactly(&deployment.published().await, &deployment.committed().await);
}

/// Between the look at the end of the stream and the arrival of an event, there is usually another message.
#[tokio::test]
async fn a_stream_that_other_messages_fill_all_the_time_is_reported_and_the_feed_continues_after_them() {
    let deployment = Deployment::start(1).await;
    let _server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=1).await;
    deployment.until_published(1).await;
    let enough = CancellationToken::new();
    let (context, _) = deployment.broker().await;
    let publish = join_all((0..16).map(async |_| {
        while !enough.is_cancelled() {
            context.publish("noetl.events.foreign", "not an event".into()).await.unwrap().await.unwrap();
        }
    }));
    let look = async {
        let mut events = 2..;
        // A batch may get through, on a fast machine.
        eventually("the feed says why it does not continue", async || {
            let event = events.next()?;
            deployment.commit(7, event..=event).await;
            deployment.last_error().await?.contains("other messages arrive all the time").then_some(())
        })
        .await;
        enough.cancel();
    };
    tokio::join!(publish, look);
    deployment.until_all_published().await;
}
