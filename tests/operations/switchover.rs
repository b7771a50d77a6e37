//! A switchover of PostgreSQL under load: no event that the promoted server has is repeated, and readers are told which
//! of the events that they received the promoted server does not have.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use noetl_testkit::copies::{own_server, standby, switch_server, until_replayed};
use noetl_testkit::feed::{Key, Reader, run, try_insert};
use noetl_testkit::{Deployment, eventually};
use sqlx::{Connection, PgConnection};

/// Commits events of two logs, one by one, until the database goes away or `enough` is set. The ids of the second log
/// have another order than the commits.
async fn write(dsn: &str, next: &AtomicI64, enough: &AtomicBool) {
    let Ok(mut database) = PgConnection::connect(dsn).await else { return };
    while !enough.load(Ordering::Relaxed) {
        let id = next.fetch_add(1, Ordering::Relaxed);
        for key in [(7, id), (8, 1_000_000 - id)] {
            if try_insert(&mut database, key, "call.done").await.is_err() {
                return;
            }
        }
    }
}

async fn until_committed(deployment: &Deployment, count: i64) {
    let committed = async || deployment.sum_over_shards("SELECT count(*) FROM noetl.event").await;
    eventually("events are committed", async || (committed().await >= count).then_some(())).await;
}

#[tokio::test]
async fn a_planned_switchover_under_load_repeats_no_event() {
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let standby = standby(&primary, &folder.path().join("standby")).await;
    deployment.commit(6, 1..=10).await;
    until_replayed(&deployment, &standby).await;
    let mut reader = Reader::from_beginning(&server).await;
    let (next, enough, dsn) = (AtomicI64::new(100), AtomicBool::new(false), deployment.cluster_dsn.clone());
    let switch = async {
        until_committed(&deployment, 400).await;
        // A fast shutdown sends everything to the standby.
        primary.stop().await;
    };
    tokio::join!(write(&dsn, &next, &enough), switch);
    assert!(server.stop().await.success());
    switch_server(&mut deployment, &standby);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    let server = deployment.replica().await;
    reader.reconnect(&server).await;
    let more = async {
        until_committed(&deployment, 800).await;
        enough.store(true, Ordering::Relaxed);
    };
    tokio::join!(write(&deployment.cluster_dsn, &next, &enough), more);
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    assert_eq!((reader.gaps(), deployment.epoch().await), (vec![], 1));
}

/// The first position of the stream whose event a database lacks, and the last position of the stream.
async fn lost(deployment: &Deployment, kept: &BTreeSet<Key>) -> (i64, i64) {
    let published = deployment.published().await;
    let first = published.iter().position(|key| !kept.contains(key)).expect("the standby lacks events");
    (i64::try_from(first).unwrap() + 1, i64::try_from(published.len()).unwrap())
}

#[tokio::test]
async fn a_standby_that_lacks_commits_reports_exactly_the_events_to_discard() {
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut standby = standby(&primary, &folder.path().join("standby")).await;
    let mut reader = Reader::from_beginning(&server).await;
    let (next, enough, dsn) = (AtomicI64::new(100), AtomicBool::new(false), deployment.cluster_dsn.clone());
    let failover = async {
        until_committed(&deployment, 200).await;
        // The standby is cut off in the middle of the load, so its cursor and its events are of any moment.
        standby.kill_9().await;
        let committed = deployment.committed().await.len();
        deployment.until_published(committed + 1).await;
        primary.kill_9().await;
    };
    tokio::join!(write(&dsn, &next, &enough), failover);
    assert!(server.stop().await.success());

    standby.restart().await.unwrap();
    switch_server(&mut deployment, &standby);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    let kept = deployment.committed().await;
    let (from, to) = lost(&deployment, &kept).await;
    let before: Vec<Key> = deployment.published().await.drain(..usize::try_from(from).unwrap() - 1).collect();
    let server = deployment.replica().await;
    deployment.commit(9, 10..=20).await;
    reader.reconnect(&server).await;
    assert!(reader.until_seen((10..=20).map(|id| (9, id))).await);
    let committed = deployment.committed().await;
    let mut late = Reader::from_beginning(&server).await;
    assert!(late.until_seen(committed).await);
    // Events that are repeated were seen before. One more batch comes after all of them.
    deployment.commit(9, 21..=21).await;
    let committed = deployment.committed().await;
    for reader in [&mut reader, &mut late] {
        assert!(reader.until_seen([(9, 21)]).await);
        assert_eq!(reader.gaps(), [(0, from, to, "EPOCH_CHANGED")]);
        reader.assert_kept_exactly(&committed);
        for key in &before {
            assert_eq!(reader.seen.iter().filter(|seen| *seen == key).count(), 1, "{key:?} was repeated");
        }
    }
    assert_eq!(deployment.epoch().await, 2);
}
