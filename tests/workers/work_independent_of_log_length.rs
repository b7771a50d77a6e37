//! The work to read an execution's state and to publish an event does not grow with the log. The tests count work
//! instead of time: rows and index entries that the database reports as read.

use std::time::Duration;

use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots;
use noetl_testkit::{Deployment, WAIT_TIMEOUT, sleep_in_scenario};
use serde_json::json;

const SHORT: i64 = 1_000;
const LONG: i64 = 30_000;
const MORE: i64 = 10;
const BACKLOG: i64 = 10_000;

async fn write(deployment: &Deployment, execution: i64, events: std::ops::Range<i64>) {
    let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
                  SELECT $1, $1 + n, 'step.enter', 'step' || n % 10 FROM generate_series($2, $3) AS n";
    let insert = sqlx::query(insert).bind(execution).bind(events.start).bind(events.end - 1);
    insert.execute(&mut deployment.shard(0).await).await.unwrap();
}

/// Returns the number of rows and index entries that were read from all partitions so far.
async fn read(deployment: &Deployment) -> i64 {
    let query = "SELECT ((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname LIKE 'event%')
                       + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'event%'))::bigint";
    sqlx::query_scalar(query).fetch_one(&mut deployment.shard(0).await).await.unwrap()
}

/// Returns the work of reading one execution's state. The database publishes its counts at most once a second, with the
/// next statement of the connection.
async fn work(deployment: &Deployment, reader: &Database, id: i64) -> i64 {
    sleep_in_scenario(Duration::from_millis(1100)).await;
    assert_eq!(snapshots::read(reader, &Scope::Unrestricted, &[], WAIT_TIMEOUT).await.unwrap().len(), 0);
    let before = read(deployment).await;
    assert_eq!(snapshots::read(reader, &Scope::Unrestricted, &[id], WAIT_TIMEOUT).await.unwrap()[0].folded, MORE);
    sleep_in_scenario(Duration::from_millis(1100)).await;
    assert_eq!(snapshots::read(reader, &Scope::Unrestricted, &[], WAIT_TIMEOUT).await.unwrap().len(), 0);
    read(deployment).await - before
}

#[tokio::test]
async fn reading_a_state_needs_the_same_work_for_a_long_log_as_for_a_short_one() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_without_projector().await;
    let (short, long) = (server.start_execution().await, server.start_execution().await);
    write(&deployment, short, 10..10 + SHORT).await;
    write(&deployment, long, 10..10 + LONG).await;
    sqlx::query("VACUUM ANALYZE noetl.event").execute(&mut deployment.shard(0).await).await.unwrap();
    for id in [short, long] {
        assert_eq!(server.advance_projections(&[id]).await["failed"], json!([]));
        write(&deployment, id, 100_000..100_000 + MORE).await;
    }
    // A single connection, whose plan is cached for the short log.
    let reader = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    for _ in 0..8 {
        snapshots::read(&reader, &Scope::Unrestricted, &[short], WAIT_TIMEOUT).await.unwrap();
    }
    let (of_short, of_long) = (work(&deployment, &reader, short).await, work(&deployment, &reader, long).await);
    assert!(
        of_long <= 2 * of_short.max(MORE),
        "{of_long} rows and entries for the long log, {of_short} for the short one"
    );
}

#[tokio::test]
async fn publishing_an_event_does_not_read_the_log_before_it() {
    let deployment = Deployment::start(1).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    // Cached plans are made while the log is almost empty.
    for event in 1..=10 {
        deployment.commit(7, event..=event).await;
        deployment.until_stored(usize::try_from(event).unwrap()).await;
    }
    deployment.commit(8, 11..=BACKLOG).await;
    deployment.until_stored(usize::try_from(BACKLOG).unwrap()).await;
    // The leader polls at least twice a second. The work of a poll is counted with the next poll.
    sleep_in_scenario(Duration::from_secs(2)).await;
    let before = read(&deployment).await;
    for event in BACKLOG + 1..=BACKLOG + 10 {
        deployment.commit(7, event..=event).await;
        deployment.until_stored(usize::try_from(event).unwrap()).await;
    }
    sleep_in_scenario(Duration::from_secs(2)).await;
    let work = read(&deployment).await - before;
    assert!(work < BACKLOG, "{work} rows and index entries were read for ten events");
}
