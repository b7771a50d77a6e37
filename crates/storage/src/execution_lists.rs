//! Lists of executions and their counts, from the read model.

use chrono::{DateTime, Utc};

use super::error::StorageError;
use super::executions::{ExecutionRow, stored_names};
use super::pools::Database;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::list_position::{ListPosition, PositionRange};
use noetl_domain::tenant::Scope;

/// Conditions of a list; an execution must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ExecutionFilter {
    /// Statuses to include; default: all.
    pub statuses: Option<Vec<Status>>,
    /// Path.
    pub path: Option<String>,
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Catalog entry.
    pub catalog_id: Option<Id>,
    /// Subscription or execution that started it.
    pub parent_execution_id: Option<Id>,
    /// Ids to include; default: all.
    pub ids: Option<Vec<Id>>,
    /// First digits of the id.
    pub id_prefix: Option<String>,
    /// Exclusive lower bound of the start time.
    pub started_after: Option<DateTime<Utc>>,
    /// Exclusive upper bound of the start time.
    pub started_before: Option<DateTime<Utc>>,
    /// Exclusive lower bound of the end time.
    pub ended_after: Option<DateTime<Utc>>,
    /// Exclusive upper bound of the end time.
    pub ended_before: Option<DateTime<Utc>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
}

impl ExecutionFilter {
    /// Returns whether the execution meets all conditions.
    #[must_use]
    pub fn matches(&self, row: &ExecutionRow) -> bool {
        let status = row.status.to_uppercase();
        let path = row.path.as_deref();
        let is_after = |time: Option<DateTime<Utc>>, bound: Option<DateTime<Utc>>| {
            bound.is_none_or(|bound| time.is_some_and(|at| at > bound))
        };
        let is_before = |time: Option<DateTime<Utc>>, bound: Option<DateTime<Utc>>| {
            bound.is_none_or(|bound| time.is_some_and(|at| at < bound))
        };
        self.statuses.as_ref().is_none_or(|wanted| stored_names(wanted).contains(&status))
            && self.path.as_deref().is_none_or(|wanted| path == Some(wanted))
            && self.path_prefix.as_deref().is_none_or(|prefix| path.is_some_and(|path| path.starts_with(prefix)))
            && self.catalog_id.is_none_or(|id| row.catalog_id == id.get())
            && self.parent_execution_id.is_none_or(|parent| row.parent_execution_id == Some(parent.get()))
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&Id::new(row.execution_id)))
            && self.id_prefix.as_deref().is_none_or(|prefix| row.execution_id.to_string().starts_with(prefix))
            && is_after(row.start_time, self.started_after)
            && is_before(row.start_time, self.started_before)
            && is_after(row.end_time, self.ended_after)
            && is_before(row.end_time, self.ended_before)
            && self.tenant_id.as_ref().is_none_or(|tenant| *tenant == row.tenant_id)
            && self.organization_id.as_ref().is_none_or(|organization| *organization == row.organization_id)
    }

    /// Returns whether an execution that matches can stop matching after an event.
    #[must_use]
    pub const fn can_stop_matching(&self) -> bool {
        self.statuses.is_some() || self.ended_after.is_some() || self.ended_before.is_some()
    }

    /// Returns the part of a range in which executions that meet the conditions can be.
    fn within(&self, range: PositionRange) -> PositionRange {
        let after = self.started_after.map(|at| ListPosition { at, id: i64::MAX });
        let before = self.started_before.map(|at| ListPosition { at, id: i64::MIN });
        PositionRange {
            above: after.map_or(range.above, |bound| bound.max(range.above)),
            below: before.map_or(range.below, |bound| bound.min(range.below)),
            ..range
        }
    }

    /// Returns the values of the conditions in the form of the statements.
    fn stored(&self) -> StoredConditions {
        StoredConditions {
            statuses: self.statuses.as_ref().map(|wanted| stored_names(wanted)),
            ids: self.ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
            // The character after the digits.
            id_bound: self.id_prefix.as_ref().map(|prefix| format!("{prefix}:")),
        }
    }
}

/// Values of conditions in the form of the statements.
struct StoredConditions {
    statuses: Option<Vec<String>>,
    ids: Option<Vec<i64>>,
    /// Exclusive upper bound of ids as texts.
    id_bound: Option<String>,
}

/// Expands to a statement with the conditions of a filter and a scope on `noetl.execution`. They have the parameters 1
/// to 15; those of the rest of the statement follow. The first argument is the macro of sqlx with its result type.
macro_rules! filtered {
    ($query:ident!($($row:ty)?), $scope:expr, $filter:expr, $stored:expr, $before:literal, $after:literal $(, $argument:expr)* $(,)?) => {
        sqlx::$query!(
            $($row,)?
            $before
                + " ($1::text[] IS NULL OR upper(status) = ANY($1))
                    AND ($2::text IS NULL OR starts_with(path, $2))
                    AND ($3::bigint IS NULL OR parent_execution_id = $3)
                    AND ($4::timestamptz IS NULL OR start_time > $4)
                    AND ($5::timestamptz IS NULL OR start_time < $5)
                    AND ($6::text IS NULL OR tenant_id = $6)
                    AND ($7::text IS NULL OR tenant_id = $7) AND ($8::text IS NULL OR organization_id = $8)
                    AND ($9::text IS NULL OR path = $9)
                    AND ($10::bigint IS NULL OR catalog_id = $10)
                    AND ($11::timestamptz IS NULL OR end_time > $11)
                    AND ($12::timestamptz IS NULL OR end_time < $12)
                    AND ($13::bigint[] IS NULL OR execution_id = ANY($13))
                    AND ($14::text IS NULL OR execution_id::text COLLATE \"C\" >= $14)
                    AND ($15::text IS NULL OR execution_id::text COLLATE \"C\" < $15) "
                + $after,
            $stored.statuses.as_deref(),
            $filter.path_prefix,
            $filter.parent_execution_id.map(Id::get),
            $filter.started_after,
            $filter.started_before,
            $scope.tenant(),
            $filter.tenant_id,
            $filter.organization_id,
            $filter.path,
            $filter.catalog_id.map(Id::get),
            $filter.ended_after,
            $filter.ended_before,
            $stored.ids.as_deref(),
            $filter.id_prefix,
            $stored.id_bound,
            $($argument,)*
        )
    };
}

/// Returns the candidates of a page in the scope, in the range's direction. A list is ordered by start time, then by id.
#[tracing::instrument(level = "debug", name = "sql.executions.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    filter: &ExecutionFilter,
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    let (stored, range) = (filter.stored(), filter.within(range));
    macro_rules! listed {
        ($rest:literal) => {
            filtered!(
                query_as!(ExecutionRow),
                scope,
                filter,
                stored,
                "SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
                 FROM noetl.execution WHERE ",
                $rest,
                range.above.at,
                range.above.id,
                range.below.at,
                range.below.id,
                range.limit,
            )
            .fetch_all(shard.pool())
        };
    }
    if range.descending {
        shard
            .run(listed!(
                "AND (noetl.list_time(start_time), execution_id) > ($16, $17)
             AND (noetl.list_time(start_time), execution_id) < ($18, $19)
             ORDER BY noetl.list_time(start_time) DESC, execution_id DESC LIMIT $20"
            ))
            .await
    } else {
        shard
            .run(listed!(
                "AND (noetl.list_time(start_time), execution_id) > ($16, $17)
             AND (noetl.list_time(start_time), execution_id) < ($18, $19)
             ORDER BY noetl.list_time(start_time), execution_id LIMIT $20"
            ))
            .await
    }
}

/// Returns the candidates of a page for the children of each of these parents in the scope, in the range's direction,
/// grouped by parent. A parent that the filter excludes has none.
#[tracing::instrument(
    level = "debug", name = "sql.executions.children", skip_all,
    fields(database = %shard.name(), count = parents.len(), first = parents.first())
)]
pub async fn children(
    shard: &Database,
    scope: &Scope,
    parents: &[i64],
    filter: &ExecutionFilter,
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    let (parents, stored, range) = (wanted_parents(parents, filter), filter.stored(), filter.within(range));
    macro_rules! listed {
        ($rest:literal) => {
            filtered!(
                query_as!(ExecutionRow),
                scope,
                filter,
                stored,
                "SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
                 FROM unnest($20::bigint[]) AS parent (id)
                 CROSS JOIN LATERAL (
                     SELECT * FROM noetl.execution WHERE parent_execution_id = parent.id AND ",
                $rest,
                range.above.at,
                range.above.id,
                range.below.at,
                range.below.id,
                &parents,
                range.limit,
            )
            .fetch_all(shard.pool())
        };
    }
    if range.descending {
        shard
            .run(listed!(
                "        AND (noetl.list_time(start_time), execution_id) > ($16, $17)
                     AND (noetl.list_time(start_time), execution_id) < ($18, $19)
                     ORDER BY noetl.list_time(start_time) DESC, execution_id DESC LIMIT $21
                 ) AS page
                 ORDER BY parent_execution_id, noetl.list_time(start_time) DESC, execution_id DESC"
            ))
            .await
    } else {
        shard
            .run(listed!(
                "        AND (noetl.list_time(start_time), execution_id) > ($16, $17)
                     AND (noetl.list_time(start_time), execution_id) < ($18, $19)
                     ORDER BY noetl.list_time(start_time), execution_id LIMIT $21
                 ) AS page
                 ORDER BY parent_execution_id, noetl.list_time(start_time), execution_id"
            ))
            .await
    }
}

/// Child of an execution. Those that have not ended come first, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    /// Whether it has ended, as the list shows it.
    pub ended: bool,
    /// Its id.
    pub execution_id: i64,
}

impl Child {
    /// Position before every child.
    pub const FIRST: Self = Self { ended: false, execution_id: i64::MIN };
}

/// Returns the children of these executions in the scope that come after a position, up to `limit`, in their order.
#[tracing::instrument(
    level = "debug", name = "sql.executions.child_ids", skip_all,
    fields(database = %shard.name(), count = parents.len(), first = parents.first())
)]
pub async fn child_ids(
    shard: &Database,
    scope: &Scope,
    parents: &[i64],
    after: Child,
    limit: i64,
) -> Result<Vec<Child>, StorageError> {
    let terminal: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
    let rows = sqlx::query_as!(
        Child,
        r#"SELECT execution_id, upper(status) = ANY($3) AS "ended!" FROM noetl.execution
           WHERE parent_execution_id = ANY($1) AND ($2::text IS NULL OR tenant_id = $2)
             AND (upper(status) = ANY($3), execution_id) > ($4, $5)
           ORDER BY upper(status) = ANY($3), execution_id LIMIT $6"#,
        parents,
        scope.tenant(),
        &stored_names(&terminal),
        after.ended,
        after.execution_id,
        limit,
    );
    shard.run(rows.fetch_all(shard.pool())).await
}

/// Counts executions in the scope, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count", skip_all, fields(database = %shard.name()))]
pub async fn count(shard: &Database, scope: &Scope, filter: &ExecutionFilter, limit: i64) -> Result<i64, StorageError> {
    let stored = filter.stored();
    let count = filtered!(
        query_scalar!(),
        scope,
        filter,
        stored,
        "SELECT count(*) AS \"count!\" FROM (SELECT 1 FROM noetl.execution WHERE ",
        " LIMIT $16) AS counted",
        limit,
    );
    shard.run(count.fetch_one(shard.pool())).await
}

/// Number of executions with a status, or of executions of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCount {
    /// Status as stored, in capitals; `None` in the group of a path.
    pub status: Option<String>,
    /// Path; `None` in the group of a status, and of executions without a path.
    pub path: Option<String>,
    /// Number of executions.
    pub count: i64,
}

/// Counts executions in the scope by status, and by path for the `paths` paths with the most executions. Up to `limit`
/// executions are counted.
#[tracing::instrument(level = "debug", name = "sql.executions.stats", skip_all, fields(database = %shard.name()))]
pub async fn stats(
    shard: &Database,
    scope: &Scope,
    filter: &ExecutionFilter,
    limit: i64,
    paths: i64,
) -> Result<Vec<GroupCount>, StorageError> {
    let stored = filter.stored();
    let groups = filtered!(
        query_as!(GroupCount),
        scope,
        filter,
        stored,
        "WITH counted AS MATERIALIZED (SELECT upper(status) AS status, path FROM noetl.execution WHERE ",
        " LIMIT $16)
         SELECT status, NULL::text AS path, count(*) AS \"count!\" FROM counted GROUP BY status
         UNION ALL
         (SELECT NULL::text AS status, path, count(*) AS \"count!\" FROM counted
          GROUP BY path ORDER BY count(*) DESC, path LIMIT $17)",
        limit,
        paths,
    );
    shard.run(groups.fetch_all(shard.pool())).await
}

/// Number of children of an execution or subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildCount {
    /// The subscription or execution that started them.
    pub parent: i64,
    /// Their number.
    pub count: i64,
}

/// Counts the children of each of these parents in the scope, up to `limit` for each. A parent that the filter excludes
/// is left out.
#[tracing::instrument(
    level = "debug", name = "sql.executions.count_children", skip_all,
    fields(database = %shard.name(), count = parents.len(), first = parents.first())
)]
pub async fn count_children(
    shard: &Database,
    scope: &Scope,
    parents: &[i64],
    filter: &ExecutionFilter,
    limit: i64,
) -> Result<Vec<ChildCount>, StorageError> {
    let (parents, stored) = (wanted_parents(parents, filter), filter.stored());
    let counts = filtered!(
        query_as!(ChildCount),
        scope,
        filter,
        stored,
        "SELECT parent.id AS \"parent!\", children.count AS \"count!\"
         FROM unnest($17::bigint[]) AS parent (id)
         CROSS JOIN LATERAL (
             SELECT count(*) AS count FROM (
                 SELECT 1 FROM noetl.execution WHERE parent_execution_id = parent.id AND ",
        "        LIMIT $16
             ) AS counted
         ) AS children",
        limit,
        &parents,
    );
    shard.run(counts.fetch_all(shard.pool())).await
}

/// Returns the parents that the filter does not exclude.
fn wanted_parents(parents: &[i64], filter: &ExecutionFilter) -> Vec<i64> {
    let wanted = |id: &&i64| filter.parent_execution_id.is_none_or(|parent| parent.get() == **id);
    parents.iter().filter(wanted).copied().collect()
}
