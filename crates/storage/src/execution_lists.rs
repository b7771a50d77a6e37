//! Lists of executions and their counts, from the read model.

use super::error::StorageError;
use super::execution_along::{along, along_order, along_window};
use super::execution_counts::rarest;
use super::execution_errors::with_ids_of_error;
use super::execution_select::select;
use super::execution_sources::{EndedSource, Parameters, Source, Window, id_ranges};
use super::executions::{ExecutionRow, stored_names};
use super::view::View;
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::PositionRange;
use noetl_domain::tenant::Scope;
use plain_json::Text;

pub use super::execution_filter::{ExecutionFilter, OwnerKind};

/// Number of executions that meet a condition, below which a list is read along its index in any case.
const RARE: i64 = 500;
/// Number of executions of paths or pools, with failed steps, or that are reruns, up to which they are counted.
const MAX_EXACT: i64 = 3000;
/// Number of executions with a label or an end in a time, up to which they are counted.
const MAX_COUNTED: i64 = 50_000;

/// Returns the candidates of a page in the scope, in the range's direction. The filter must have only conditions that the
/// order allows ([`ExecutionFilter::refused_by`]).
#[tracing::instrument(level = "debug", name = "sql.executions.list", skip_all, fields(database = %shard.name()))]
pub async fn list(
    shard: View<'_>,
    scope: &Scope,
    filter: &ExecutionFilter,
    order: ExecutionOrder,
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    let filter = with_ids_of_error(&shard, scope, filter).await?;
    let Some(parameters) = Parameters::of(&shard, scope, &filter, None, range) else { return Ok(Vec::new()) };
    let parameters = along_rarest(&shard, scope, parameters.in_order(order)).await?;
    pages(&shard, Some(parameters)).await
}

/// Returns the parameters of a list that is read along the index of its rarest condition. The other conditions are
/// compared row by row, so a page reads no more executions than meet this condition. The number has no bound if at
/// least [`MAX_COUNTED`] executions have each label and ended in the time, and [`MAX_EXACT`] have the paths or the
/// pool, or failed steps, or are reruns. Then the source is not changed. Executions of a parent, a catalog entry or an
/// organization are read along another condition only if fewer than [`RARE`] executions meet it.
async fn along_rarest<'a>(
    shard: &View<'_>,
    scope: &Scope,
    parameters: Parameters<'a>,
) -> Result<Parameters<'a>, StorageError> {
    let rivals = parameters.rivals();
    if rivals.is_empty() {
        return Ok(parameters);
    }
    if let Some(rival) = rarest(shard, parameters.tenant(), &rivals, RARE).await? {
        return Ok(parameters.along(rival));
    }
    if parameters.source.has_owner() {
        return Ok(parameters);
    }
    if let Some((source, alone)) = parameters.exact() {
        let counted = Parameters::of(shard, scope, &alone, None, PositionRange::newest(MAX_EXACT));
        if counts(shard, counted).await?.iter().map(|owner| owner.count).sum::<i64>() < MAX_EXACT {
            return Ok(Parameters { source, ..parameters });
        }
    }
    match rarest(shard, parameters.tenant(), &rivals, MAX_COUNTED).await? {
        Some(rival) => Ok(parameters.along(rival)),
        None => Ok(parameters),
    }
}

/// Returns the candidates of a page for the executions of each of these owners in the scope, in the range's direction,
/// by start time, then by id. An owner that the filter excludes has none.
#[tracing::instrument(
    level = "debug", name = "sql.executions.of_owners", skip_all,
    fields(database = %shard.name(), ?kind, count = owners.len(), first = owners.first())
)]
pub async fn of_owners(
    shard: View<'_>,
    scope: &Scope,
    kind: OwnerKind,
    owners: &[i64],
    filter: &ExecutionFilter,
    range: PositionRange,
) -> Result<Vec<ExecutionRow>, StorageError> {
    let filter = with_ids_of_error(&shard, scope, filter).await?;
    let owners = wanted_owners(kind, owners, &filter);
    if !filter.names_ids() {
        return pages(&shard, Parameters::of(&shard, scope, &filter, Some((kind, owners.as_slice())), range)).await;
    }
    let mut rows = Vec::new();
    for owner in owners {
        let filter = filter.of_owner(kind, owner);
        rows.extend(pages(&shard, Parameters::of(&shard, scope, &filter, None, range)).await?);
    }
    Ok(rows)
}

/// Reads a page for each owner.
async fn pages(shard: &View<'_>, parameters: Option<Parameters<'_>>) -> Result<Vec<ExecutionRow>, StorageError> {
    let Some(parameters) = parameters else { return Ok(Vec::new()) };
    // Each statement has a function of its own, because the compiler's work for a function grows with the square of its
    // closures.
    macro_rules! selected {
        ($direction:tt, $($source:tt)*) => {{
            async fn rows(shard: &View<'_>, parameters: &Parameters<'_>) -> Result<Vec<ExecutionRow>, StorageError> {
                shard.run(
                    select!(
                        query_as!(ExecutionRow),
                        parameters,
                        $direction,
                        columns: r#"execution_id AS "execution_id!", catalog_id AS "catalog_id!", parent_execution_id,
                            status AS "status!", path, last_event_id, tenant_id AS "tenant_id!",
                            organization_id AS "organization_id!", execution_pool, rerun_of, failed_steps, labels::text AS "labels: Text",
                            CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                            CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time"#,
                        rest: "",
                        arguments: [],
                        $($source)*
                    )
                    .fetch_all(shard.planned_once()),
                )
                .await
            }
            rows(shard, &parameters).await
        }};
    }
    match (parameters.ended, parameters.window(), parameters.range.descending) {
        (Some(ended), _, true) => along_order!(selected, (page " DESC"), ended),
        (Some(ended), _, false) => along_order!(selected, (page ""), ended),
        (None, Some(window), true) => along_window!(selected, (page " DESC"), window, parameters.source),
        (None, Some(window), false) => along_window!(selected, (page ""), window, parameters.source),
        (None, None, true) => along!(selected, (page " DESC"), parameters.source),
        (None, None, false) => along!(selected, (page ""), parameters.source),
    }
}

/// Returns whether more than `limit` executions have ids that begin with these digits, in any scope.
#[tracing::instrument(level = "debug", name = "sql.executions.more_ids_than", skip_all, fields(database = %shard.name()))]
pub async fn more_ids_than(shard: View<'_>, limit: i64, digits: &str) -> Result<bool, StorageError> {
    let (lows, highs): (Vec<i64>, Vec<i64>) = id_ranges(digits).into_iter().unzip();
    let more = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM unnest($1::bigint[], $2::bigint[]) AS range (low, high) CROSS JOIN LATERAL (
                   SELECT FROM noetl.execution
                   WHERE execution_id BETWEEN low AND high
                     AND CASE WHEN $4::bytea IS NULL THEN true ELSE get_bit($4, noetl.bucket_of(execution_id)) = 1 END
                   ORDER BY execution_id
               ) AS found OFFSET $3) AS "more!""#,
        &lows,
        &highs,
        limit,
        shard.held(),
    );
    shard.run(more.fetch_one(shard.planned_once())).await
}

/// Number of the executions of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerCount {
    /// The owner.
    pub owner: i64,
    /// Number of its executions.
    pub count: i64,
}

/// Counts executions in the scope, up to `limit`.
#[tracing::instrument(level = "debug", name = "sql.executions.count", skip_all, fields(database = %shard.name()))]
pub async fn count(shard: View<'_>, scope: &Scope, filter: &ExecutionFilter, limit: i64) -> Result<i64, StorageError> {
    let filter = with_ids_of_error(&shard, scope, filter).await?;
    let parameters = Parameters::of(&shard, scope, &filter, None, PositionRange::newest(limit));
    let Some(parameters) = parameters else { return Ok(0) };
    let parameters = along_rarest(&shard, scope, parameters).await?;
    let counts = counts(&shard, Some(parameters)).await?;
    Ok(counts.iter().map(|owner| owner.count).sum())
}

/// Counts the executions of each of these owners in the scope, up to `limit` for each. Owners without executions, and
/// those that the filter excludes, are left out.
#[tracing::instrument(
    level = "debug", name = "sql.executions.count_of_owners", skip_all,
    fields(database = %shard.name(), ?kind, count = owners.len(), first = owners.first())
)]
pub async fn count_of_owners(
    shard: View<'_>,
    scope: &Scope,
    kind: OwnerKind,
    owners: &[i64],
    filter: &ExecutionFilter,
    limit: i64,
) -> Result<Vec<OwnerCount>, StorageError> {
    let filter = with_ids_of_error(&shard, scope, filter).await?;
    let owners = wanted_owners(kind, owners, &filter);
    if !filter.names_ids() {
        let range = PositionRange::newest(limit);
        return counts(&shard, Parameters::of(&shard, scope, &filter, Some((kind, owners.as_slice())), range)).await;
    }
    let mut found = Vec::new();
    for owner in owners {
        let count = count(shard.clone(), scope, &filter.of_owner(kind, owner), limit).await?;
        found.push(OwnerCount { owner, count });
    }
    Ok(found)
}

/// Counts the executions of each owner, up to the limit of the range for each.
async fn counts(shard: &View<'_>, parameters: Option<Parameters<'_>>) -> Result<Vec<OwnerCount>, StorageError> {
    let Some(parameters) = parameters else { return Ok(Vec::new()) };
    // A function for each statement, as in `pages`.
    macro_rules! counted {
        ($direction:tt, $($source:tt)*) => {{
            async fn rows(shard: &View<'_>, parameters: &Parameters<'_>) -> Result<Vec<OwnerCount>, StorageError> {
                shard.run(
                    select!(
                        query_as!(OwnerCount),
                        parameters,
                        $direction,
                        columns: r#"owner AS "owner!", count(*) AS "count!""#,
                        rest: "GROUP BY owner",
                        arguments: [],
                        $($source)*
                    )
                    .fetch_all(shard.planned_once()),
                )
                .await
            }
            rows(shard, &parameters).await
        }};
    }
    match parameters.window() {
        Some(window) => along_window!(counted, (any " DESC"), window, parameters.source),
        None => along!(counted, (any " DESC"), parameters.source),
    }
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
    shard: View<'_>,
    scope: &Scope,
    filter: &ExecutionFilter,
    limit: i64,
    paths: i64,
) -> Result<Vec<GroupCount>, StorageError> {
    let filter = with_ids_of_error(&shard, scope, filter).await?;
    let parameters = Parameters::of(&shard, scope, &filter, None, PositionRange::newest(limit));
    let Some(parameters) = parameters else { return Ok(Vec::new()) };
    let parameters = along_rarest(&shard, scope, parameters).await?;
    // A function for each statement, as in `pages`.
    macro_rules! counted {
        ($direction:tt, $($source:tt)*) => {{
            async fn rows(
                shard: &View<'_>,
                parameters: &Parameters<'_>,
                paths: i64,
            ) -> Result<Vec<GroupCount>, StorageError> {
                shard.run(
                    select!(
                        query_as!(GroupCount),
                        parameters,
                        $direction,
                        columns: r#"status, path, count AS "count!" FROM (
                            SELECT upper(status) AS status, path, grouping(upper(status)) AS by_path, count(*) AS count,
                                   row_number() OVER (PARTITION BY grouping(upper(status)) ORDER BY count(*) DESC, path) AS place"#,
                        rest: "GROUP BY GROUPING SETS ((upper(status)), (path))) AS counted WHERE by_path = 0 OR place <= $30",
                        arguments: [paths],
                        $($source)*
                    )
                    .fetch_all(shard.planned_once()),
                )
                .await
            }
            rows(&shard, &parameters, paths).await
        }};
    }
    match parameters.window() {
        Some(window) => along_window!(counted, (any " DESC"), window, parameters.source),
        None => along!(counted, (any " DESC"), parameters.source),
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
    shard: View<'_>,
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
             AND CASE WHEN $7::bytea IS NULL THEN true ELSE get_bit($7, noetl.bucket_of(execution_id)) = 1 END
           ORDER BY upper(status) = ANY($3), execution_id LIMIT $6"#,
        parents,
        scope.tenant(),
        &stored_names(&terminal),
        after.ended,
        after.execution_id,
        limit,
        shard.held(),
    );
    shard.run(rows.fetch_all(shard.planned_once())).await
}

/// Returns the owners that the filter does not exclude.
fn wanted_owners(kind: OwnerKind, owners: &[i64], filter: &ExecutionFilter) -> Vec<i64> {
    let wanted = |id: &&i64| filter.owner(kind).is_none_or(|owner| owner.get() == **id);
    owners.iter().filter(wanted).copied().collect()
}
