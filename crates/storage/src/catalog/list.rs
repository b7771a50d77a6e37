//! Lists of catalog entries by path and version, and their counts.

use super::CatalogEntry;
use crate::content::Content;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::catalog_list::{Between, CatalogKey};
use noetl_domain::document::kind::Kind;
use noetl_domain::page::PageRequest;

/// Conditions of a list; an entry must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CatalogFilter {
    /// Kinds to include; default: all.
    pub kinds: Option<Vec<Kind>>,
    /// Path.
    pub path: Option<String>,
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Text that the path or the name contains, in upper or lower case as the locale of the database knows it.
    pub text: Option<String>,
    /// Whether only the newest version of each path is included: the newest that is not retired. With
    /// `include_archived`, a path with only retired versions has the newest of them.
    pub latest_only: bool,
    /// Whether retired entries are included.
    pub include_archived: bool,
}

/// Kinds of a filter, as a statement compares them.
struct WantedKinds {
    /// Stored names in lower case; `None`: all kinds.
    names: Option<Vec<String>>,
    /// Whether names of unknown kinds are included.
    unknown: bool,
    /// Names of all known kinds.
    known: Vec<String>,
}

impl WantedKinds {
    fn of(kinds: Option<&[Kind]>) -> Self {
        let names = |kinds: &[Kind]| kinds.iter().filter_map(|kind| kind.name()).map(str::to_owned).collect();
        Self {
            names: kinds.map(names),
            unknown: kinds.is_some_and(|kinds| kinds.contains(&Kind::Unknown)),
            known: names(&Kind::KNOWN),
        }
    }
}

/// Returns the candidates of a page, in the page's direction. Without `with_content`, they are outlines.
#[tracing::instrument(level = "debug", name = "sql.catalog.list", skip_all, fields(database = %cluster.name()))]
pub async fn list(
    cluster: &Database,
    filter: &CatalogFilter,
    with_content: bool,
    page: &PageRequest<CatalogKey>,
) -> Result<Vec<CatalogEntry>, StorageError> {
    let kinds = WantedKinds::of(filter.kinds.as_deref());
    let Between { above, below } =
        Between::of(filter.path.as_deref(), filter.path_prefix.as_deref(), page.after.clone(), page.before.clone());
    let (below_path, below_version) = below.unzip();
    macro_rules! listed {
        ($end:literal, $order:literal) => {
            sqlx::query_as!(
                CatalogEntry,
                r#"SELECT catalog_id, path, version, kind,
                          CASE WHEN $9 THEN content END AS "content: Content",
                          created_at AT TIME ZONE 'UTC' AS "created_at!"
                   FROM noetl.catalog AS entry
                   WHERE ($1::text[] IS NULL OR lower(kind) = ANY($1) OR ($10 AND lower(kind) <> ALL($11)))
                     AND ($2::text IS NULL OR starts_with(path, $2))
                     AND ($13 OR archived_at IS NULL)
                     AND (NOT $3 OR NOT EXISTS (
                         SELECT 1 FROM noetl.catalog AS newer
                         WHERE newer.path = entry.path AND newer.version > entry.version
                           AND (newer.archived_at IS NULL OR entry.archived_at IS NOT NULL)))
                     AND (NOT $3 OR archived_at IS NULL OR (
                         SELECT 1 FROM noetl.catalog AS live
                         WHERE live.path = entry.path AND live.archived_at IS NULL LIMIT 1) IS NULL)
                     AND (path COLLATE "C", version) > ($4, $5::smallint)
                     AND ($6::text IS NULL OR (path COLLATE "C", version) < ($6, $7::smallint))
                     AND ($12::text IS NULL OR strpos(lower(path), lower($12)) > 0 OR strpos(lower(name), lower($12)) > 0)
                     "#
                    + $end
                    + " ORDER BY "
                    + $order
                    + " LIMIT $8",
                kinds.names.as_deref(),
                filter.path_prefix,
                filter.latest_only,
                above.0,
                above.1,
                below_path,
                below_version,
                page.rows_to_read(),
                with_content,
                kinds.unknown,
                &kinds.known,
                filter.text,
                filter.include_archived,
            )
            .fetch_all(cluster.planned_once())
        };
    }
    macro_rules! directed {
        ($end:literal) => {
            if page.backwards {
                cluster.run(listed!($end, "path COLLATE \"C\" DESC, version DESC")).await
            } else {
                cluster.run(listed!($end, "path COLLATE \"C\", version")).await
            }
        };
    }
    if below_path.is_some() {
        directed!("AND (path COLLATE \"C\", version) < ($6, $7::smallint)")
    } else {
        directed!("")
    }
}

/// Counts the entries of a list, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.catalog.count", skip_all, fields(database = %cluster.name()))]
pub async fn count(cluster: &Database, filter: &CatalogFilter, limit: i64) -> Result<i64, StorageError> {
    let kinds = WantedKinds::of(filter.kinds.as_deref());
    let Between { above, below } = Between::of(filter.path.as_deref(), filter.path_prefix.as_deref(), None, None);
    let below = below.map(|(path, _)| path);
    macro_rules! counted {
        ($source:literal) => {
            sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM (
                       SELECT 1 FROM noetl.catalog AS entry
                       WHERE ($1::text[] IS NULL OR lower(kind) = ANY($1) OR ($2 AND lower(kind) <> ALL($3)))
                         AND ($4::text IS NULL OR starts_with(path, $4))
                         AND ($10 OR archived_at IS NULL)
                         AND (NOT $5 OR NOT EXISTS (
                             SELECT 1 FROM noetl.catalog AS newer
                             WHERE newer.path = entry.path AND newer.version > entry.version
                               AND (newer.archived_at IS NULL OR entry.archived_at IS NOT NULL)))
                         AND (NOT $5 OR archived_at IS NULL OR (
                             SELECT 1 FROM noetl.catalog AS live
                             WHERE live.path = entry.path AND live.archived_at IS NULL LIMIT 1) IS NULL)
                         AND ($6::text IS NULL OR strpos(lower(path), lower($6)) > 0 OR strpos(lower(name), lower($6)) > 0)
                         AND ($8::text IS NULL OR path COLLATE "C" >= $8)
                         AND ($9::text IS NULL OR path COLLATE "C" < $9)
                         "#
                    + $source
                    + " LIMIT $7
                   ) AS counted",
                kinds.names.as_deref(),
                kinds.unknown,
                &kinds.known,
                filter.path_prefix,
                filter.latest_only,
                filter.text,
                limit,
                above.0,
                below,
                filter.include_archived,
            )
            .fetch_one(cluster.planned_once())
        };
    }
    if below.is_some() {
        cluster
            .run(counted!(r#"AND path COLLATE "C" >= $8 AND path COLLATE "C" < $9 ORDER BY path COLLATE "C", version"#))
            .await
    } else {
        cluster.run(counted!(r#"ORDER BY path COLLATE "C", version"#)).await
    }
}

/// Returns the candidates of a page for the versions of each of these paths, in the page's direction, grouped by path.
/// The list of a path has the newest version first, and retired versions only with `include_archived`. Without
/// `with_content`, they are outlines.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.versions", skip_all,
    fields(database = %cluster.name(), count = paths.len())
)]
pub async fn versions(
    cluster: &Database,
    paths: &[String],
    include_archived: bool,
    with_content: bool,
    page: &PageRequest<i16>,
) -> Result<Vec<CatalogEntry>, StorageError> {
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                CatalogEntry,
                r#"SELECT catalog_id AS "catalog_id!", page.path AS "path!", version AS "version!", kind AS "kind!",
                          CASE WHEN $2 THEN content END AS "content: Content",
                          created_at AT TIME ZONE 'UTC' AS "created_at!"
                   FROM unnest($1::text[]) AS wanted (path)
                   CROSS JOIN LATERAL (
                       SELECT * FROM noetl.catalog AS entry
                       WHERE entry.path = wanted.path
                         AND ($3::smallint IS NULL OR version < $3) AND ($4::smallint IS NULL OR version > $4)
                         AND ($6 OR archived_at IS NULL)
                       ORDER BY "#
                    + $order
                    + " LIMIT $5
                   ) AS page
                   ORDER BY page.path, "
                    + $order,
                paths,
                with_content,
                page.after,
                page.before,
                page.rows_to_read(),
                include_archived,
            )
            .fetch_all(cluster.planned_once())
        };
    }
    if page.backwards { cluster.run(listed!("version")).await } else { cluster.run(listed!("version DESC")).await }
}

/// Number of versions of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionCount {
    /// The path.
    pub path: String,
    /// Number of its versions.
    pub count: i64,
}

/// Counts the versions of each of these paths, up to `limit` for each; retired ones only with `include_archived`.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.count_versions", skip_all,
    fields(database = %cluster.name(), count = paths.len())
)]
pub async fn count_versions(
    cluster: &Database,
    paths: &[String],
    include_archived: bool,
    limit: i64,
) -> Result<Vec<VersionCount>, StorageError> {
    let counts = sqlx::query_as!(
        VersionCount,
        r#"SELECT wanted.path AS "path!", versions.count AS "count!"
           FROM unnest($1::text[]) AS wanted (path)
           CROSS JOIN LATERAL (
               SELECT count(*) AS count FROM (
                   SELECT 1 FROM noetl.catalog AS entry
                   WHERE entry.path = wanted.path AND ($3 OR entry.archived_at IS NULL) LIMIT $2
               ) AS counted
           ) AS versions"#,
        paths,
        limit,
        include_archived,
    );
    cluster.run(counts.fetch_all(cluster.planned_once())).await
}
