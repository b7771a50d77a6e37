//! Registrations of paths (cluster database) and the logs of source subscriptions (shards).

use chrono::{DateTime, Utc};

use super::Pages;
use crate::error::StorageError;
use crate::pools::Database;
use crate::view::View;

/// Registration of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The path.
    pub path: String,
    /// Only subscription of the path that may be live.
    pub subscription_id: i64,
    /// Whether an intent is open.
    pub intended: bool,
    /// Whether the row was changed longer ago than the given age.
    pub old: bool,
}

/// Live subscription according to its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSubscription {
    /// Its id.
    pub id: i64,
    /// Its path.
    pub path: String,
    /// Time of its last lifecycle event.
    pub updated_at: DateTime<Utc>,
    /// Last lifecycle event.
    pub last_event_id: i64,
}

/// Returns up to `limit` paths with a registration after a path, in order.
#[tracing::instrument(level = "debug", name = "sql.check.paths", skip_all, fields(database = %pages.name()))]
pub async fn paths(pages: &mut Pages<'_>, after: &str, limit: i64) -> Result<Vec<String>, StorageError> {
    let paths = sqlx::query_scalar!(
        "SELECT path FROM noetl.subscription_registry WHERE path > $1 ORDER BY path LIMIT $2",
        after,
        limit,
    );
    pages.database.run(paths.fetch_all(&mut pages.connection)).await
}

/// Returns the registrations of these paths.
#[tracing::instrument(
    level = "debug", name = "sql.check.registrations", skip_all,
    fields(database = %cluster.name(), count = paths.len())
)]
pub async fn registrations(
    cluster: &Database,
    paths: &[String],
    old_seconds: f64,
) -> Result<Vec<Registration>, StorageError> {
    let rows = sqlx::query_as!(
        Registration,
        r#"SELECT path, subscription_id, intent_after IS NOT NULL AS "intended!",
                  updated_at < now() - make_interval(secs => $2) AS "old!"
           FROM noetl.subscription_registry WHERE path = ANY($1)"#,
        paths,
        old_seconds,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Returns up to `limit` ids of logs after an id that begin with a registration, in order.
#[tracing::instrument(level = "debug", name = "sql.check.subscription_ids", skip_all, fields(database = %pages.name()))]
pub async fn ids(pages: &mut Pages<'_>, after: i64, limit: i64) -> Result<Vec<i64>, StorageError> {
    let ids = sqlx::query_scalar!(
        "SELECT execution_id FROM noetl.event
         WHERE event_type = 'subscription.registered' AND execution_id > $1
           -- Implied by the first condition; the index contains these types.
           AND event_type IN ('subscription.registered', 'subscription.activated', 'subscription.paused',
               'subscription.resumed', 'subscription.draining', 'subscription.deactivated', 'playbook_started',
               'playbook.initialized', 'playbook_completed', 'playbook.completed', 'workflow.completed',
               'playbook_failed', 'playbook.failed', 'workflow.failed', 'playbook.cancelled', 'playbook_cancelled',
               'execution.cancelled')
         ORDER BY execution_id LIMIT $2",
        after,
        limit,
    );
    pages.database.run(ids.fetch_all(&mut pages.connection)).await
}

/// Returns the live subscriptions with these ids.
#[tracing::instrument(
    level = "debug", name = "sql.check.live_by_ids", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn live_by_ids(shard: &Database, ids: &[i64]) -> Result<Vec<LiveSubscription>, StorageError> {
    let live = sqlx::query_as!(
        LiveSubscription,
        r#"SELECT id AS "id!", path AS "path!", updated_at AS "updated_at!", last_event_id AS "last_event_id!"
           FROM noetl.source_subscription
           WHERE id = ANY($1) AND path IS NOT NULL AND state IS DISTINCT FROM 'DEACTIVATED'"#,
        ids,
    );
    shard.run(live.fetch_all(shard.planned_for(ids.len()))).await
}

/// Returns the live subscriptions of these paths.
#[tracing::instrument(
    level = "debug", name = "sql.check.live_of_paths", skip_all,
    fields(database = %shard.name(), count = paths.len())
)]
pub async fn live_of_paths(shard: View<'_>, paths: &[String]) -> Result<Vec<LiveSubscription>, StorageError> {
    let live = sqlx::query_as!(
        LiveSubscription,
        r#"SELECT id AS "id!", path AS "path!", updated_at AS "updated_at!", last_event_id AS "last_event_id!"
           FROM noetl.source_subscription
           WHERE path = ANY($1) AND state IS DISTINCT FROM 'DEACTIVATED'
             AND CASE WHEN $2::bytea IS NULL THEN true ELSE get_bit($2, noetl.bucket_of(id)) = 1 END"#,
        paths,
        shard.held(),
    );
    shard.run(live.fetch_all(shard.planned_for(paths.len()))).await
}
