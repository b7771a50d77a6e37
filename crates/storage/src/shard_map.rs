//! The bucket map (cluster database) and each database's identity.

use uuid::Uuid;

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::shard::{ShardIndex, ShardMap};

/// Returns the stored shard of each bucket, in bucket order; empty until a map is stored.
pub async fn load(cluster: &Database) -> Result<Vec<ShardIndex>, StorageError> {
    let rows = sqlx::query_scalar!("SELECT shard FROM noetl.shard_bucket ORDER BY bucket");
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(i16::cast_unsigned).collect())
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
