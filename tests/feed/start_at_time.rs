//! A reader that starts at a time gets each event published since then once, and gets a gap if some of them may be
//! dropped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, assert_exactly, insert};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Returns the events of a shard's stream with their times of publishing.
async fn published(deployment: &Deployment, shard: usize) -> Vec<(Key, DateTime<Utc>)> {
    let (_, stream) = deployment.stream(shard).await;
    let first = stream.cached_info().state.first_sequence;
    let times = (first..).zip(deployment.stored(shard).await).map(async |(sequence, key)| {
        let time = stream.get_raw_message(sequence).await.unwrap().time.unix_timestamp_nanos();
        (key, DateTime::from_timestamp_nanos(i64::try_from(time).unwrap()))
    });
    join_all(times).await
}

fn since(time: DateTime<Utc>) -> Value {
    json!({ "since": time.to_rfc3339_opts(SecondsFormat::Nanos, true) })
}

#[tokio::test]
async fn a_reader_from_any_time_gets_every_later_event_once_and_a_gap_only_if_events_were_dropped() {
    let deployment = Deployment::start(2).await;
    let server = deployment.feed_replica_with(&[("NOETL_EVENT_STREAM_RETENTION_SECS", "600")]).await;
    deployment.feeds_begun().await;
    a_start_time_before_the_first_event_or_in_the_future_is_valid(&deployment, &server).await;
    Box::pin(a_reader_from_a_time_gets_every_later_event_once_and_then_live_events(&deployment, &server)).await;
    a_start_time_before_the_retention_gives_a_gap_only_if_events_were_dropped(&deployment, &server).await;
}

async fn a_reader_from_a_time_gets_every_later_event_once_and_then_live_events(
    deployment: &Deployment,
    server: &Server,
) {
    let enough = AtomicBool::new(true);
    join_all((0..2).map(|index| Writer::new(deployment, index).write(&enough))).await;
    deployment.until_all_published().await;
    let so_far = published(deployment, 0).await;
    let time = so_far[so_far.len() / 2].1;

    enough.store(false, Ordering::Relaxed);
    let writing = join_all((2..4).map(|index| Writer::new(deployment, index).write(&enough)));
    let reading = async {
        let mut readers = Vec::new();
        for _ in 0..5 {
            readers.push(Reader::open(server, since(time), Value::Null).await);
        }
        enough.store(true, Ordering::Relaxed);
        readers
    };
    let (_, mut readers) = tokio::join!(writing, reading);
    for shard in 0..2 {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], 1000)).await;
    }
    deployment.until_all_published().await;
    let (one, other) = (published(deployment, 0).await, published(deployment, 1).await);
    let later: BTreeSet<Key> = one.iter().chain(&other).filter(|(_, at)| *at >= time).map(|(key, _)| *key).collect();
    assert!(later.len() < one.len() + other.len());
    for reader in &mut readers {
        assert!(reader.until_seen(later.clone()).await, "the feed ended");
        assert_exactly(&reader.seen, &later);
        assert_eq!(reader.gaps(), []);
    }
}

/// The feed has no events yet.
async fn a_start_time_before_the_first_event_or_in_the_future_is_valid(deployment: &Deployment, server: &Server) {
    deployment.commit_on_every_shard(1..=5).await;
    deployment.until_all_published().await;
    let time = published(deployment, 0).await[0].1;
    let old = deployment.committed().await;
    let mut early = Reader::open(server, since(time - TimeDelta::days(10_000)), Value::Null).await;
    let mut late = Reader::open(server, since(time + TimeDelta::days(10_000)), Value::Null).await;
    deployment.commit_on_every_shard(6..=7).await;
    let all = deployment.committed().await;
    assert!(early.until_seen(all.clone()).await, "the feed ended");
    assert!(late.until_seen(all.difference(&old).copied()).await, "the feed ended");
    assert_exactly(&early.seen, &all);
    assert_exactly(&late.seen, &all.difference(&old).copied().collect());
    assert_eq!((early.gaps(), late.gaps()), (vec![], vec![]));
}

async fn a_start_time_before_the_retention_gives_a_gap_only_if_events_were_dropped(
    deployment: &Deployment,
    server: &Server,
) {
    let time = published(deployment, 0).await[0].1;
    let open = async |time| Reader::open(server, since(time), Value::Null).await;
    assert_eq!(open(time - TimeDelta::hours(1)).await.gaps(), []);
    deployment.stream(0).await.1.purge().sequence(4).await.unwrap();
    let kept = deployment.committed().await.len() - 3;
    let reader = open(time - TimeDelta::hours(1)).await;
    assert_eq!((reader.gaps(), reader.seen.len()), (vec![(0, 1, 3, "RETENTION")], kept));
    // The retention keeps messages of this age, so all dropped messages were older.
    let reader = open(time - TimeDelta::minutes(1)).await;
    assert_eq!((reader.gaps(), reader.seen.len()), (vec![], kept));
}
