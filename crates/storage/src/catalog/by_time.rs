//! Lists of catalog entries by the time of their registration or of their retirement, and their counts.
//!
//! Each order has an index for all entries, and another one for those of a path. The time in each index is a different
//! expression (`noetl.list_time` with a place), so only one index has the order of a statement.

use chrono::{DateTime, Utc};

use super::CatalogEntry;
use crate::content::Content;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::list_position::{ListPosition, PositionRange};

/// Time of an entry, by which a list is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryTime {
    /// Time of the registration.
    Registration,
    /// Time of the retirement. Only retired entries have it.
    Retirement,
}

/// Conditions of a list by time; an entry must have the time and meet all conditions that are set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimeFilter {
    /// Time by which the list is ordered.
    pub time: EntryTime,
    /// Path.
    pub path: Option<String>,
    /// Earliest time.
    pub after: Option<DateTime<Utc>>,
    /// End of the times, excluded.
    pub before: Option<DateTime<Utc>>,
}

/// An entry of a list by time.
#[derive(Debug, Clone)]
pub struct TimedEntry {
    /// The entry.
    pub entry: CatalogEntry,
    /// Its position in the list.
    pub position: ListPosition,
}

/// Row of a list by time.
struct TimedRow {
    catalog_id: i64,
    path: String,
    version: i16,
    kind: String,
    content: Option<Content>,
    created_at: DateTime<Utc>,
    listed_at: DateTime<Utc>,
}

impl From<TimedRow> for TimedEntry {
    fn from(row: TimedRow) -> Self {
        let TimedRow { catalog_id, path, version, kind, content, created_at, listed_at } = row;
        let entry = CatalogEntry { catalog_id, path, version, kind, content, created_at };
        Self { entry, position: ListPosition { at: listed_at, id: catalog_id } }
    }
}

/// Calls a macro with the time and the condition of the index that has the order of a filter. In the statement, `$5` is
/// the path.
macro_rules! along_index {
    ($statement:ident, $filter:expr) => {
        match ($filter.time, $filter.path.is_some()) {
            (EntryTime::Registration, false) => {
                $statement!("noetl.list_time(created_at AT TIME ZONE 'UTC')", "$5::text IS NULL")
            }
            (EntryTime::Registration, true) => {
                $statement!("noetl.list_time(created_at AT TIME ZONE 'UTC', 1)", r#"path COLLATE "C" = $5"#)
            }
            (EntryTime::Retirement, false) => {
                $statement!("noetl.list_time(archived_at, 2)", "archived_at IS NOT NULL AND $5::text IS NULL")
            }
            (EntryTime::Retirement, true) => {
                $statement!("noetl.list_time(archived_at, 3)", r#"archived_at IS NOT NULL AND path COLLATE "C" = $5"#)
            }
        }
    };
}

/// Returns the candidates of a page, in the range's direction. Without `with_content`, they are outlines.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.list_by_time", skip_all,
    fields(database = %cluster.name())
)]
pub async fn list_by_time(
    cluster: &Database,
    filter: &TimeFilter,
    with_content: bool,
    range: PositionRange,
) -> Result<Vec<TimedEntry>, StorageError> {
    let PositionRange { above, below, descending, limit } = range.between(filter.after, filter.before);
    macro_rules! listed {
        ($time:literal, $rows:literal, $direction:literal) => {
            cluster
                .run(
                    sqlx::query_as!(
                        TimedRow,
                        r#"SELECT catalog_id, path, version, kind, CASE WHEN $7 THEN content END AS "content: Content",
                                  created_at AT TIME ZONE 'UTC' AS "created_at!", "#
                            + $time
                            + r#" AS "listed_at!"
                           FROM noetl.catalog AS entry
                           WHERE "#
                            + $rows
                            + " AND ("
                            + $time
                            + ", catalog_id) > ($1, $2) AND ("
                            + $time
                            + ", catalog_id) < ($3, $4) ORDER BY "
                            + $time
                            + $direction
                            + ", catalog_id"
                            + $direction
                            + " LIMIT $6",
                        above.at,
                        above.id,
                        below.at,
                        below.id,
                        filter.path,
                        limit,
                        with_content,
                    )
                    .fetch_all(cluster.planned_once()),
                )
                .await
        };
    }
    macro_rules! directed {
        ($time:literal, $rows:literal) => {
            if descending { listed!($time, $rows, " DESC") } else { listed!($time, $rows, "") }
        };
    }
    let rows: Vec<TimedRow> = along_index!(directed, filter)?;
    Ok(rows.into_iter().map(TimedEntry::from).collect())
}

/// Counts the entries of a list, up to `limit`.
#[tracing::instrument(
    level = "debug", name = "sql.catalog.count_by_time", skip_all,
    fields(database = %cluster.name())
)]
pub async fn count_by_time(cluster: &Database, filter: &TimeFilter, limit: i64) -> Result<i64, StorageError> {
    let range = PositionRange::newest(limit).between(filter.after, filter.before);
    let PositionRange { above, below, .. } = range;
    macro_rules! counted {
        ($time:literal, $rows:literal) => {
            cluster
                .run(
                    sqlx::query_scalar!(
                        r#"SELECT count(*) AS "count!" FROM (
                               SELECT 1 FROM noetl.catalog AS entry
                               WHERE "#
                            + $rows
                            + " AND ("
                            + $time
                            + ", catalog_id) > ($1, $2) AND ("
                            + $time
                            + ", catalog_id) < ($3, $4) ORDER BY "
                            + $time
                            + ", catalog_id LIMIT $6
                           ) AS counted",
                        above.at,
                        above.id,
                        below.at,
                        below.id,
                        filter.path,
                        limit,
                    )
                    .fetch_one(cluster.planned_once()),
                )
                .await
        };
    }
    along_index!(counted, filter)
}
