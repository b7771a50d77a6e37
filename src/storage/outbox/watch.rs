//! Looking at what is open without claiming it.

use chrono::{DateTime, Utc};

use super::{DEFAULT_LEASE_SECONDS, Marks};
use crate::storage::error::StorageError;
use crate::storage::pools::Database;

/// Whether anything may be claimable, and where reading begins.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// Whether there is anything to claim, or to wait for in its execution's order.
    pub open: bool,
    /// Where the first living entries are.
    pub marks: Marks,
}

/// Rows of one kind that are counted at most, so that a look costs tens of milliseconds however many there are.
pub const COUNTED: i64 = 100_000;

/// How many rows are claimable, and since when the oldest of those counted waits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Backlog {
    /// Rows that are claimable now, up to [`COUNTED`].
    pub pending: i64,
    /// Seconds since the oldest of them was written.
    pub oldest_seconds: Option<f64>,
}

/// How many rows are in flight and failed, up to [`COUNTED`] of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claimed and not settled, also those whose lease has passed.
    pub in_flight: i64,
    /// Failed at their last attempt, also those that are due again.
    pub failed: i64,
}

/// Looks for the first living entries from `from` on. What was given a time or an id up to a second ago may still turn
/// up below the marks that are answered.
#[tracing::instrument(level = "debug", name = "sql.outbox.look", skip_all, fields(database = %shard.name()))]
pub async fn look(shard: &Database, from: &Marks) -> Result<Sight, StorageError> {
    let row = sqlx::query!(
        r#"SELECT pending, failed, lease, others AS "others!", last, now() - interval '1 second' AS "settled!"
           FROM (SELECT
               (SELECT outbox_id FROM noetl.outbox WHERE status = 'PENDING' AND attempts >= 0 AND outbox_id >= $1
                ORDER BY outbox_id LIMIT 1) AS pending,
               (SELECT available_at FROM noetl.outbox
                WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
                ORDER BY available_at LIMIT 1) AS failed,
               (SELECT lease_until FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
                ORDER BY lease_until LIMIT 1) AS lease,
               EXISTS (SELECT 1 FROM noetl.outbox
                       WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until IS NULL
                         AND locked_at <= now() - make_interval(secs => $4)) AS others,
               (SELECT max(outbox_id) FROM noetl.outbox) AS last) AS first"#,
        from.pending,
        from.failed,
        from.lease,
        f64::from(DEFAULT_LEASE_SECONDS),
    );
    let row = shard.run(row.fetch_one(shard.pool())).await?;
    let first = |found: Option<DateTime<Utc>>| found.unwrap_or(row.settled);
    Ok(Sight {
        open: row.others || row.pending.is_some() || row.failed.is_some() || row.lease.is_some(),
        marks: Marks {
            pending: row.pending.or(row.last).unwrap_or(from.pending),
            failed: first(row.failed),
            lease: first(row.lease),
        },
    })
}

/// Counts the rows that are claimable, from the marks on: first those that never were in flight, by their numbers.
#[tracing::instrument(level = "debug", name = "sql.outbox.backlog", skip_all, fields(database = %shard.name()))]
pub async fn backlog(shard: &Database, from: &Marks) -> Result<Backlog, StorageError> {
    let row = sqlx::query_as!(
        Backlog,
        r#"SELECT count(*) AS "pending!", extract(epoch FROM now() - min(created_at))::float8 AS oldest_seconds
           FROM (
               (SELECT created_at FROM noetl.outbox
                WHERE status = 'PENDING' AND attempts >= 0 AND outbox_id >= $1 AND available_at <= now()
                ORDER BY outbox_id)
               UNION ALL
               SELECT created_at FROM noetl.outbox
               WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
               UNION ALL
               SELECT created_at FROM noetl.outbox
               WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
               UNION ALL
               SELECT created_at FROM noetl.outbox
               WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until IS NULL AND locked_at <= now() - make_interval(secs => $4)
               LIMIT $5
           ) AS claimable"#,
        from.pending,
        from.failed,
        from.lease,
        f64::from(DEFAULT_LEASE_SECONDS),
        COUNTED,
    );
    shard.run(row.fetch_one(shard.pool())).await
}

/// Counts the rows in flight and the failed ones.
#[tracing::instrument(level = "debug", name = "sql.outbox.counts", skip_all, fields(database = %shard.name()))]
pub async fn counts(shard: &Database) -> Result<Counts, StorageError> {
    let row = sqlx::query_as!(
        Counts,
        r#"SELECT (SELECT count(*) FROM (SELECT FROM noetl.outbox
                                         WHERE status = 'IN_FLIGHT' AND attempts >= 0 LIMIT $1) AS row) AS "in_flight!",
                  (SELECT count(*) FROM (SELECT FROM noetl.outbox
                                         WHERE status = 'FAILED' AND attempts >= 0 LIMIT $1) AS row) AS "failed!""#,
        COUNTED,
    );
    shard.run(row.fetch_one(shard.pool())).await
}
