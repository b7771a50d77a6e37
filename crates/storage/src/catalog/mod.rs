//! Catalog entries (cluster database). Only the retirement of a stored entry changes, so it is read apart from the entry.
//! Versions count up from 1 for each path, and include the retired ones.
//!
//! The rows have NoETL's form: parts of the document are stored in columns of their own. All rules, and the API, read
//! the document. The columns are written for NoETL's server only.

mod archive;
mod by_time;
mod list;
mod names;
mod register;

use chrono::{DateTime, Utc};

use super::content::Content;
use super::error::StorageError;
use super::pools::Database;
use noetl_domain::document::{Document, DocumentError};
use noetl_domain::labels::Labels;

pub use archive::{EntryRecord, records, set_archived};
pub use by_time::{EntryTime, TimeFilter, TimedEntry, count_by_time, list_by_time};
pub use list::{CatalogFilter, VersionCount, count, count_versions, list, versions};
pub use names::{set_names, unnamed};
pub use register::{NewEntry, Registered, register};

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
    /// Time of the registration.
    pub created_at: DateTime<Utc>,
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

    /// Returns the labels of the document; none if it can't be read.
    #[must_use]
    pub fn labels(&self) -> Labels {
        let document = self.document().and_then(Result::ok);
        document.and_then(Document::labels).map(Labels::read).unwrap_or_default()
    }
}

/// Returns the entries with these ids, in no order. Without `with_content`, they are outlines.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.by_ids", skip_all,
    fields(database = %cluster.name(), count = ids.len(), first = ids.first())
)]
pub async fn by_ids(cluster: &Database, ids: &[i64], with_content: bool) -> Result<Vec<CatalogEntry>, StorageError> {
    let rows = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, CASE WHEN $2 THEN content END AS "content: Content",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE catalog_id = ANY($1)"#,
        ids,
        with_content,
    );
    cluster.run(rows.fetch_all(cluster.planned_for(ids.len()))).await
}

/// Returns the ids of these paths' newest entries, in no order. Retired entries count only with `include_archived`. A path
/// without entries is left out.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.newest_ids", skip_all,
    fields(database = %cluster.name(), count = paths.len())
)]
pub async fn newest_ids(
    cluster: &Database,
    paths: &[String],
    include_archived: bool,
) -> Result<Vec<(String, i64)>, StorageError> {
    let rows = sqlx::query!(
        r#"SELECT path AS "path!", entry.catalog_id
           FROM unnest($1::text[]) AS t (path)
           CROSS JOIN LATERAL (SELECT catalog_id FROM noetl.catalog
                               WHERE catalog.path = t.path AND ($2 OR archived_at IS NULL)
                               ORDER BY version DESC LIMIT 1) AS entry"#,
        paths,
        include_archived,
    );
    let rows = cluster.run(rows.fetch_all(cluster.planned_for(paths.len()))).await?;
    Ok(rows.into_iter().map(|row| (row.path, row.catalog_id)).collect())
}

/// Returns a path's entry in this version, retired or not, or in the newest version that is not retired. `Ok(None)`: it
/// does not exist.
#[tracing::instrument(level = "debug", name = "sql.catalog.find", skip_all, fields(database = %cluster.name(), path))]
pub async fn find(cluster: &Database, path: &str, version: Option<i16>) -> Result<Option<CatalogEntry>, StorageError> {
    let row = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content AS "content: Content",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog
           WHERE path = $1 AND (version = $2 OR ($2::smallint IS NULL AND archived_at IS NULL))
           ORDER BY version DESC LIMIT 1"#,
        path,
        version,
    );
    cluster.run(row.fetch_optional(cluster.planned_for(1))).await
}
