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
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Subscription or execution that started it.
    pub parent_execution_id: Option<Id>,
    /// Exclusive lower bound of the start time.
    pub started_after: Option<DateTime<Utc>>,
    /// Exclusive upper bound of the start time.
    pub started_before: Option<DateTime<Utc>>,
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
        self.statuses.as_ref().is_none_or(|wanted| stored_names(wanted).contains(&status))
            && self
                .path_prefix
                .as_ref()
                .is_none_or(|prefix| row.path.as_ref().is_some_and(|path| path.starts_with(prefix.as_str())))
            && self.parent_execution_id.is_none_or(|parent| row.parent_execution_id == Some(parent.get()))
            && self.started_after.is_none_or(|time| row.start_time.is_some_and(|started| started > time))
            && self.started_before.is_none_or(|time| row.start_time.is_some_and(|started| started < time))
            && self.tenant_id.as_ref().is_none_or(|tenant| *tenant == row.tenant_id)
            && self.organization_id.as_ref().is_none_or(|organization| *organization == row.organization_id)
    }

    /// Returns whether an execution that matches can stop matching after an event.
    #[must_use]
    pub fn can_stop_matching(&self) -> bool {
        self.statuses.is_some()
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
}

/// Returns the candidates of a page in the scope, in the range's direction. A list is ordered by start time, then by id.
#[tracing::instrument(level = "debug", name = "sql.executions.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    filter: &ExecutionFilter,
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    let statuses: Option<Vec<String>> = filter.statuses.as_ref().map(|wanted| stored_names(wanted));
    let range = filter.within(range);
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                ExecutionRow,
                "SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
                 FROM noetl.execution
                 WHERE (noetl.list_time(start_time), execution_id) > ($1, $2)
                   AND (noetl.list_time(start_time), execution_id) < ($3, $4)
                   AND ($5::text[] IS NULL OR upper(status) = ANY($5))
                   AND ($6::text IS NULL OR starts_with(path, $6))
                   AND ($7::bigint IS NULL OR parent_execution_id = $7)
                   AND ($8::timestamptz IS NULL OR start_time > $8)
                   AND ($9::timestamptz IS NULL OR start_time < $9)
                   AND ($11::text IS NULL OR tenant_id = $11)
                   AND ($12::text IS NULL OR tenant_id = $12) AND ($13::text IS NULL OR organization_id = $13)
                 ORDER BY "
                    + $order
                    + " LIMIT $10",
                range.above.at,
                range.above.id,
                range.below.at,
                range.below.id,
                statuses.as_deref(),
                filter.path_prefix,
                filter.parent_execution_id.map(Id::get),
                filter.started_after,
                filter.started_before,
                range.limit,
                scope.tenant(),
                filter.tenant_id,
                filter.organization_id,
            )
            .fetch_all(shard.pool())
        };
    }
    if range.descending {
        shard.run(listed!("noetl.list_time(start_time) DESC, execution_id DESC")).await
    } else {
        shard.run(listed!("noetl.list_time(start_time), execution_id")).await
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
    let parents = wanted_parents(parents, filter);
    let statuses: Option<Vec<String>> = filter.statuses.as_ref().map(|wanted| stored_names(wanted));
    let range = filter.within(range);
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                ExecutionRow,
                "SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
                 FROM unnest($1::bigint[]) AS parent (id)
                 CROSS JOIN LATERAL (
                     SELECT * FROM noetl.execution
                     WHERE parent_execution_id = parent.id
                       AND (noetl.list_time(start_time), execution_id) > ($2, $3)
                       AND (noetl.list_time(start_time), execution_id) < ($4, $5)
                       AND ($6::text[] IS NULL OR upper(status) = ANY($6))
                       AND ($7::text IS NULL OR starts_with(path, $7))
                       AND ($8::timestamptz IS NULL OR start_time > $8)
                       AND ($9::timestamptz IS NULL OR start_time < $9)
                       AND ($11::text IS NULL OR tenant_id = $11)
                       AND ($12::text IS NULL OR tenant_id = $12) AND ($13::text IS NULL OR organization_id = $13)
                     ORDER BY "
                    + $order
                    + " LIMIT $10
                 ) AS page
                 ORDER BY parent_execution_id, "
                    + $order,
                &parents,
                range.above.at,
                range.above.id,
                range.below.at,
                range.below.id,
                statuses.as_deref(),
                filter.path_prefix,
                filter.started_after,
                filter.started_before,
                range.limit,
                scope.tenant(),
                filter.tenant_id,
                filter.organization_id,
            )
            .fetch_all(shard.pool())
        };
    }
    if range.descending {
        shard.run(listed!("noetl.list_time(start_time) DESC, execution_id DESC")).await
    } else {
        shard.run(listed!("noetl.list_time(start_time), execution_id")).await
    }
}

/// Counts executions in the scope, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count", skip_all, fields(database = %shard.name()))]
pub async fn count(shard: &Database, scope: &Scope, filter: &ExecutionFilter, limit: i64) -> Result<i64, StorageError> {
    let statuses: Option<Vec<String>> = filter.statuses.as_ref().map(|wanted| stored_names(wanted));
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM (
               SELECT 1 FROM noetl.execution
               WHERE ($1::text[] IS NULL OR upper(status) = ANY($1))
                 AND ($2::text IS NULL OR starts_with(path, $2))
                 AND ($3::bigint IS NULL OR parent_execution_id = $3)
                 AND ($4::timestamptz IS NULL OR start_time > $4)
                 AND ($5::timestamptz IS NULL OR start_time < $5)
                 AND ($7::text IS NULL OR tenant_id = $7)
                 AND ($8::text IS NULL OR tenant_id = $8) AND ($9::text IS NULL OR organization_id = $9)
               LIMIT $6
           ) AS counted"#,
        statuses.as_deref(),
        filter.path_prefix,
        filter.parent_execution_id.map(Id::get),
        filter.started_after,
        filter.started_before,
        limit,
        scope.tenant(),
        filter.tenant_id,
        filter.organization_id,
    );
    shard.run(count.fetch_one(shard.pool())).await
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
    let statuses: Option<Vec<String>> = filter.statuses.as_ref().map(|wanted| stored_names(wanted));
    let counts = sqlx::query_as!(
        ChildCount,
        r#"SELECT parent.id AS "parent!", children.count AS "count!"
           FROM unnest($1::bigint[]) AS parent (id)
           CROSS JOIN LATERAL (
               SELECT count(*) AS count FROM (
                   SELECT 1 FROM noetl.execution
                   WHERE parent_execution_id = parent.id
                     AND ($2::text[] IS NULL OR upper(status) = ANY($2))
                     AND ($3::text IS NULL OR starts_with(path, $3))
                     AND ($4::timestamptz IS NULL OR start_time > $4)
                     AND ($5::timestamptz IS NULL OR start_time < $5)
                     AND ($7::text IS NULL OR tenant_id = $7)
                     AND ($8::text IS NULL OR tenant_id = $8) AND ($9::text IS NULL OR organization_id = $9)
                   LIMIT $6
               ) AS counted
           ) AS children"#,
        &wanted_parents(parents, filter),
        statuses.as_deref(),
        filter.path_prefix,
        filter.started_after,
        filter.started_before,
        limit,
        scope.tenant(),
        filter.tenant_id,
        filter.organization_id,
    );
    shard.run(counts.fetch_all(shard.pool())).await
}

/// Returns the parents that the filter does not exclude.
fn wanted_parents(parents: &[i64], filter: &ExecutionFilter) -> Vec<i64> {
    let wanted = |id: &&i64| filter.parent_execution_id.is_none_or(|parent| parent.get() == **id);
    parents.iter().filter(wanted).copied().collect()
}
