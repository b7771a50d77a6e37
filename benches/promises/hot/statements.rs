//! The bare statements of `execute` with a dedup key: claim, create and settle, with the same columns and values as those
//! of the server.

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{CONNECTIONS, Stage};

const CLAIM: &str = r"
    INSERT INTO noetl.subscription_dedup AS standing
        (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at, duplicates)
    SELECT scope, key, execution_id, request_hash, 0, request::jsonb, now(), now() + make_interval(secs => window_seconds),
           repeated
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::integer[], $6::text[], $7::bigint[])
        AS t (scope, key, execution_id, request_hash, window_seconds, request, repeated)
    ORDER BY scope, key
    ON CONFLICT (subscription_id, dedup_key) DO UPDATE
    SET (execution_id, request_hash, state, request, seen_at, expires_at, duplicates) = (
        SELECT c.execution_id, c.request_hash, c.state, c.request, c.seen_at, c.expires_at, c.duplicates
        FROM (VALUES
            (true, EXCLUDED.execution_id, EXCLUDED.request_hash, EXCLUDED.state, EXCLUDED.request,
             EXCLUDED.seen_at, EXCLUDED.expires_at, EXCLUDED.duplicates),
            (false, standing.execution_id, standing.request_hash, standing.state, standing.request,
             standing.seen_at, standing.expires_at, standing.duplicates + EXCLUDED.duplicates + 1)
        ) AS c (fresh, execution_id, request_hash, state, request, seen_at, expires_at, duplicates)
        WHERE c.fresh = (standing.state = 1 AND CASE
            WHEN standing.expires_at IS NULL
            THEN now() - standing.seen_at >= EXCLUDED.expires_at - EXCLUDED.seen_at
            ELSE standing.expires_at <= now()
        END))
    RETURNING subscription_id, dedup_key, execution_id, request_hash, state = 0";

const CREATE: &str = r"
    WITH input AS (
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
                             $7::text[], $8::text[], $9::text[], $10::text[], $11::text[]) WITH ORDINALITY
            AS t (execution_id, event_id, catalog_id, parent, path, context, meta, subject, command, tenant_id,
                  organization_id, position)
    ), created AS (
        INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path,
                                     last_event_type, last_node_name, last_event_id, start_time, tenant_id,
                                     organization_id)
        SELECT execution_id, catalog_id, parent, 'PENDING', path, 'playbook_started', path, event_id, now(),
               tenant_id, organization_id
        FROM input
        ON CONFLICT (execution_id) DO NOTHING
        RETURNING execution_id
    ), started AS (
        INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, event_type, node_id,
                                 node_name, node_type, status, context, meta, tenant_id, organization_id)
        SELECT execution_id, event_id, catalog_id, parent, 'playbook_started', 'playbook', path, 'execution',
               'STARTED', context::jsonb, meta::jsonb, tenant_id, organization_id
        FROM input JOIN created USING (execution_id)
    )
    INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec, tenant_id, organization_id)
    SELECT execution_id, event_id, subject, command::jsonb, 'json', tenant_id, organization_id
    FROM input JOIN created USING (execution_id) ORDER BY position";

const SETTLE: &str = r"
    WITH claims AS (
        SELECT subscription_id, dedup_key FROM noetl.subscription_dedup
        WHERE state = 0 AND execution_id = ANY($1)
        ORDER BY subscription_id, dedup_key FOR UPDATE)
    UPDATE noetl.subscription_dedup AS settled SET state = 1, request = NULL
    FROM claims
    WHERE settled.subscription_id = claims.subscription_id AND settled.dedup_key = claims.dedup_key
      AND settled.state = 0 AND settled.execution_id = ANY($1)";

/// Texts of the rows that the server writes for an execution of the benchmark's playbook.
#[derive(Debug, Clone)]
pub struct Texts {
    pub catalog_id: i64,
    pub path: String,
}

/// A new execution of the bare side, with the values that the server would write.
#[derive(Debug)]
pub struct New {
    pub key: String,
    pub id: i64,
    pub event: i64,
    context: String,
    meta: String,
    command: String,
    request: String,
    subject: String,
}

impl Texts {
    pub fn execution(&self, key: String, id: i64, event: i64, n: usize) -> New {
        let Self { catalog_id, path } = self;
        let at = "2026-01-31T10:00:00.123456Z";
        New {
            context: format!(
                r#"{{"catalog_id":"{catalog_id}","execution_id":"{id}","path":"{path}","workload":{{"a":1,"n":{n}}}}}"#
            ),
            meta: format!(r#"{{"emitted_at":"{at}","emitter":"noetl-graphql"}}"#),
            command: format!(
                r#"{{"execution_id":"{id}","event_id":"{event}","catalog_id":"{catalog_id}","path":"{path}","pool":"shared","tenant_id":"default","organization_id":"default"}}"#
            ),
            request: format!(
                r#"{{"execution_id":{id},"event_id":{event},"parent_execution_id":null,"catalog_id":{catalog_id},"path":"{path}","workload":{{"a":1,"n":{n}}},"pool":null,"trace":null,"emitted_at":"{at}","actor":null,"tenancy":{{"tenant_id":"default","organization_id":"default"}}}}"#
            ),
            subject: format!("noetl.executions.shared.{id}"),
            key,
            id,
            event,
        }
    }
}

/// Pools of the bare side, as large as those of the server.
#[derive(Debug, Clone)]
pub struct Pools {
    cluster: PgPool,
    shards: Vec<PgPool>,
    map: std::sync::Arc<ShardMap>,
}

/// Opens all connections of a pool for statements on this many rows, with the session settings of the server. Like the
/// server, it has statements on few rows planned only once.
pub async fn pool(dsn: &str, rows: usize) -> PgPool {
    let options: PgConnectOptions = dsn.parse().unwrap();
    let planning = if rows <= 100 { "force_generic_plan" } else { "auto" };
    let options = options.options([("synchronous_commit", "on"), ("jit", "off"), ("enable_seqscan", "off")]);
    let options = options.options([("plan_cache_mode", planning)]);
    // A connection is used without a ping before it.
    let pool =
        PgPoolOptions::new().max_connections(CONNECTIONS).min_connections(CONNECTIONS).test_before_acquire(false);
    pool.connect_with(options).await.unwrap()
}

impl Pools {
    /// Opens the pools for calls of this many executions.
    pub async fn new(stage: &Stage, size: usize) -> Self {
        let mut shards = Vec::new();
        for dsn in &stage.deployment.shard_dsns {
            shards.push(pool(dsn, size).await);
        }
        let map = ShardMap::even(u16::try_from(shards.len()).unwrap());
        Self { cluster: pool(&stage.deployment.cluster_dsn, size).await, shards, map: map.into() }
    }

    /// Claims, creates and settles executions: a statement for the claims, one for each shard, and one to settle.
    pub async fn execute(&self, all: &[New], catalog_id: i64, path: &str) {
        let column = |of: fn(&New) -> i64| all.iter().map(of).collect::<Vec<i64>>();
        let claimed = sqlx::query(CLAIM)
            .bind(vec![0_i64; all.len()])
            .bind(all.iter().map(|one| one.key.as_str()).collect::<Vec<&str>>())
            .bind(column(|one| one.id))
            .bind(all.iter().map(|_| vec![7_u8; 32]).collect::<Vec<Vec<u8>>>())
            .bind(vec![600_i32; all.len()])
            .bind(all.iter().map(|one| one.request.as_str()).collect::<Vec<&str>>())
            .bind(vec![0_i64; all.len()])
            .fetch_all(&self.cluster)
            .await
            .unwrap();
        assert_eq!(claimed.len(), all.len());
        let creations = self.shards.iter().enumerate().filter_map(|(index, shard)| {
            let here = |one: &&New| usize::from(self.map.shard_of(Id::new(one.id))) == index;
            let here: Vec<&New> = all.iter().filter(here).collect();
            (!here.is_empty()).then(|| create(shard, here, catalog_id, path))
        });
        futures::future::join_all(creations).await;
        sqlx::query(SETTLE).bind(column(|one| one.id)).execute(&self.cluster).await.unwrap();
    }
}

async fn create(shard: &PgPool, new: Vec<&New>, catalog_id: i64, path: &str) {
    let created = sqlx::query(CREATE)
        .bind(new.iter().map(|one| one.id).collect::<Vec<i64>>())
        .bind(new.iter().map(|one| one.event).collect::<Vec<i64>>())
        .bind(vec![catalog_id; new.len()])
        .bind(vec![None::<i64>; new.len()])
        .bind(vec![path; new.len()])
        .bind(new.iter().map(|one| one.context.as_str()).collect::<Vec<&str>>())
        .bind(new.iter().map(|one| one.meta.as_str()).collect::<Vec<&str>>())
        .bind(new.iter().map(|one| one.subject.as_str()).collect::<Vec<&str>>())
        .bind(new.iter().map(|one| one.command.as_str()).collect::<Vec<&str>>())
        .bind(vec!["default"; new.len()])
        .bind(vec!["default"; new.len()])
        .execute(shard)
        .await
        .unwrap();
    assert_eq!(created.rows_affected(), new.len() as u64);
}
