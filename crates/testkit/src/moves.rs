//! Buckets in each state of a move, made by SQL without the mover. So tests of reads do not depend on its speed, and see
//! states that it passes in milliseconds.

use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;
use sqlx::{AssertSqlSafe, PgConnection};

use super::feed::run;
use super::{Deployment, eventually};

/// Move of the bucket of an execution.
#[derive(Debug, Clone, Copy)]
pub struct BucketMove {
    /// The bucket.
    pub bucket: u16,
    /// Shard that it leaves.
    pub from: usize,
    /// Shard to which it goes.
    pub to: usize,
}

impl Deployment {
    /// Begins a move: the map names its target from now on.
    pub async fn begin_move(&self, execution: i64, from: usize, to: usize) -> BucketMove {
        let bucket = bucket_of(Id::new(execution));
        let begin = format!(
            "INSERT INTO noetl.bucket_move (bucket, source, target) VALUES ({bucket}, {from}, {to});
             UPDATE noetl.shard_map_version SET version = version + 1"
        );
        run(&mut *self.cluster_session().await, &begin).await;
        BucketMove { bucket, from, to }
    }

    /// Copies the bucket's events, executions and open outbox rows to the target, and notes the new ids of the outbox
    /// rows on the source.
    pub async fn copy_bucket(&self, moving: BucketMove) {
        let BucketMove { bucket, from, to } = moving;
        let (mut source, mut target) = (self.shard_session(from).await, self.shard(to).await);
        run(&mut target, "SET noetl.moves_buckets = 'on'").await;
        for (table, open, overrides) in [
            ("event", "", "'{\"tx_id\": \"4\"}'::jsonb"),
            ("execution", "", "'{}'::jsonb"),
            (
                "outbox",
                "AND status <> 'PUBLISHED'",
                "jsonb_build_object('outbox_id', nextval('noetl.outbox_outbox_id_seq'))",
            ),
        ] {
            let order = if table == "outbox" { "outbox_id" } else { "execution_id" };
            let select = format!(
                "SELECT to_jsonb(row)::text FROM noetl.{table} AS row
                 WHERE noetl.bucket_of(execution_id) = {bucket} {open} ORDER BY {order}"
            );
            let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(select)).fetch_all(&mut *source).await.unwrap();
            for row in rows {
                let insert = format!(
                    "INSERT INTO noetl.{table}
                     SELECT row.* FROM jsonb_populate_record(NULL::noetl.{table}, $1::jsonb || {overrides}) AS row
                     ON CONFLICT DO NOTHING"
                );
                sqlx::query(AssertSqlSafe(insert)).bind(&row).execute(&mut target).await.unwrap();
                if table == "outbox" {
                    note_forward(&mut source, &mut target, moving, &row).await;
                }
            }
        }
    }

    /// Gives the bucket to the target: the switch. The end of the source's feed is the barrier.
    pub async fn switch_bucket(&self, moving: BucketMove) {
        let BucketMove { bucket, from, to } = moving;
        let end = "SELECT feed_id::text, feed_epoch, last_sequence FROM noetl.tail_cursor";
        let end: Option<(String, i32, i64)> =
            sqlx::query_as(end).fetch_optional(&mut *self.shard_session(from).await).await.unwrap();
        let barrier = end.map_or("NULL::uuid, NULL::integer, NULL::bigint".to_owned(), |(feed, epoch, sequence)| {
            format!("'{feed}'::uuid, {epoch}, {sequence}")
        });
        let switch = format!(
            "BEGIN;
             UPDATE noetl.shard_map_version SET version = version + 1;
             UPDATE noetl.shard_bucket SET shard = {to} WHERE bucket = {bucket};
             UPDATE noetl.bucket_move
             SET state = 'switched', map_version = (SELECT version FROM noetl.shard_map_version),
                 (barrier_feed, barrier_epoch, barrier_sequence) = (SELECT {barrier})
             WHERE bucket = {bucket} AND state IN ('copying', 'fenced');
             COMMIT"
        );
        run(&mut *self.cluster_session().await, &switch).await;
    }

    /// Completes a switch: deletes the open outbox rows of the source, and marks the move as settled.
    pub async fn settle_bucket(&self, moving: BucketMove) {
        let BucketMove { bucket, from, .. } = moving;
        let delete = format!(
            "DELETE FROM noetl.outbox WHERE noetl.bucket_of(execution_id) = {bucket} AND status <> 'PUBLISHED'"
        );
        run(&mut *self.shard_session(from).await, &delete).await;
        let settle = format!(
            "UPDATE noetl.bucket_move SET state = 'settled' WHERE bucket = {bucket} AND state = 'switched';
             UPDATE noetl.shard_map_version SET version = version + 1"
        );
        run(&mut *self.cluster_session().await, &settle).await;
    }

    /// Deletes the source's rows of a settled move.
    pub async fn clean_bucket(&self, moving: BucketMove) {
        let BucketMove { bucket, from, .. } = moving;
        let delete = format!(
            "BEGIN;
             SET LOCAL noetl.moves_buckets = 'on';
             DELETE FROM noetl.event WHERE noetl.bucket_of(execution_id) = {bucket};
             DELETE FROM noetl.execution WHERE noetl.bucket_of(execution_id) = {bucket};
             COMMIT"
        );
        run(&mut *self.shard_session(from).await, &delete).await;
        let clean = format!(
            "UPDATE noetl.bucket_move SET state = 'cleaned' WHERE bucket = {bucket} AND state = 'settled';
             UPDATE noetl.shard_map_version SET version = version + 1"
        );
        run(&mut *self.cluster_session().await, &clean).await;
    }

    /// Returns the number of moves that are neither settled nor cleaned.
    pub async fn open_moves(&self) -> i64 {
        self.in_cluster("SELECT count(*) FROM noetl.bucket_move WHERE state NOT IN ('settled', 'cleaned')").await
    }

    /// Waits until each running replica uses the stored map.
    pub async fn until_map_is_known(&self) {
        let behind = "SELECT count(*) FROM noetl.machine_lease, noetl.shard_map_version AS map
                      WHERE expires_at > now() AND map_owner = owner AND map_version < map.version";
        eventually("each replica uses the new map", async || (self.in_cluster(behind).await == 0).then_some(())).await;
    }
}

async fn note_forward(source: &mut PgConnection, target: &mut PgConnection, moving: BucketMove, row: &str) {
    let number = "SELECT currval('noetl.outbox_outbox_id_seq')";
    let number: i64 = sqlx::query_scalar(number).fetch_one(target).await.unwrap();
    let forward = "INSERT INTO noetl.outbox_forward (outbox_id, bucket, shard, new_id)
                   VALUES (($1::jsonb ->> 'outbox_id')::bigint, $2, $3, $4)";
    sqlx::query(forward)
        .bind(row)
        .bind(moving.bucket.cast_signed())
        .bind(i16::try_from(moving.to).unwrap())
        .bind(number)
        .execute(source)
        .await
        .unwrap();
}
