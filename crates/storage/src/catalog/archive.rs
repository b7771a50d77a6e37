//! Retirement of catalog entries, in a column that NoETL's server also sets and clears.

use chrono::{DateTime, Utc};

use crate::error::StorageError;
use crate::pools::Database;

/// Returns the times at which these entries were retired, by their ids. Entries that are not retired are left out.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.archived_at", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn archived_at(cluster: &Database, ids: &[i64]) -> Result<Vec<(i64, DateTime<Utc>)>, StorageError> {
    let rows = sqlx::query!(
        r#"SELECT catalog_id, greatest(least(archived_at, '9999-12-31'), '0001-01-01') AS "archived_at!"
           FROM noetl.catalog WHERE catalog_id = ANY($1) AND archived_at IS NOT NULL"#,
        ids,
    );
    let rows = cluster.run(rows.fetch_all(cluster.planned_for(ids.len()))).await?;
    Ok(rows.into_iter().map(|row| (row.catalog_id, row.archived_at)).collect())
}

/// Retires an entry, or restores it if `archived` is false; with `all_versions`, all versions of its path. Entries that
/// have the wanted state stay unchanged. Returns whether the entry exists.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.set_archived", skip_all,
    fields(database = %cluster.name(), id, archived)
)]
pub async fn set_archived(
    cluster: &Database,
    id: i64,
    all_versions: bool,
    archived: bool,
) -> Result<bool, StorageError> {
    let update = sqlx::query_scalar!(
        r#"WITH named AS (
               SELECT catalog_id, path FROM noetl.catalog WHERE catalog_id = $1
           ), changed AS (
               UPDATE noetl.catalog AS entry SET archived_at = CASE WHEN $3 THEN now() END
               FROM named
               WHERE entry.path = named.path AND ($2 OR entry.catalog_id = named.catalog_id)
                 AND (entry.archived_at IS NULL) = $3
           )
           SELECT EXISTS (SELECT 1 FROM named) AS "exists!""#,
        id,
        all_versions,
        archived,
    );
    cluster.run(update.fetch_one(cluster.pool())).await
}
