//! An open transaction delays only its own events, and costs the feed nothing. The tests count work instead of time.

use std::time::Duration;

use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::tail;
use noetl_testkit::feed::{assert_exactly, run};
use noetl_testkit::{Deployment, sleep_in_scenario};
use sqlx::AssertSqlSafe;

const UNCOMMITTED: i64 = 8_000;
const EVENTS: i64 = 30;

async fn number(deployment: &Deployment, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut deployment.shard(0).await).await.unwrap()
}

/// Returns the number of index entries of events that were read so far. The database publishes its counts at most once
/// a second, with the next statement of a connection.
async fn entries_read(deployment: &Deployment) -> i64 {
    sleep_in_scenario(Duration::from_secs(2)).await;
    let read = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname LIKE 'event%'";
    number(deployment, read).await
}

#[tokio::test]
async fn the_cost_of_the_feed_does_not_grow_with_open_transactions_and_held_snapshots() {
    let deployment = Deployment::start(1).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    the_feed_does_not_visit_the_rows_of_an_open_transaction(&deployment).await;
    the_cost_of_an_update_of_the_cursor_does_not_grow_while_a_snapshot_is_held(&deployment).await;
}

async fn the_feed_does_not_visit_the_rows_of_an_open_transaction(deployment: &Deployment) {
    let shard = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    let mut open = deployment.shard(0).await;
    let rows = format!(
        "BEGIN; SAVEPOINT early; INSERT INTO noetl.event (execution_id, event_id)
         SELECT 1, n FROM generate_series(1, {UNCOMMITTED}) AS n; RELEASE early; SAVEPOINT late"
    );
    run(&mut open, &rows).await;
    let before = entries_read(deployment).await;
    for event in 1..=EVENTS {
        deployment.commit(2, event..=event).await;
        deployment.until_stored(usize::try_from(event).unwrap()).await;
        let status = tail::status(&shard).await.unwrap().unwrap();
        assert!(status.lag_events <= 1, "{status:?}");
    }
    let read = entries_read(deployment).await - before;
    assert!(read < UNCOMMITTED, "{read} index entries were read for {EVENTS} events");
    run(&mut open, "COMMIT").await;
    deployment.until_all_published().await;
    assert_exactly(&deployment.stored(0).await, &deployment.committed().await);
}

/// A snapshot of another session keeps all old versions of the cursor row. The cost of an update must not grow with
/// them.
async fn the_cost_of_an_update_of_the_cursor_does_not_grow_while_a_snapshot_is_held(deployment: &Deployment) {
    const BLOCKS: &str =
        "SELECT (heap_blks_hit + heap_blks_read)::bigint FROM pg_statio_user_tables WHERE relname = 'tail_cursor'";
    const UPDATES: &str = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'tail_cursor'";
    const IN_PLACE: &str = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tail_cursor'";
    let stored = deployment.committed().await.len();
    let mut holder = deployment.shard(0).await;
    run(&mut holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM noetl.tail_cursor").await;
    // Old versions, as after an hour.
    let mut other = deployment.shard(0).await;
    let old = "DO $$ BEGIN
                   FOR n IN 1..4000 LOOP UPDATE noetl.tail_cursor SET updated_at = now(); COMMIT; END LOOP;
               END $$";
    run(&mut other, old).await;
    // The counts of a connection are complete when it is closed.
    sqlx::Connection::close(other).await.unwrap();
    sleep_in_scenario(Duration::from_secs(2)).await;
    let before =
        [number(deployment, BLOCKS).await, number(deployment, UPDATES).await, number(deployment, IN_PLACE).await];
    for event in 1..=100 {
        deployment.commit(3, event..=event).await;
        deployment.until_stored(stored + usize::try_from(event).unwrap()).await;
    }
    sleep_in_scenario(Duration::from_secs(2)).await;
    let after =
        [number(deployment, BLOCKS).await, number(deployment, UPDATES).await, number(deployment, IN_PLACE).await];
    let [blocks, updates, in_place] = [0, 1, 2].map(|index| after[index] - before[index]);
    assert!(updates >= 200, "{updates} updates");
    assert!(blocks < 20 * updates, "{blocks} blocks were read for {updates} updates");
    assert!(2 * in_place > updates, "{in_place} of {updates} updates changed no index");
}
