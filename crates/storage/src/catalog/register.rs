//! Registration of catalog entries.

use super::CatalogEntry;
use crate::connections::Transaction;
use crate::content::Content;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::document::Document;
use noetl_domain::ids::Id;

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
    /// Subject of the caller; `None`: it is not identified.
    pub registered_by: Option<String>,
    /// Whether nothing is stored if the newest version of the path that is not retired has the same kind and the same
    /// text.
    pub only_if_changed: bool,
}

/// Result of a registration.
#[derive(Debug)]
pub enum Registered {
    /// The entry was stored as the next version.
    Added(CatalogEntry),
    /// The newest version that is not retired has the same kind and text, and nothing was stored.
    Unchanged(CatalogEntry),
    /// The path has the maximum number of versions, 32767.
    NoVersionLeft,
}

/// Stores the next version of a path. An advisory lock on the path serialises the registrations of this server; NoETL's
/// server does not take it, so a version that it stores meanwhile is skipped.
#[tracing::instrument(level = "debug", name = "sql.catalog.register", skip_all, fields(database = %cluster.name()))]
pub async fn register(cluster: &Database, entry: &NewEntry) -> Result<Registered, StorageError> {
    let work = async {
        let mut tx = cluster.pool().begin().await?;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('noetl.catalog:' || $1, 0))", entry.path)
            .execute(&mut *tx)
            .await?;
        loop {
            let newest = newest(&mut tx, entry).await?;
            let same = newest.as_ref().and_then(|newest| newest.same);
            if let Some(same) = same.filter(|_| entry.only_if_changed) {
                return same_entry(&mut tx, same).await.map(Registered::Unchanged);
            }
            let Some(version) = newest.map_or(0, |newest| newest.version).checked_add(1) else {
                return Ok(Registered::NoVersionLeft);
            };
            if let Some(added) = insert(&mut tx, entry, version).await? {
                tx.commit().await?;
                return Ok(Registered::Added(added));
            }
        }
    };
    cluster.run(work).await
}

/// Newest version of a path, compared with a new entry.
struct Newest {
    /// The last version, retired or not.
    version: i16,
    /// Id of the newest entry that is not retired, if it has the kind and the text of the new entry.
    same: Option<i64>,
}

async fn newest(tx: &mut Transaction, entry: &NewEntry) -> sqlx::Result<Option<Newest>> {
    let newest = sqlx::query_as!(
        Newest,
        r#"SELECT last.version AS "version!",
                  (SELECT CASE WHEN lower(kind) = $2 AND content = $3 THEN catalog_id END
                   FROM noetl.catalog WHERE path = $1 AND archived_at IS NULL ORDER BY version DESC LIMIT 1) AS same
           FROM (SELECT version FROM noetl.catalog WHERE path = $1 ORDER BY version DESC LIMIT 1) AS last"#,
        entry.path,
        entry.kind,
        entry.content,
    );
    newest.fetch_optional(&mut **tx).await
}

async fn same_entry(tx: &mut Transaction, catalog_id: i64) -> sqlx::Result<CatalogEntry> {
    let same = sqlx::query_as!(
        CatalogEntry,
        r#"SELECT catalog_id, path, version, kind, content AS "content: Content",
                  created_at AT TIME ZONE 'UTC' AS "created_at!"
           FROM noetl.catalog WHERE catalog_id = $1"#,
        catalog_id,
    );
    same.fetch_one(&mut **tx).await
}

/// Inserts the entry. `Ok(None)`: NoETL's server has stored this version meanwhile.
async fn insert(tx: &mut Transaction, entry: &NewEntry, version: i16) -> sqlx::Result<Option<CatalogEntry>> {
    let document = &entry.document;
    let insert = sqlx::query_as!(
        CatalogEntry,
        r#"INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, layout, meta, name, registered_by)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
           ON CONFLICT (path, version) DO NOTHING
           RETURNING catalog_id, path, version, kind, content AS "content: Content",
                     created_at AT TIME ZONE 'UTC' AS "created_at!""#,
        entry.catalog_id.get(),
        entry.path,
        version,
        entry.kind,
        entry.content,
        document.workload(),
        document.workflow(),
        document.labels(),
        document.name().unwrap_or_default(),
        entry.registered_by.as_deref(),
    );
    insert.fetch_optional(&mut **tx).await
}
