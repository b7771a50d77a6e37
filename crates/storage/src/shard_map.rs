//! The bucket map with its version and the history of moves (cluster database), and each database's identity and size.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::StorageError;
use super::pools::{Database, Databases};
use noetl_domain::feed::FeedId;
use noetl_domain::shard::{BadShardMap, Barrier, Departure, Moves, ShardIndex, ShardMap};

/// Returns the stored map with its moves, for a deployment with `configured` shards.
pub async fn load(cluster: &Database, configured: u16) -> Result<Result<ShardMap, BadShardMap>, StorageError> {
    // One statement, so that the parts belong together.
    let rows = sqlx::query!(
        r#"SELECT bucket.bucket AS "bucket!", bucket.shard AS "shard!", map.version AS "version!",
                  moved.source AS "source?", moved.target AS "target?", moved.state AS "state?",
                  moved.barrier_feed AS "feed?", moved.barrier_epoch AS "epoch?", moved.barrier_sequence AS "sequence?"
           FROM noetl.shard_bucket AS bucket CROSS JOIN noetl.shard_map_version AS map
           LEFT JOIN noetl.bucket_move AS moved USING (bucket)
           ORDER BY bucket.bucket, moved.move_id"#
    );
    let rows = cluster.run(rows.fetch_all(cluster.leases())).await?;
    let version = rows.first().map_or(0, |row| row.version.cast_unsigned());
    let (mut shard_of_bucket, mut moves, mut last) = (Vec::new(), Moves::default(), None);
    for row in rows {
        if last.replace(row.bucket) != Some(row.bucket) {
            shard_of_bucket.push(row.shard.cast_unsigned());
        }
        let (Some(source), Some(target), Some(state)) = (row.source, row.target, row.state) else { continue };
        let (from, to, bucket) = (source.cast_unsigned(), target.cast_unsigned(), row.bucket.cast_unsigned());
        if state != "cleaned" {
            moves.concealing.extend([from, to]);
        }
        if ["copying", "fenced"].contains(&state.as_str()) {
            moves.targets.insert(bucket, to);
            continue;
        }
        let position = row.feed.zip(row.epoch.zip(row.sequence));
        let barrier = position.map(|(feed, (epoch, sequence))| Barrier {
            feed: FeedId::new(feed.as_u128()),
            epoch: epoch.cast_unsigned(),
            sequence: sequence.cast_unsigned(),
        });
        moves.departures.entry(bucket).or_default().push(Departure { from, to, barrier });
    }
    let map = ShardMap::from_stored(shard_of_bucket, configured);
    Ok(map.map(|map| map.with_moves(version, moves)))
}

impl Databases {
    /// Reads the bucket map from the cluster database, and replaces the current one if it is newer. Returns whether it
    /// was replaced.
    pub async fn refresh_map(&self) -> Result<bool, StorageError> {
        let shards = u16::try_from(self.shards().len()).unwrap_or(u16::MAX);
        let map = load(self.cluster(), shards).await?;
        Ok(self.replace_map(map.map_err(|bad| self.cluster().corrupt(bad.to_string()))?))
    }

    /// Reads the bucket map if its stored version is newer than the current one, and notes that the map was current at
    /// `now`. Returns whether buckets are being moved.
    pub async fn watch_map(&self, now: DateTime<Utc>) -> Result<bool, StorageError> {
        let stored = watch(self.cluster()).await?;
        let used = self.map().version();
        if stored.version > used {
            self.refresh_map().await?;
        } else if stored.version < used {
            let stored = stored.version;
            tracing::warn!(stored, used, "the cluster database was restored while this server ran; restart the server");
        }
        self.confirm_map(now);
        Ok(stored.moving)
    }
}

/// State of the stored map, which replicas read again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    /// Version of the map.
    version: u64,
    /// True while buckets are being moved.
    moving: bool,
}

/// Returns the version of the stored map, and whether buckets are being moved.
async fn watch(cluster: &Database) -> Result<Watched, StorageError> {
    let row = sqlx::query!(
        r#"SELECT version,
                  EXISTS (SELECT FROM noetl.bucket_move WHERE state IN ('copying', 'fenced', 'switched')) AS "moving!"
           FROM noetl.shard_map_version"#
    );
    let row = cluster.run(row.fetch_one(cluster.leases())).await?;
    Ok(Watched { version: row.version.cast_unsigned(), moving: row.moving })
}

/// Stores a map, unless one is stored already.
pub async fn store_first(cluster: &Database, map: &ShardMap) -> Result<(), StorageError> {
    let shards: Vec<i16> = map.as_slice().iter().map(|shard| shard.cast_signed()).collect();
    let insert = sqlx::query!(
        "INSERT INTO noetl.shard_bucket (bucket, shard)
         SELECT (position - 1)::smallint, shard FROM unnest($1::smallint[]) WITH ORDINALITY AS t (shard, position)
         ON CONFLICT (bucket) DO NOTHING",
        &shards,
    );
    cluster.run(insert.execute(cluster.pool())).await?;
    Ok(())
}

/// Stored identity of a database: its deployment and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Id of the deployment, the same in all its databases.
    pub cluster_id: Uuid,
    /// Index of the shard; `None` in a database that holds no executions.
    pub shard: Option<ShardIndex>,
}

/// Returns the stored identity of a database; `None` if it was never part of a deployment.
pub async fn identity(database: &Database) -> Result<Option<Identity>, StorageError> {
    let exists = sqlx::query_scalar!(r#"SELECT to_regclass('noetl.database_identity') IS NOT NULL AS "exists!""#);
    if !database.run(exists.fetch_one(database.pool())).await? {
        return Ok(None);
    }
    let row = sqlx::query!("SELECT cluster_id, shard FROM noetl.database_identity");
    let row = database.run(row.fetch_optional(database.pool())).await?;
    Ok(row.map(|row| Identity { cluster_id: row.cluster_id, shard: row.shard.map(i16::cast_unsigned) }))
}

/// Returns the stored identity of a database; stores `wanted` first if the database has none.
pub async fn identify(database: &Database, wanted: Identity) -> Result<Identity, StorageError> {
    let row = sqlx::query!(
        "INSERT INTO noetl.database_identity AS standing (cluster_id, shard) VALUES ($1, $2)
         ON CONFLICT (singleton) DO UPDATE SET cluster_id = standing.cluster_id
         RETURNING cluster_id, shard",
        wanted.cluster_id,
        wanted.shard.map(ShardIndex::cast_signed),
    );
    let row = database.run(row.fetch_one(database.pool())).await?;
    Ok(Identity { cluster_id: row.cluster_id, shard: row.shard.map(i16::cast_unsigned) })
}

/// Tables with the data of executions, and a query that says whether the table has a row.
const TABLES_OF_EXECUTIONS: [(&str, &str); 3] = [
    ("noetl.event", "SELECT EXISTS (SELECT FROM noetl.event)"),
    ("noetl.execution", "SELECT EXISTS (SELECT FROM noetl.execution)"),
    ("noetl.outbox", "SELECT EXISTS (SELECT FROM noetl.outbox)"),
];

/// Returns whether a database holds data of executions. Its tables need not exist.
pub async fn holds_executions(database: &Database) -> Result<bool, StorageError> {
    for (table, has_rows) in TABLES_OF_EXECUTIONS {
        let exists = sqlx::query_scalar!(r#"SELECT to_regclass($1) IS NOT NULL AS "exists!""#, table);
        if database.run(exists.fetch_one(database.pool())).await?
            && database.run(sqlx::query_scalar::<_, bool>(has_rows).fetch_one(database.pool())).await?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Size of a database according to PostgreSQL's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Estimated number of events.
    pub events: i64,
    /// Estimated number of executions.
    pub executions: i64,
    /// Bytes on disk, with all tables and indexes.
    pub bytes: i64,
}

/// Returns the size of a migrated database without reading its tables.
pub async fn size(database: &Database) -> Result<Size, StorageError> {
    let size = sqlx::query_as!(
        Size,
        r#"WITH part AS (
             SELECT 'event' AS of, relid FROM pg_partition_tree('noetl.event') WHERE isleaf
             UNION ALL SELECT 'execution', 'noetl.execution'::regclass
         ), counted AS (
             SELECT part.of, sum(greatest(class.reltuples::bigint, statistics.n_live_tup, 0))::bigint AS rows
             FROM part JOIN pg_class AS class ON class.oid = part.relid
             LEFT JOIN pg_stat_all_tables AS statistics ON statistics.relid = class.oid
             GROUP BY part.of
         )
         SELECT coalesce((SELECT rows FROM counted WHERE of = 'event'), 0) AS "events!",
                coalesce((SELECT rows FROM counted WHERE of = 'execution'), 0) AS "executions!",
                pg_database_size(current_database()) AS "bytes!""#,
    );
    database.run(size.fetch_one(database.pool())).await
}
