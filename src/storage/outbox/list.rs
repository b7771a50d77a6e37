//! Outbox rows for people: newest first, by time and number.

use chrono::{DateTime, Utc};

use crate::domain::ids::Id;
use crate::domain::outbox::OutboxStatus;
use crate::storage::error::StorageError;
use crate::storage::pools::Database;
use noetl_json::Text;

/// Which rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxFilter {
    /// Only these.
    pub statuses: Option<Vec<OutboxStatus>>,
    /// Only this execution's.
    pub execution_id: Option<Id>,
    /// Only rows that were claimed at least so often.
    pub min_attempts: Option<i32>,
}

/// A row of the outbox.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    /// Counts up in the shard.
    pub outbox_id: i64,
    /// Whose row it is.
    pub execution_id: Option<i64>,
    /// The event that it tells of.
    pub event_id: i64,
    /// Where to.
    pub subject: Option<String>,
    /// The message; absent if it was not wanted.
    pub payload: Option<Text>,
    /// How the payload is to be written.
    pub payload_codec: String,
    /// As stored.
    pub status: String,
    /// How often it was claimed.
    pub attempts: i32,
    /// From when on it may be claimed, unless it is in flight.
    pub available_at: DateTime<Utc>,
    /// Whether it can't be delivered as it is.
    pub dead: bool,
    /// Until when its last claim holds.
    pub lease_until: Option<DateTime<Utc>>,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// When it was delivered.
    pub published_at: Option<DateTime<Utc>>,
}

/// A page as one shard reads it.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Only rows above this time and number.
    pub above: (DateTime<Utc>, i64),
    /// Only rows below this time and number.
    pub below: (DateTime<Utc>, i64),
    /// Read the newest first.
    pub descending: bool,
    /// Rows to read.
    pub limit: i64,
}

/// A page's candidates, read in the bounds' direction. One execution's rows come from their own index, rows that were
/// claimed again from theirs, and all others from one page of each status. Payloads are read only if they are wanted.
#[tracing::instrument(level = "debug", name = "sql.outbox.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: &Database,
    filter: &OutboxFilter,
    payloads: bool,
    page: Bounds,
) -> Result<Vec<OutboxRow>, StorageError> {
    let wanted = filter.statuses.as_deref().unwrap_or(&OutboxStatus::ALL);
    let statuses: Vec<String> = wanted.iter().map(|status| status.as_str().to_owned()).collect();
    macro_rules! listed {
        ($source:literal, $order:literal) => {
            sqlx::query_as!(
                OutboxRow,
                r#"SELECT outbox_id AS "outbox_id!", execution_id, event_id AS "event_id!", subject,
                          CASE WHEN $9 THEN payload::text END AS "payload: Text", payload_codec AS "payload_codec!",
                          status AS "status!", attempts AS "attempts!",
                          greatest(least(available_at, '9999-12-31'), '0001-01-01') AS "available_at!",
                          status = 'FAILED' AND available_at = 'infinity' AS "dead!",
                          CASE WHEN lease_until IS NOT NULL THEN greatest(least(lease_until, '9999-12-31'), '0001-01-01') END AS lease_until, last_error,
                          created_at AS "created_at!",
                          CASE WHEN published_at IS NOT NULL THEN greatest(least(published_at, '9999-12-31'), '0001-01-01') END AS published_at
                   FROM unnest($1::text[]) AS wanted (wanted_status) CROSS JOIN LATERAL (
                       SELECT * FROM noetl.outbox
                       WHERE (created_at, outbox_id) > ($2, $3) AND (created_at, outbox_id) < ($4, $5)
                         AND status COLLATE "C" = wanted_status AND ($6::bigint IS NULL OR execution_id = $6)
                         AND ($7::integer IS NULL OR attempts >= $7) "#
                    + $source
                    + " ORDER BY "
                    + $order
                    + " LIMIT $8) AS page ORDER BY "
                    + $order
                    + " LIMIT $8",
                &statuses,
                page.above.0,
                page.above.1,
                page.below.0,
                page.below.1,
                filter.execution_id.map(Id::get),
                filter.min_attempts,
                page.limit,
                payloads,
            )
            .fetch_all(shard.pool())
        };
    }
    macro_rules! directed {
        ($source:literal) => {
            if page.descending {
                shard.run(listed!($source, "created_at DESC, outbox_id DESC")).await
            } else {
                shard.run(listed!($source, "created_at, outbox_id")).await
            }
        };
    }
    if filter.execution_id.is_some() {
        directed!("AND execution_id = $6")
    } else if filter.min_attempts.is_some_and(|least| least > 1) {
        directed!("AND attempts > 1")
    } else {
        directed!("")
    }
}
