//! Probes and counts of open rows, without claiming them.

use chrono::{DateTime, Utc};

use super::{DEFAULT_LEASE_SECONDS, LowWatermarks};
use crate::error::StorageError;
use crate::view::View;
use noetl_domain::tenant::Scope;

/// Result of a probe for open rows.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Whether rows may be claimable. Open rows that must wait for earlier rows of their execution count too.
    pub open: bool,
    /// Low watermarks of the open rows.
    pub low_watermarks: LowWatermarks,
}

/// Maximum count of rows of one kind. It keeps the cost of counting at tens of milliseconds.
pub const MAX_COUNT: i64 = 100_000;

/// Numbers of rows to deliver, and ages of the oldest of those counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Backlog {
    /// Number of rows that are claimable now, up to [`MAX_COUNT`].
    pub pending: i64,
    /// Seconds since the oldest of the counted rows was written.
    pub oldest_seconds: Option<f64>,
    /// Number of claimable rows and of those that wait for their next attempt, up to [`MAX_COUNT`].
    pub waiting: i64,
    /// Seconds since the oldest of these was written.
    pub oldest_waiting_seconds: Option<f64>,
}

/// Numbers of rows in flight, of FAILED rows and of DEAD rows, up to [`MAX_COUNT`] of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// Number of claimed rows that are not settled, including those with an expired lease.
    pub in_flight: i64,
    /// Number of rows that failed at their last attempt and are tried again, including those that are claimable.
    pub failed: i64,
    /// Number of rows that are no longer tried.
    pub dead: i64,
}

/// Probes for the first open rows from `from` on. Ids and times are assigned before a row commits, so rows may still
/// appear below the returned watermarks.
#[tracing::instrument(level = "debug", name = "sql.outbox.probe", skip_all, fields(database = %shard.name()))]
pub async fn probe(shard: View<'_>, from: &LowWatermarks) -> Result<Probe, StorageError> {
    let row = sqlx::query!(
        r#"SELECT pending, failed, lease, others AS "others!", last, now() - interval '1 second' AS "settled!"
           FROM (SELECT
               (SELECT outbox_id FROM noetl.outbox WHERE status = 'PENDING' AND attempts >= 0 AND outbox_id >= $1
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY outbox_id LIMIT 1) AS pending,
               (SELECT available_at FROM noetl.outbox
                WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY available_at LIMIT 1) AS failed,
               (SELECT lease_until FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY lease_until LIMIT 1) AS lease,
               EXISTS (SELECT 1 FROM noetl.outbox
                       WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until IS NULL
                         AND locked_at <= now() - make_interval(secs => $4)
                         AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END) AS others,
               (SELECT max(outbox_id) FROM noetl.outbox) AS last) AS first"#,
        from.pending,
        from.failed,
        from.lease,
        f64::from(DEFAULT_LEASE_SECONDS),
        shard.held(),
    );
    let row = shard.run(row.fetch_one(shard.planned_once())).await?;
    let first = |found: Option<DateTime<Utc>>| found.unwrap_or(row.settled);
    Ok(Probe {
        open: row.others || row.pending.is_some() || row.failed.is_some() || row.lease.is_some(),
        low_watermarks: LowWatermarks {
            pending: row.pending.or(row.last).unwrap_or(from.pending),
            failed: first(row.failed),
            lease: first(row.lease),
        },
    })
}

/// Counts the rows to deliver in the scope from the low watermarks on: first the PENDING rows, in the order of their ids,
/// and last those that wait for their next attempt.
#[tracing::instrument(level = "debug", name = "sql.outbox.backlog", skip_all, fields(database = %shard.name()))]
pub async fn backlog(shard: View<'_>, scope: &Scope, from: &LowWatermarks) -> Result<Backlog, StorageError> {
    let row = sqlx::query_as!(
        Backlog,
        r#"SELECT count(*) FILTER (WHERE is_due) AS "pending!", count(*) AS "waiting!",
                  extract(epoch FROM now() - min(created_at) FILTER (WHERE is_due))::float8 AS oldest_seconds,
                  extract(epoch FROM now() - min(created_at))::float8 AS oldest_waiting_seconds
           FROM (
               (SELECT created_at, available_at <= now() AS is_due FROM noetl.outbox
                WHERE status = 'PENDING' AND attempts >= 0 AND outbox_id >= $1
                  AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                 AND CASE WHEN $7::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY outbox_id)
               UNION ALL
               SELECT created_at, true FROM noetl.outbox
               WHERE status = 'FAILED' AND attempts >= 0 AND available_at >= $2 AND available_at <= now()
                 AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                 AND CASE WHEN $7::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
               UNION ALL
               SELECT created_at, true FROM noetl.outbox
               WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until >= $3 AND lease_until <= now()
                 AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                 AND CASE WHEN $7::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
               UNION ALL
               SELECT created_at, true FROM noetl.outbox
               WHERE status = 'IN_FLIGHT' AND attempts >= 0 AND lease_until IS NULL AND locked_at <= now() - make_interval(secs => $4)
                 AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                 AND CASE WHEN $7::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
               UNION ALL
               SELECT created_at, false FROM noetl.outbox
               WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now() AND available_at < 'infinity'
                 AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
                 AND CASE WHEN $7::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
               LIMIT $5
           ) AS open"#,
        from.pending,
        from.failed,
        from.lease,
        f64::from(DEFAULT_LEASE_SECONDS),
        MAX_COUNT,
        scope.tenant(),
        shard.held(),
    );
    shard.run(row.fetch_one(shard.planned_once())).await
}

/// Numbers of rows with subjects of one form, up to [`MAX_COUNT`] rows of each stored status over all subjects.
#[derive(Debug, Clone, PartialEq)]
pub struct SubjectCounts {
    /// Subject, with `*` for each number in it; `None` for rows that store no subject.
    pub subject: Option<String>,
    /// Number of rows that are claimable now.
    pub pending: i64,
    /// Number of claimed rows that are not settled, including those with an expired lease.
    pub in_flight: i64,
    /// Number of rows that failed at their last attempt and are tried again, including those that are claimable.
    pub failed: i64,
    /// Number of rows that are no longer tried.
    pub dead: i64,
    /// Seconds since the oldest claimable row was written.
    pub oldest_seconds: Option<f64>,
}

/// Counts the rows in the scope that are not published, by subject. Returns the `limit` subjects with most rows.
#[tracing::instrument(level = "debug", name = "sql.outbox.subjects", skip_all, fields(database = %shard.name()))]
pub async fn subjects(shard: View<'_>, scope: &Scope, limit: i64) -> Result<Vec<SubjectCounts>, StorageError> {
    let rows = sqlx::query_as!(
        SubjectCounts,
        r#"SELECT regexp_replace(subject, '(?<=^|\.)[0-9]+(?=\.|$)', '*', 'g') AS subject,
                  count(*) FILTER (WHERE is_claimable) AS "pending!",
                  count(*) FILTER (WHERE status = 'IN_FLIGHT') AS "in_flight!",
                  count(*) FILTER (WHERE status = 'FAILED' AND available_at < 'infinity') AS "failed!",
                  count(*) FILTER (WHERE status = 'FAILED' AND available_at = 'infinity') AS "dead!",
                  extract(epoch FROM now() - min(created_at) FILTER (WHERE is_claimable))::float8 AS oldest_seconds
           FROM (
               (SELECT subject, status, available_at, created_at, available_at <= now() AS is_claimable FROM noetl.outbox
                WHERE status = 'PENDING' AND attempts >= 0
                  AND ($1::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $1)
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY outbox_id LIMIT $2)
               UNION ALL
               (SELECT subject, status, available_at, created_at, available_at <= now() FROM noetl.outbox
                WHERE status = 'FAILED' AND attempts >= 0
                  AND ($1::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $1)
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                ORDER BY available_at LIMIT $2)
               UNION ALL
               (SELECT subject, status, available_at, created_at,
                       CASE WHEN lease_until IS NULL THEN locked_at <= now() - make_interval(secs => $3)
                            ELSE lease_until <= now() END
                FROM noetl.outbox
                WHERE status = 'IN_FLIGHT' AND attempts >= 0
                  AND ($1::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $1)
                  AND CASE WHEN $5::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($5, noetl.bucket_of(execution_id)) = 1 END
                LIMIT $2)
           ) AS row GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT $4"#,
        scope.tenant(),
        MAX_COUNT,
        f64::from(DEFAULT_LEASE_SECONDS),
        limit,
        shard.held(),
    );
    shard.run(rows.fetch_all(shard.planned_once())).await
}

/// Counts the rows in the scope that are in flight, the FAILED rows and the DEAD rows.
#[tracing::instrument(level = "debug", name = "sql.outbox.counts", skip_all, fields(database = %shard.name()))]
pub async fn counts(shard: View<'_>, scope: &Scope) -> Result<StatusCounts, StorageError> {
    let row = sqlx::query_as!(
        StatusCounts,
        r#"SELECT (SELECT count(*) FROM (SELECT FROM noetl.outbox
                                         WHERE status = 'IN_FLIGHT' AND attempts >= 0
                                           AND ($2::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $2)
                                           AND CASE WHEN $3::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($3, noetl.bucket_of(execution_id)) = 1 END
                                         LIMIT $1) AS row) AS "in_flight!",
                  (SELECT count(*) FROM (SELECT FROM noetl.outbox
                                         WHERE status = 'FAILED' AND attempts >= 0 AND available_at < 'infinity'
                                           AND ($2::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $2)
                                           AND CASE WHEN $3::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($3, noetl.bucket_of(execution_id)) = 1 END
                                         LIMIT $1) AS row) AS "failed!",
                  (SELECT count(*) FROM (SELECT FROM noetl.outbox
                                         WHERE status = 'FAILED' AND attempts >= 0 AND available_at = 'infinity'
                                           AND ($2::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $2)
                                           AND CASE WHEN $3::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($3, noetl.bucket_of(execution_id)) = 1 END
                                         LIMIT $1) AS row) AS "dead!""#,
        MAX_COUNT,
        scope.tenant(),
        shard.held(),
    );
    shard.run(row.fetch_one(shard.planned_once())).await
}
