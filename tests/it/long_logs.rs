//! What it costs to read an execution's state, and to publish an event, does not grow with the log. Work is counted, not
//! timed: rows and index entries that the database says it read.

use std::time::Duration;

use noetl_graphql::storage::error::DatabaseName;
use noetl_graphql::storage::pools::Database;
use noetl_graphql::storage::snapshots;
use serde_json::json;

use crate::common::{Deployment, pass};
use crate::projections::{QUIET, advance, execution};

const SHORT: i64 = 1_000;
const LONG: i64 = 100_000;
const MORE: i64 = 10;
const BACKLOG: i64 = 20_000;

async fn write(deployment: &Deployment, execution: i64, events: std::ops::Range<i64>) {
    let insert = "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name)
                  SELECT $1, $1 + n, 'step.enter', 'step' || n % 10 FROM generate_series($2, $3) AS n";
    let insert = sqlx::query(insert).bind(execution).bind(events.start).bind(events.end - 1);
    insert.execute(&mut deployment.shard(0).await).await.unwrap();
}

/// Rows and index entries that were read of all partitions so far.
async fn read(deployment: &Deployment) -> i64 {
    let query = "SELECT ((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname LIKE 'event%')
                       + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'event%'))::bigint";
    sqlx::query_scalar(query).fetch_one(&mut deployment.shard(0).await).await.unwrap()
}

/// What reading one execution's state reads. A connection publishes its counts once a second, with the next
/// statement.
async fn work(deployment: &Deployment, reader: &Database, id: i64) -> i64 {
    pass(Duration::from_millis(1100)).await;
    assert_eq!(snapshots::read(reader, &[]).await.unwrap().len(), 0);
    let before = read(deployment).await;
    assert_eq!(snapshots::read(reader, &[id]).await.unwrap()[0].folded, MORE);
    pass(Duration::from_millis(1100)).await;
    assert_eq!(snapshots::read(reader, &[]).await.unwrap().len(), 0);
    read(deployment).await - before
}

#[tokio::test]
async fn a_long_log_is_read_as_fast_as_a_short_one() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica_with(&QUIET).await;
    let (short, long) = (execution(&server).await, execution(&server).await);
    write(&deployment, short, 10..10 + SHORT).await;
    write(&deployment, long, 10..10 + LONG).await;
    sqlx::query("VACUUM ANALYZE noetl.event").execute(&mut deployment.shard(0).await).await.unwrap();
    for id in [short, long] {
        assert_eq!(advance(&server, &[id]).await["failed"], json!([]));
        write(&deployment, id, 200_000..200_000 + MORE).await;
    }
    // One connection, whose plan is made for the short log and kept.
    let reader = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    for _ in 0..8 {
        snapshots::read(&reader, &[short]).await.unwrap();
    }
    let (of_short, of_long) = (work(&deployment, &reader, short).await, work(&deployment, &reader, long).await);
    assert!(of_long <= 2 * of_short.max(MORE), "{of_long} of the long log, {of_short} of the short one");
}

#[tokio::test]
async fn an_event_is_published_as_fast_behind_a_long_log_as_behind_none() {
    let deployment = Deployment::start(1).await;
    let _server = deployment.replica_with(&[("NOETL_PROJECTOR", "false"), ("NOETL_OUTBOX_RELAY", "false")]).await;
    deployment.feeds_begun().await;
    // Whatever plans are kept are made for an empty log.
    for event in 1..=10 {
        deployment.commit(7, event..=event).await;
        deployment.until_published(usize::try_from(event).unwrap()).await;
    }
    deployment.commit(8, 11..=BACKLOG).await;
    deployment.until_published(usize::try_from(BACKLOG).unwrap()).await;
    // The leader looks at least twice a second, and what it read is counted with its next look.
    pass(Duration::from_secs(2)).await;
    let before = read(&deployment).await;
    for event in BACKLOG + 1..=BACKLOG + 10 {
        deployment.commit(7, event..=event).await;
        deployment.until_published(usize::try_from(event).unwrap()).await;
    }
    pass(Duration::from_secs(2)).await;
    let work = read(&deployment).await - before;
    assert!(work < BACKLOG, "{work} rows and index entries were read for ten events");
}
