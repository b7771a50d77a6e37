//! Names of catalog entries, by which the list is searched. The name is in the document, so it is also stored in a
//! column. NoETL's server does not fill the column: null means that the name was not read from the document yet, and an
//! empty text that the document has none.

use super::CatalogEntry;
use crate::content::Content;
use crate::error::StorageError;
use crate::pools::Database;

/// Returns entries whose names were not read yet, at most `limit`.
#[tracing::instrument(level = "debug", name = "sql.catalog.unnamed", skip_all, fields(database = %cluster.name()))]
pub async fn unnamed(cluster: &Database, limit: i64) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content AS "content: Content",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE name IS NULL ORDER BY catalog_id LIMIT $1"#,
        limit,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Stores the names of entries that have none: the name at an index belongs to the id at the same index. Returns the
/// number of entries that were changed; another replica may have named some of them.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.set_names", skip_all,
    fields(database = %cluster.name(), count = ids.len())
)]
pub async fn set_names(cluster: &Database, ids: &[i64], names: &[String]) -> Result<u64, StorageError> {
    let update = sqlx::query!(
        "UPDATE noetl.catalog AS entry SET name = named.name
         FROM unnest($1::bigint[], $2::text[]) AS named (id, name)
         WHERE entry.catalog_id = named.id AND entry.name IS NULL",
        ids,
        names,
    );
    Ok(cluster.run(update.execute(cluster.pool())).await?.rows_affected())
}
