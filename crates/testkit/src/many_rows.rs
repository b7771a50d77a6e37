//! Many completed executions, written directly to the databases as the server writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use noetl_domain::ids::{EPOCH_UNIX_MS, Id};
use noetl_domain::shard::ShardMap;
use sqlx::PgConnection;

use super::Deployment;

/// Rows of the executions `$1` with `$2` events each: their log, list row, outbox row and snapshot. Each execution has
/// the dedup key `k-` and its id.
const SHARD_ROWS: [&str; 4] = [
    "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, context, meta, created_at)
     SELECT id, id + n, CASE WHEN n = 0 THEN 'playbook_started' WHEN n = $2::bigint - 1 THEN 'playbook.completed'
                             ELSE 'call.done' END,
            'work', 'DONE', jsonb_build_object('n', n, 'text', repeat('x', 200)),
            CASE WHEN n = 0 THEN jsonb_build_object('dedup', jsonb_build_object(
                'key', 'k-' || id, 'window_seconds', 86400, 'request_hash', repeat('0', 64))) END, now()
     FROM unnest($1::bigint[]) AS id, generate_series(0, $2::bigint - 1) AS n",
    "INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time, end_time, path, last_event_id,
                                  last_event_type)
     SELECT id, 0, 'COMPLETED', now(), now(), 'many/rows', id + $2::bigint - 1, 'playbook.completed'
     FROM unnest($1::bigint[]) AS id",
    "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, status, published_at)
     SELECT id, id, 'noetl.executions.shared.' || id, jsonb_build_object('n', $2::bigint), 'PUBLISHED', now()
     FROM unnest($1::bigint[]) AS id",
    "INSERT INTO noetl.projection_snapshot (aggregate_id, aggregate_type, version, snapshot, checksum)
     SELECT id::text, 'noetl_graphql_workflow_state', id + $2::bigint - 1, jsonb_build_object('text', repeat('x', 200)), 'none'
     FROM unnest($1::bigint[]) AS id",
];
const CLAIMS: &str = "INSERT INTO noetl.subscription_dedup
         (subscription_id, dedup_key, execution_id, state, request_hash, expires_at)
     SELECT 0, 'k-' || id, id, 1, '\\x00', now() + interval '1 day' FROM unnest($1::bigint[]) AS id";

impl Deployment {
    /// Writes completed executions with this number of events each, on all shards. A check finds no difference in them.
    pub async fn write_executions(&self, executions: usize, events: i64) {
        let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        let start = now - EPOCH_UNIX_MS;
        // One execution in each millisecond.
        let ids = (start..).map(Id::first_of).take(executions);
        let map = ShardMap::even(u16::try_from(self.shard_dsns.len()).unwrap());
        let mut of_shard = vec![Vec::new(); self.shard_dsns.len()];
        for id in ids {
            of_shard[usize::from(map.shard_of(id))].push(id.get());
        }
        let mut cluster = self.cluster_session().await;
        let covered = "UPDATE noetl.machine_lease SET ceiling_ms = greatest(ceiling_ms, $1) WHERE machine_id = 0";
        let end = i64::try_from(start).unwrap() + i64::try_from(executions).unwrap();
        sqlx::query(covered).bind(end).execute(&mut *cluster).await.unwrap();
        for (shard, ids) in of_shard.iter().enumerate() {
            sqlx::query(CLAIMS).bind(ids).execute(&mut *cluster).await.unwrap();
            write_logs(&mut *self.shard_session(shard).await, ids, events).await;
        }
    }
}

async fn write_logs(shard: &mut PgConnection, ids: &[i64], events: i64) {
    for rows in SHARD_ROWS {
        sqlx::query(rows).bind(ids).bind(events).execute(&mut *shard).await.unwrap();
    }
}
