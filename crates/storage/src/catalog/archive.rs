//! Retirement of catalog entries, in a column that NoETL's server also sets and clears, and the callers that registered and
//! retired them.

use chrono::{DateTime, Utc};

use crate::error::StorageError;
use crate::pools::Database;

/// Registration and retirement of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRecord {
    /// Id of the entry.
    pub catalog_id: i64,
    /// Caller that registered it; `None`: it was not identified.
    pub registered_by: Option<String>,
    /// Time at which it was retired; `None`: it is not retired.
    pub archived_at: Option<DateTime<Utc>>,
    /// Caller that retired it; `None`: it was not identified, or the entry is not retired.
    pub archived_by: Option<String>,
}

/// Returns the records of these entries, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.records", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn records(cluster: &Database, ids: &[i64]) -> Result<Vec<EntryRecord>, StorageError> {
    let rows = sqlx::query_as!(
        EntryRecord,
        "SELECT catalog_id, registered_by,
                CASE WHEN archived_at IS NOT NULL THEN greatest(least(archived_at, '9999-12-31'), '0001-01-01') END
                    AS archived_at,
                CASE WHEN archived_at = archived_by_at THEN archived_by END AS archived_by
         FROM noetl.catalog WHERE catalog_id = ANY($1)",
        ids,
    );
    cluster.run(rows.fetch_all(cluster.planned_for(ids.len()))).await
}

/// Retires an entry, or restores it if `archived` is false; with `all_versions`, all versions of its path. Entries that
/// have the wanted state stay unchanged. `by` is the subject of the caller. Returns whether the entry exists.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.set_archived", skip_all,
    fields(database = %cluster.name(), id, archived)
)]
pub async fn set_archived(
    cluster: &Database,
    id: i64,
    all_versions: bool,
    archived: bool,
    by: Option<&str>,
) -> Result<bool, StorageError> {
    let update = sqlx::query_scalar!(
        r#"WITH named AS (
               SELECT catalog_id, path FROM noetl.catalog WHERE catalog_id = $1
           ), changed AS (
               UPDATE noetl.catalog AS entry
               SET archived_at = CASE WHEN $3 THEN now() END, archived_by_at = CASE WHEN $3 THEN now() END,
                   archived_by = CASE WHEN $3 THEN $4::text END
               FROM named
               WHERE entry.path = named.path AND ($2 OR entry.catalog_id = named.catalog_id)
                 AND (entry.archived_at IS NULL) = $3
           )
           SELECT EXISTS (SELECT 1 FROM named) AS "exists!""#,
        id,
        all_versions,
        archived,
        by,
    );
    cluster.run(update.fetch_one(cluster.pool())).await
}
