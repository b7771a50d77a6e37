//! Numbers of executions that meet one condition, counted along an index without reading the executions. A list with
//! several conditions is read along the index of the rarest one, and a history with labels too.

use chrono::{DateTime, Utc};

use super::error::StorageError;
use super::execution_sources::Rival;
use super::view::View;

/// Returns the condition that the fewest executions meet, if these are fewer than `below`. Of conditions with as many
/// executions, the first one is returned.
pub(super) async fn rarest<'a>(
    shard: &View<'_>,
    tenant: Option<&str>,
    rivals: &'a [Rival],
    below: i64,
) -> Result<Option<&'a Rival>, StorageError> {
    let mut rarest = None;
    let mut fewest = below;
    for rival in rivals {
        // No more than the fewest ones are counted.
        let count = match rival {
            Rival::Label(entries) => labelled(shard, tenant, entries, fewest).await?,
            Rival::Ended(from, until) => ended(shard, *from, *until, fewest).await?,
        };
        if count < fewest {
            (rarest, fewest) = (Some(rival), count);
        }
    }
    Ok(rarest)
}

/// Counts the executions with one of these entries of the index of labels, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count_labelled", skip_all, fields(database = %shard.name()))]
async fn labelled(shard: &View<'_>, tenant: Option<&str>, entries: &[String], limit: i64) -> Result<i64, StorageError> {
    let Some(tenant) = tenant else {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM (
                   SELECT FROM unnest($1::text[]) AS wanted (label) CROSS JOIN LATERAL (
                       SELECT FROM noetl.execution_label WHERE execution_label.label = wanted.label
                       ORDER BY label_status LIMIT $2
                   ) AS found LIMIT $2
               ) AS matched"#,
            entries,
            limit,
        );
        return shard.run(count.fetch_one(shard.planned_once())).await;
    };
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM unnest($1::text[]) AS wanted (label) CROSS JOIN LATERAL (
                   SELECT FROM noetl.execution_label
                   WHERE label_tenant <> 'default' AND label_tenant = $3
                     AND CASE WHEN label_tenant <> 'default' THEN execution_label.label END = wanted.label
                   ORDER BY label_status LIMIT $2
               ) AS found LIMIT $2
           ) AS matched"#,
        entries,
        limit,
        tenant,
    );
    shard.run(count.fetch_one(shard.planned_once())).await
}

/// Counts the starts and the ends of executions of all tenants from a time until before another one, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count_in_time", skip_all, fields(database = %shard.name()))]
pub(super) async fn in_time(
    shard: &View<'_>,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
    limit: i64,
) -> Result<i64, StorageError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               (SELECT 1 FROM noetl.execution
                WHERE noetl.list_time(start_time) >= $1 AND noetl.list_time(start_time) < $2
                ORDER BY noetl.list_time(start_time) LIMIT $3)
               UNION ALL
               (SELECT 1 FROM noetl.execution
                WHERE end_time IS NOT NULL AND end_time >= $1 AND end_time < $2
                ORDER BY end_time LIMIT $3)
               LIMIT $3
           ) AS matched"#,
        from,
        until,
        limit,
    );
    shard.run(count.fetch_one(shard.planned_once())).await
}

/// Counts the executions of all tenants that ended from a time until before another one, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count_ended", skip_all, fields(database = %shard.name()))]
async fn ended(shard: &View<'_>, from: DateTime<Utc>, until: DateTime<Utc>, limit: i64) -> Result<i64, StorageError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT FROM noetl.execution
               WHERE end_time IS NOT NULL AND end_time >= $1 AND end_time < $2
               ORDER BY end_time LIMIT $3
           ) AS matched"#,
        from,
        until,
        limit,
    );
    shard.run(count.fetch_one(shard.planned_once())).await
}
