//! Messages that another program publishes on a shard's stream are detected, and the feed stays correct.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_testkit::feed::{Key, assert_exactly};
use noetl_testkit::{Deployment, eventually, sleep_in_scenario};
use tokio_util::sync::CancellationToken;

/// Number of events that need several pages of a batch (5,000 events).
const EVENTS: i64 = 6_000;
/// Number of foreign messages that [`commit_among_foreign`] publishes.
const AMONG: usize = 101;

async fn publish_foreign(deployment: &Deployment, count: usize) {
    let (context, _) = deployment.stream(0).await;
    for _ in 0..count {
        context.publish("noetl.events.foreign", "not an event".into()).await.unwrap().await.unwrap();
    }
}

/// Commits events of execution 7 in one transaction, publishes foreign messages meanwhile, and one more while the
/// events are published.
async fn commit_among_foreign(deployment: &Deployment, events: RangeInclusive<i64>) {
    let (_, stream) = deployment.stream(0).await;
    let stored = async || usize::try_from(stream.get_info().await.unwrap().state.messages).unwrap();
    let before = stored().await;
    tokio::join!(deployment.commit(7, events), publish_foreign(deployment, AMONG - 1));
    eventually("a part of the batch is published", async || (stored().await > before + 2 * AMONG).then_some(())).await;
    publish_foreign(deployment, 1).await;
}

/// The broker then restarts without its last writes. The remaining messages end with a batch that has foreign messages
/// in it and after it. The tailer republishes from this batch on, not from the beginning of the feed.
#[tokio::test]
async fn foreign_messages_inside_a_batch_are_reported_shift_no_event_and_hide_no_batch_after_a_loss() {
    let mut deployment = Deployment::start(1).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    // The broker shows a stream shortly before the stream accepts messages.
    deployment.commit(7, 1..=50).await;
    deployment.until_published(50).await;
    commit_among_foreign(&deployment, 51..=EVENTS).await;
    let before = usize::try_from(EVENTS).unwrap() + AMONG;
    deployment.until_stored(before).await;
    publish_foreign(&deployment, 3).await;
    let earlier = deployment.copy_broker_store().await;
    deployment.commit(7, EVENTS + 1..=EVENTS + 100).await;
    // What the tailer does not know as acknowledged yet is published again without a new epoch.
    deployment.until_all_published().await;
    let committed = deployment.committed().await;
    let messages = deployment.messages().await;
    let ours = messages.iter().filter(|message| message.mark.is_some());
    assert_exactly(&ours.filter_map(|message| message.key).collect::<Vec<Key>>(), &committed);
    assert_eq!(messages.len(), committed.len() + AMONG + 3);
    eventually("the feed reports the foreign messages", async || {
        let error = deployment.last_error().await?;
        error.contains("another client publishes to the event stream").then_some(())
    })
    .await;
    let metrics = server.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_tailer_foreign_messages_total{shard=\"0\"}"));

    deployment.kill_broker_and_restore_store(&earlier).await;
    deployment.nats.restart().await.unwrap();
    eventually("the epoch increases", async || (deployment.epoch().await == 2).then_some(())).await;
    deployment.until_stored(before + 103).await;
    assert_exactly(&deployment.published().await, &committed);
}

/// Between the look at the end of the stream and the arrival of an event, there is usually another message.
#[tokio::test]
async fn a_stream_that_other_messages_fill_all_the_time_is_reported_and_the_feed_continues_after_them() {
    /// Number of messages after which a look at the end of the stream takes so long that others arrive during it at a
    /// lower rate too.
    const FAST: usize = 1_000;
    let deployment = Deployment::start(1).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=1).await;
    deployment.until_published(1).await;
    let (enough, sent) = (CancellationToken::new(), AtomicUsize::new(0));
    let (context, _) = deployment.stream(0).await;
    let publish = join_all((0..16).map(async |publisher| {
        while !enough.is_cancelled() {
            context.publish("noetl.events.foreign", "not an event".into()).await.unwrap().await.unwrap();
            if sent.fetch_add(1, Ordering::Relaxed) > FAST {
                // The publishers do not wait for the same time, so that their messages are spread.
                sleep_in_scenario(Duration::from_millis(30 + 7 * publisher)).await;
            }
        }
    }));
    let look = async {
        let (mut events, mut batch) = (2.., 0);
        // A batch may get through, on a fast machine. The next look begins after it, so it takes a short time again.
        eventually("the feed says why it does not continue", async || {
            let event = events.next()?;
            deployment.commit(7, event..=event).await;
            let latest = deployment.sum_over_shards("SELECT batch FROM noetl.tail_cursor").await;
            if std::mem::replace(&mut batch, latest) != latest {
                sent.store(0, Ordering::Relaxed);
            }
            deployment.last_error().await?.contains("other messages arrive all the time").then_some(())
        })
        .await;
        enough.cancel();
    };
    tokio::join!(publish, look);
    deployment.until_all_published().await;
}
