//! Catalog entries (cluster database). A stored entry never changes. Versions count up from 1 for each path.
//!
//! The rows have NoETL's form: parts of the document are stored in columns of their own. All rules read the document;
//! the columns are only shown, because earlier versions of this server stored the whole document as the payload.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::content::Content;
use super::error::StorageError;
use super::pools::Database;
use noetl_domain::document::{Document, DocumentError};
use noetl_domain::ids::Id;
use noetl_domain::page::PageRequest;
use plain_json::Text;

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
    /// Document; absent in an outline.
    pub content: Option<Content>,
    /// Workload of the document; absent in an outline.
    pub payload: Option<Text>,
    /// Workflow of the document; absent in an outline.
    pub layout: Option<Text>,
    /// Labels of the document, or further data of the registration; absent in an outline.
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
    /// Text of the document.
    pub content: String,
    /// The document.
    pub document: Document,
    /// Further data of the registration; `None`: the document's labels.
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

/// Stores the next version of a path. An advisory lock on the path serialises the registrations of this server; NoETL's
/// server does not take it, so a version that it stores meanwhile is skipped. `Ok(None)`: the path has the maximum
/// number of versions, 32767.
#[tracing::instrument(level = "debug", name = "sql.catalog.register", skip_all, fields(database = %cluster.name()))]
pub async fn register(cluster: &Database, entry: &NewEntry) -> Result<Option<CatalogEntry>, StorageError> {
    let work = async {
        let mut tx = cluster.pool().begin().await?;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('noetl.catalog:' || $1, 0))", entry.path)
            .execute(&mut *tx)
            .await?;
        let (document, meta) = (&entry.document, entry.meta.as_ref().or(entry.document.labels()));
        loop {
            let last = sqlx::query_scalar!(
                r#"SELECT coalesce(max(version), 0::smallint) AS "last!" FROM noetl.catalog WHERE path = $1"#,
                entry.path,
            );
            let Some(version) = last.fetch_one(&mut *tx).await?.checked_add(1) else {
                return Ok(None);
            };
            let insert = sqlx::query_as!(
                CatalogEntry,
                r#"INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, layout, meta)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                   ON CONFLICT (path, version) DO NOTHING
                   RETURNING catalog_id, path, version, kind, content AS "content: Content",
                             payload::text AS "payload: Text", layout::text AS "layout: Text", meta::text AS "meta: Text",
                             created_at AT TIME ZONE 'UTC' AS "created_at!""#,
                entry.catalog_id.get(),
                entry.path,
                version,
                entry.kind,
                entry.content,
                document.workload(),
                document.workflow(),
                meta,
            );
            if let Some(registered) = insert.fetch_optional(&mut *tx).await? {
                tx.commit().await?;
                return Ok(Some(registered));
            }
        }
    };
    cluster.run(work).await
}

impl CatalogEntry {
    /// Returns the text of the document. `None`: the entry is an outline, or has no content.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.content.as_ref().map(Content::text)
    }

    /// Returns the document, or the reason that it can't be read. `None`: the entry is an outline, or has no content.
    #[must_use]
    pub fn document(&self) -> Option<Result<&Document, &DocumentError>> {
        self.content.as_ref().map(Content::document)
    }
}

/// Returns the entries with these ids, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.by_ids", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn by_ids(cluster: &Database, ids: &[i64]) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content AS "content: Content",
                  payload::text AS "payload: Text", layout::text AS "layout: Text", meta::text AS "meta: Text",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE catalog_id = ANY($1)"#,
        ids,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Returns the outlines of the entries with these ids, in no order. An outline has no content, payload, layout and meta.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.outlines", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn outlines(cluster: &Database, ids: &[i64]) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, NULL::text AS "content: Content", NULL::text AS "payload: Text",
                  NULL::text AS "layout: Text", NULL::text AS "meta: Text", created_at AT TIME ZONE 'UTC' AS "created_at!"
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
        r#"SELECT catalog_id, path, version, kind, content AS "content: Content",
                  payload::text AS "payload: Text", layout::text AS "layout: Text", meta::text AS "meta: Text",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog
           WHERE path = $1 AND ($2::smallint IS NULL OR version = $2)
           ORDER BY version DESC LIMIT 1"#,
        path,
        version,
    );
    cluster.run(row.fetch_optional(cluster.pool())).await
}

/// Returns the candidates of a page, in the page's direction. They are outlines, plus those of the columns `content`,
/// `payload`, `layout` and `meta` that `wanted` names.
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
                          CASE WHEN 'content' = ANY($9) THEN content END AS "content: Content",
                          CASE WHEN 'payload' = ANY($9) THEN payload::text END AS "payload: Text",
                          CASE WHEN 'layout' = ANY($9) THEN layout::text END AS "layout: Text",
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
