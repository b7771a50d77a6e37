//! Leases on machine ids (cluster database), on the database's clock. They use connections on which no request waits.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::StorageError;
use super::pools::Database;

/// Process that leases a machine id.
#[derive(Debug, Clone)]
pub struct Holder {
    /// Identity, unique to the process.
    pub owner: Uuid,
    /// Description of the replica; `None` for a command that serves no requests.
    pub description: Option<Description>,
}

/// Bucket map that a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownMap {
    /// Version of the map.
    pub version: u64,
    /// Number of shards that the process is configured with.
    pub shards: u16,
}

/// Description of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Name, unique in the deployment.
    pub replica: String,
    /// Version of its software.
    pub version: String,
    /// Start time.
    pub started_at: DateTime<Utc>,
}

/// A valid lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Machine id, 0 to 1023.
    pub machine_id: u16,
    /// Time at which the lease expires if it is not renewed.
    pub expires_at: DateTime<Utc>,
    /// Holder; `None` if it did not describe itself.
    pub description: Option<Description>,
    /// Bucket map that the holder uses; `None` if it is of a release that can't change its map.
    pub map: Option<KnownMap>,
}

impl Lease {
    /// Returns the name of the replica, or the machine id.
    #[must_use]
    pub fn name(&self) -> String {
        let replica = self.description.as_ref().map(|of| of.replica.clone());
        replica.unwrap_or_else(|| format!("machine {}", self.machine_id))
    }
}

/// A leased machine id, and the range of milliseconds (since 2024-01-01T00:00:00Z) from which its holder makes ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Machine id, 0 to 1023.
    pub machine_id: u16,
    /// Exclusive lower bound: the ceiling of the last holder.
    pub floor_ms: u64,
    /// Inclusive upper bound.
    pub ceiling_ms: u64,
}

/// Takes the lease on a free machine id for `seconds`: on `pinned`, or on any. Prefers an id whose last holder's range
/// is before `now_ms`. The granted range ends `ahead_ms` after `now_ms`, or after the last range if that ends later.
/// `Ok(None)`: none is free.
pub async fn acquire(
    cluster: &Database,
    holder: &Holder,
    map: KnownMap,
    pinned: Option<u16>,
    now_ms: u64,
    ahead_ms: u64,
    seconds: f64,
) -> Result<Option<Grant>, StorageError> {
    let now_ms = now_ms.cast_signed();
    let Holder { owner, description } = holder;
    let row = sqlx::query!(
        "UPDATE noetl.machine_lease AS lease
         SET owner = $1::uuid, expires_at = now() + make_interval(secs => $5),
             ceiling_ms = greatest(free.ceiling_ms, $3) + $4,
             described_owner = CASE WHEN $6::text IS NOT NULL THEN $1::uuid END, replica = $6, version = $7, started_at = $8,
             map_owner = $1::uuid, map_version = $9, shards = $10
         FROM (SELECT machine_id, ceiling_ms FROM noetl.machine_lease
               WHERE expires_at < now() AND ($2::smallint IS NULL OR machine_id = $2)
               ORDER BY ceiling_ms > $3, machine_id
               LIMIT 1 FOR UPDATE SKIP LOCKED) AS free
         WHERE lease.machine_id = free.machine_id
         RETURNING lease.machine_id, free.ceiling_ms AS floor_ms, lease.ceiling_ms",
        owner,
        pinned.map(u16::cast_signed),
        now_ms,
        ahead_ms.cast_signed(),
        seconds,
        description.as_ref().map(|of| of.replica.as_str()),
        description.as_ref().map(|of| of.version.as_str()),
        description.as_ref().map(|of| of.started_at),
        map.version.cast_signed(),
        map.shards.cast_signed(),
    );
    let row = cluster.run(row.fetch_optional(cluster.leases())).await?;
    Ok(row.map(|row| Grant {
        machine_id: row.machine_id.cast_unsigned(),
        floor_ms: row.floor_ms.cast_unsigned(),
        ceiling_ms: row.ceiling_ms.cast_unsigned(),
    }))
}

/// Returns the valid leases, ordered by machine id.
pub async fn leases(cluster: &Database) -> Result<Vec<Lease>, StorageError> {
    let rows = sqlx::query!(
        r#"SELECT machine_id, expires_at,
                  CASE WHEN described_owner = owner THEN replica END AS replica,
                  version, started_at,
                  CASE WHEN map_owner = owner THEN map_version END AS map_version,
                  CASE WHEN map_owner = owner THEN shards END AS shards
           FROM noetl.machine_lease WHERE expires_at > now() AND owner IS NOT NULL ORDER BY machine_id"#
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    let leases = rows.into_iter().map(|row| Lease {
        machine_id: row.machine_id.cast_unsigned(),
        expires_at: row.expires_at,
        description: match (row.replica, row.version, row.started_at) {
            (Some(replica), Some(version), Some(started_at)) => Some(Description { replica, version, started_at }),
            _ => None,
        },
        map: row
            .map_version
            .zip(row.shards)
            .map(|(version, shards)| KnownMap { version: version.cast_unsigned(), shards: shards.cast_unsigned() }),
    });
    Ok(leases.collect())
}

/// Renews a lease for `seconds`, raises its ceiling to at least `ceiling_ms`, and stores the bucket map that the holder
/// uses. `Ok(false)`: the lease is lost.
pub async fn renew(
    cluster: &Database,
    owner: Uuid,
    map: KnownMap,
    machine_id: u16,
    ceiling_ms: u64,
    seconds: f64,
) -> Result<bool, StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.machine_lease
         SET expires_at = now() + make_interval(secs => $4), ceiling_ms = greatest(ceiling_ms, $3),
             map_owner = owner, map_version = $5, shards = $6
         WHERE machine_id = $2 AND owner = $1 AND expires_at > now()",
        owner,
        machine_id.cast_signed(),
        ceiling_ms.cast_signed(),
        seconds,
        map.version.cast_signed(),
        map.shards.cast_signed(),
    );
    Ok(cluster.renew(update.execute(cluster.leases())).await?.rows_affected() == 1)
}

/// Releases a lease and sets its ceiling to the last position, so that the next holder starts above it.
pub async fn release(cluster: &Database, owner: Uuid, machine_id: u16, position_ms: u64) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.machine_lease SET owner = NULL, expires_at = '-infinity', ceiling_ms = $3
         WHERE machine_id = $2 AND owner = $1",
        owner,
        machine_id.cast_signed(),
        position_ms.cast_signed(),
    );
    cluster.run(update.execute(cluster.leases())).await?;
    Ok(())
}

/// Stores the bucket map that the holder of a lease uses.
pub async fn acknowledge_map(cluster: &Database, owner: Uuid, map: KnownMap) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.machine_lease SET map_owner = owner, map_version = $2, shards = $3 WHERE owner = $1",
        owner,
        map.version.cast_signed(),
        map.shards.cast_signed(),
    );
    cluster.run(update.execute(cluster.leases())).await?;
    Ok(())
}
