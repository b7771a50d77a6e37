//! Catalog entries (cluster database). A stored entry never changes. Versions count up from 1 for each path.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::ids::Id;
use noetl_domain::page::PageRequest;
use plain_json::{ParsedOnce, Text};

/// One version of a catalog path.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// Catalog id, a snowflake.
    pub catalog_id: i64,
    /// Path, the name that users give it.
    pub path: String,
    /// Version, from 1, per path.
    pub version: i16,
    /// Kind, such as `playbook` or `subscription`; NoETL's own server writes it in any case.
    pub kind: String,
    /// Content as registered; absent in an outline.
    pub content: Option<String>,
    /// Parsed content; absent in an outline.
    pub payload: Option<ParsedOnce>,
    /// Further data of the registration; absent in an outline.
    pub meta: Option<Text>,
    /// Time of the registration.
    pub created_at: DateTime<Utc>,
}

/// A catalog entry to be registered.
#[derive(Debug)]
pub struct NewEntry {
    /// Preallocated catalog id.
    pub catalog_id: Id,
    /// Path, the name that users give it.
    pub path: String,
    /// Kind, in lower case.
    pub kind: String,
    /// Content as sent.
    pub content: String,
    /// Parsed content.
    pub payload: Value,
    /// Further data of the registration.
    pub meta: Option<Value>,
}

/// Conditions of a list; an entry must meet all that are set.
#[derive(Debug, Clone, Default)]
pub struct CatalogFilter {
    /// Kinds to include, in lower case; default: all.
    pub kinds: Option<Vec<String>>,
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Whether only the newest version of each path is included.
    pub latest_only: bool,
}

/// Position in a list: path, then version, ascending.
pub type CatalogKey = (String, i16);

/// Stores the next version of a path. An advisory lock on the path serialises concurrent registrations. `Ok(None)`: the
/// path has the maximum number of versions, 32767.
#[tracing::instrument(level = "debug", name = "sql.catalog.register", skip_all, fields(database = %cluster.name()))]
pub async fn register(cluster: &Database, entry: &NewEntry) -> Result<Option<CatalogEntry>, StorageError> {
    let work = async {
        let mut tx = cluster.pool().begin().await?;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('noetl.catalog:' || $1, 0))", entry.path)
            .execute(&mut *tx)
            .await?;
        let registered = sqlx::query_as!(
            CatalogEntry,
            r#"INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, meta)
               SELECT $1, $2, (last + 1)::smallint, $3, $4, $5, $6
               FROM (SELECT coalesce(max(version), 0) AS last FROM noetl.catalog WHERE path = $2) AS newest
               WHERE last < 32767
               RETURNING catalog_id, path, version, kind, content, payload::text AS "payload: ParsedOnce",
                         meta::text AS "meta: Text",
                         created_at AT TIME ZONE 'UTC' AS "created_at!""#,
            entry.catalog_id.get(),
            entry.path,
            entry.kind,
            entry.content,
            entry.payload,
            entry.meta,
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(registered)
    };
    cluster.run(work).await
}

/// Returns the entries with these ids, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.by_ids", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn by_ids(cluster: &Database, ids: &[i64]) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content, payload::text AS "payload: ParsedOnce",
                  meta::text AS "meta: Text", created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE catalog_id = ANY($1)"#,
        ids,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Returns the outlines of the entries with these ids, in no order. An outline has no content, payload and meta.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.outlines", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn outlines(cluster: &Database, ids: &[i64]) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, NULL::text AS content, NULL::text AS "payload: ParsedOnce",
                  NULL::text AS "meta: Text", created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE catalog_id = ANY($1)"#,
        ids,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Returns the ids of these paths' newest entries, in no order. A path without entries is left out.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.newest_ids", skip_all,
    fields(database = %cluster.name(), count = paths.len())
)]
pub async fn newest_ids(cluster: &Database, paths: &[String]) -> Result<Vec<(String, i64)>, StorageError> {
    let rows = sqlx::query!(
        "SELECT DISTINCT ON (path) path, catalog_id FROM noetl.catalog
         WHERE path = ANY($1) ORDER BY path, version DESC",
        paths,
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(|row| (row.path, row.catalog_id)).collect())
}

/// Returns a path's entry in this version, or in the newest. `Ok(None)`: it does not exist.
#[tracing::instrument(level = "debug", name = "sql.catalog.find", skip_all, fields(database = %cluster.name(), path))]
pub async fn find(cluster: &Database, path: &str, version: Option<i16>) -> Result<Option<CatalogEntry>, StorageError> {
    let row = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content, payload::text AS "payload: ParsedOnce",
                  meta::text AS "meta: Text", created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog
           WHERE path = $1 AND ($2::smallint IS NULL OR version = $2)
           ORDER BY version DESC LIMIT 1"#,
        path,
        version,
    );
    cluster.run(row.fetch_optional(cluster.pool())).await
}

/// Returns the candidates of a page, in the page's direction. They are outlines, plus those of the columns `content`,
/// `payload` and `meta` that `wanted` names.
#[tracing::instrument(level = "debug", name = "sql.catalog.list", skip_all, fields(database = %cluster.name()))]
pub async fn list(
    cluster: &Database,
    filter: &CatalogFilter,
    wanted: &[String],
    page: &PageRequest<CatalogKey>,
) -> Result<Vec<CatalogEntry>, StorageError> {
    let (after_path, after_version) = page.after.clone().unzip();
    let (before_path, before_version) = page.before.clone().unzip();
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                CatalogEntry,
                r#"SELECT catalog_id, path, version, kind,
                          CASE WHEN 'content' = ANY($9) THEN content END AS content,
                          CASE WHEN 'payload' = ANY($9) THEN payload::text END AS "payload: ParsedOnce",
                          CASE WHEN 'meta' = ANY($9) THEN meta::text END AS "meta: Text",
                          created_at AT TIME ZONE 'UTC' AS "created_at!"
                   FROM noetl.catalog AS entry
                   WHERE ($1::text[] IS NULL OR lower(kind) = ANY($1))
                     AND ($2::text IS NULL OR starts_with(path, $2))
                     AND (NOT $3 OR NOT EXISTS (
                         SELECT 1 FROM noetl.catalog AS newer
                         WHERE newer.path = entry.path AND newer.version > entry.version))
                     AND ($4::text IS NULL OR (path, version) > ($4, $5::smallint))
                     AND ($6::text IS NULL OR (path, version) < ($6, $7::smallint))
                   ORDER BY "#
                    + $order
                    + " LIMIT $8",
                filter.kinds.as_deref(),
                filter.path_prefix,
                filter.latest_only,
                after_path,
                after_version,
                before_path,
                before_version,
                page.rows_to_read(),
                wanted,
            )
            .fetch_all(cluster.pool())
        };
    }
    if page.backwards {
        cluster.run(listed!("path DESC, version DESC")).await
    } else {
        cluster.run(listed!("path, version")).await
    }
}
