//! Rows with transaction ids that this database cluster never assigned are published once: rows of a copied table, of
//! logical replication, of a restored dump, and rows from before the feed began.

use std::collections::BTreeSet;
use std::process::Command;

use noetl_testkit::feed::{Key, Reader, assert_exactly, run};
use noetl_testkit::{Deployment, NOT_DURABLE, Server, eventually, own_postgres};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Returns the next transaction id of shard 0's server.
async fn next_transaction(deployment: &Deployment) -> i64 {
    deployment.sum_over_shards("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
}

/// Returns the number of batches that shard 0's feed has published.
async fn batches(deployment: &Deployment) -> i64 {
    deployment.sum_over_shards("SELECT batch FROM noetl.tail_cursor").await
}

/// Uses transaction ids up to at least this number.
async fn use_transactions(connection: &mut PgConnection, up_to: i64) {
    let burn = format!("DO $$ BEGIN WHILE pg_current_xact_id()::text::bigint < {up_to} LOOP COMMIT; END LOOP; END $$");
    run(connection, &burn).await;
}

/// Inserts a row with a transaction id of another server.
async fn copy(connection: &mut PgConnection, (execution, event): Key, transaction: i64) {
    let row = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, tx_id)
         VALUES ({execution}, {event}, 'call.done', '{transaction}')"
    );
    run(connection, &row).await;
}

/// Inserts the events 1 to `count` of an execution while no trigger runs, as `pg_restore --disable-triggers` does. Event
/// n has the transaction id `before + n`.
async fn restore(connection: &mut PgConnection, execution: i64, count: i64, before: i64) {
    let rows = format!(
        "BEGIN;
         ALTER TABLE noetl.event DISABLE TRIGGER ALL;
         INSERT INTO noetl.event (execution_id, event_id, event_type, tx_id)
         SELECT {execution}, n, 'call.done', ({before} + n)::text::xid8 FROM generate_series(1, {count}) AS n;
         ALTER TABLE noetl.event ENABLE TRIGGER ALL;
         COMMIT"
    );
    run(connection, &rows).await;
}

async fn every_event_is_stored_once(deployment: &Deployment) {
    let committed = deployment.committed().await;
    deployment.until_stored(committed.len()).await;
    deployment.until_batch_finished().await;
    assert_exactly(&deployment.published().await, &committed);
}

#[tokio::test]
async fn rows_that_are_copied_updated_or_restored_with_other_transaction_ids_are_published_once() {
    let deployment = Deployment::start(1).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    Box::pin(rows_copied_with_any_transaction_id_are_published_once_while_the_feed_runs(&deployment, &server)).await;
    an_update_by_logical_replication_keeps_the_transaction_id_of_a_row(&deployment).await;
    the_trigger_is_enabled_for_replication_again_when_a_feed_starts_after_a_restore(&deployment, server).await;
}

async fn rows_copied_with_any_transaction_id_are_published_once_while_the_feed_runs(
    deployment: &Deployment,
    server: &Server,
) {
    let mut reader = Reader::from_latest(server).await;
    let (mut open, mut shard) = (deployment.shard(0).await, deployment.shard(0).await);
    let published = next_transaction(deployment).await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    run(&mut open, "BEGIN; INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES (8, 1, 'call.done')")
        .await;
    let unfinished = "SELECT pg_current_xact_id()::text::bigint";
    let unfinished: i64 = sqlx::query_scalar(unfinished).fetch_one(&mut open).await.unwrap();
    let next = next_transaction(deployment).await;
    for (execution, role) in [(9, "origin"), (10, "replica")] {
        run(&mut shard, &format!("SET session_replication_role = {role}")).await;
        let ids = [3, published, unfinished, next + 5, next + 300, next + 1_000_000, 1 << 40];
        for (event, transaction) in (1..).zip(ids) {
            copy(&mut shard, (execution, event), transaction).await;
        }
    }
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed).await, "the feed ended");
    run(&mut open, "COMMIT").await;
    use_transactions(&mut shard, next + 400).await;
    deployment.commit(11, 1..=1).await;
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    every_event_is_stored_once(deployment).await;
    assert!(batches(deployment).await < 100, "the tailer published empty batches");
}

async fn an_update_by_logical_replication_keeps_the_transaction_id_of_a_row(deployment: &Deployment) {
    deployment.commit(12, 1..=3).await;
    every_event_is_stored_once(deployment).await;
    let mut shard = deployment.shard(0).await;
    let update = "SET session_replication_role = replica;
                  UPDATE noetl.event SET status = 'x', tx_id = (pg_current_xact_id()::text::bigint + 100)::text::xid8";
    run(&mut shard, update).await;
    let past = next_transaction(deployment).await + 200;
    use_transactions(&mut shard, past).await;
    deployment.commit(13, 1..=1).await;
    every_event_is_stored_once(deployment).await;
}

/// The rows need two pages of 10,000 rows, and the server is killed between them.
#[tokio::test]
async fn rows_with_later_ids_that_no_trigger_saw_are_published_once_even_if_the_leader_is_killed() {
    let deployment = Deployment::start(1).await;
    let mut server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let next = next_transaction(&deployment).await;
    restore(&mut deployment.shard(0).await, 7, 12_000, next + 1_000_000).await;
    let renumbered = format!("SELECT count(*) FROM noetl.event WHERE tx_id < '{}'", next + 1_000_000);
    eventually("some rows have ids of this server", async || {
        (deployment.sum_over_shards(&renumbered).await > 0).then_some(())
    })
    .await;
    server.kill_9().await;
    let _next = deployment.feed_replica().await;
    every_event_is_stored_once(&deployment).await;
    let before = batches(&deployment).await;
    deployment.commit(8, 1..=1).await;
    every_event_is_stored_once(&deployment).await;
    assert!(batches(&deployment).await - before < 10, "the tailer published empty batches");
    assert_eq!(deployment.epoch().await, 1);
}

/// `ENABLE TRIGGER ALL`, with which a restore ends, enables the trigger for ordinary writers only.
async fn the_trigger_is_enabled_for_replication_again_when_a_feed_starts_after_a_restore(
    deployment: &Deployment,
    server: Server,
) {
    let mut shard = deployment.shard(0).await;
    let next = next_transaction(deployment).await;
    restore(&mut shard, 14, 5, next + 1_000_000).await;
    every_event_is_stored_once(deployment).await;
    assert!(server.stop().await.success());
    let _next = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    run(&mut shard, "SET session_replication_role = replica").await;
    copy(&mut shard, (15, 1), 3).await;
    every_event_is_stored_once(deployment).await;
}

#[tokio::test]
async fn a_feed_that_begins_later_publishes_no_copied_row_from_before() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let next = next_transaction(&deployment).await;
    restore(&mut shard, 7, 2_000, next - 500).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    use_transactions(&mut shard, next + 3_000).await;
    deployment.commit(8, 1..=5).await;
    deployment.until_published(5).await;
    deployment.until_batch_finished().await;
    let later: BTreeSet<Key> = (1..=5).map(|event| (8, event)).collect();
    assert_exactly(&deployment.published().await, &later);
    assert!(batches(&deployment).await < 10, "the tailer published empty batches");
}

#[tokio::test]
async fn a_feed_that_begins_later_with_the_oldest_event_publishes_each_copied_row_once() {
    let deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    let next = next_transaction(&deployment).await;
    restore(&mut shard, 7, 12_000, next - 500).await;
    let _server = deployment.feed_replica_with(&[("NOETL_EVENT_STREAM_BACKFILL", "true")]).await;
    every_event_is_stored_once(&deployment).await;
    use_transactions(&mut shard, next + 13_000).await;
    deployment.commit(8, 1..=5).await;
    every_event_is_stored_once(&deployment).await;
    assert!(batches(&deployment).await < 100, "the tailer published empty batches");
}

/// The publisher's transaction ids are first below and then above those of the subscriber.
#[tokio::test]
async fn rows_of_logical_replication_are_published_once() {
    let settings = [NOT_DURABLE, ("wal_level", "logical")];
    let ((_folder, from), (_other_folder, to)) = tokio::join!(own_postgres(&settings), own_postgres(&settings));
    let origin = Deployment::on(&from.dsn("postgres"), 0).await;
    let deployment = Deployment::on(&to.dsn("postgres"), 0).await;
    let _server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let mut here = deployment.shard(0).await;
    let next = next_transaction(&deployment).await;
    use_transactions(&mut here, next + 3_000).await;
    deployment.commit(7, 1..=10).await;
    origin.commit(8, 1..=20).await;
    let mut there = origin.shard(0).await;
    run(&mut there, "CREATE PUBLICATION events FOR TABLE noetl.event WITH (publish_via_partition_root = true)").await;
    let subscribe = format!("CREATE SUBSCRIPTION events CONNECTION '{}' PUBLICATION events", origin.cluster_dsn);
    sqlx::query(AssertSqlSafe(subscribe)).execute(&mut here).await.unwrap();
    for execution in 9..=30 {
        origin.commit(execution, 1..=10).await;
    }
    arrived(&deployment, 10 + 20 + 220).await;
    every_event_is_stored_once(&deployment).await;

    let next = next_transaction(&deployment).await;
    use_transactions(&mut there, next + 2_000).await;
    for execution in 31..=40 {
        origin.commit(execution, 1..=10).await;
    }
    arrived(&deployment, 10 + 20 + 220 + 100).await;
    every_event_is_stored_once(&deployment).await;
    assert!(batches(&deployment).await < 500, "the tailer published empty batches");
    run(&mut here, "ALTER SUBSCRIPTION events DISABLE").await;
    run(&mut here, "ALTER SUBSCRIPTION events SET (slot_name = NONE)").await;
    run(&mut here, "DROP SUBSCRIPTION events").await;
}

async fn arrived(deployment: &Deployment, events: usize) {
    eventually("the rows are replicated", async || (deployment.committed().await.len() == events).then_some(())).await;
}

/// The server has used more transaction ids than the dump contains, so every id of the dump looks like one of its own.
/// The leader is killed while it renumbers, at a row that another transaction holds.
#[tokio::test]
async fn the_renumbering_of_a_dump_restored_into_a_used_server_continues_after_a_crash() {
    let ((_folder, mut old), (_other_folder, new)) =
        tokio::join!(own_postgres(&[NOT_DURABLE]), own_postgres(&[NOT_DURABLE]));
    let mut deployment = Deployment::on(&old.dsn("postgres"), 0).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    every_event_is_stored_once(&deployment).await;
    assert!(server.stop().await.success());
    deployment.commit(7, 11..=12_000).await;

    let name = deployment.cluster_dsn.rsplit('/').next().unwrap().to_owned();
    new.create_databases(std::slice::from_ref(&name)).await.unwrap();
    let mut used = PgConnection::connect(&new.dsn(&name)).await.unwrap();
    let dumped = next_transaction(&deployment).await;
    use_transactions(&mut used, dumped + 1_000).await;
    let copy = format!("pg_dump '{}' | psql -qX -v ON_ERROR_STOP=1 '{}'", old.dsn(&name), new.dsn(&name));
    let output = Command::new("sh").args(["-c", &copy]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    deployment.move_to(&new);
    old.stop().await;

    run(&mut used, "BEGIN; SELECT FROM noetl.event WHERE execution_id = 7 AND event_id = 11000 FOR UPDATE").await;
    let mut server = deployment.feed_replica().await;
    let position = "SELECT coalesce(max(event_id), 0) FROM noetl.tail_renumbering";
    eventually("one page is renumbered", async || (deployment.sum_over_shards(position).await == 10_000).then_some(()))
        .await;
    server.kill_9().await;
    assert_eq!(deployment.sum_over_shards(position).await, 10_000);
    run(&mut used, "ROLLBACK").await;
    let _next = deployment.feed_replica().await;
    every_event_is_stored_once(&deployment).await;
    assert_eq!((deployment.epoch().await, deployment.sum_over_shards(position).await), (2, 0));
}
