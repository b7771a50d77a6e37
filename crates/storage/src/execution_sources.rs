//! Reads of the list of executions along indexes.
//!
//! Each index of a list begins with columns that conditions compare, and ends with the order of the list: start time,
//! then id. A *kind* is a distinct combination of the first columns. A statement finds the kinds that meet the
//! conditions, with one descent of the index for each. Then it reads a page of each kind along the index, and merges the
//! pages. So its cost does not depend on the number of executions that do not meet the conditions.
//!
//! The planner must use this index with any statistics of the table:
//!
//! - The time in each index is a different expression (`noetl.list_time` with a place), so only this index has the order.
//! - Conditions on other columns are compared row by row. They are in a `CASE`, because the planner assumes that a `CASE`
//!   holds for every second row. If it expected few rows, it would prefer a sort.
//! - The values of the columns come from a subquery, so the planner does not estimate how many rows have them.

use super::execution_filter::ExecutionFilter;
use super::executions::stored_names;
use noetl_domain::list_position::{ListPosition, PositionRange};
use noetl_domain::tenant::Scope;

/// Tenant and organization of rows that name none. The indexes on tenants and on organizations leave them out.
const DEFAULT: &str = "default";

/// Index along which executions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The primary key, by ids.
    Ids,
    /// The primary key, by ranges of ids.
    IdRanges,
    /// Parent, tenant and status.
    Parent,
    /// Catalog entry and status.
    Entry,
    /// Tenant, catalog entry and status.
    TenantEntry,
    /// Organization, tenant and status.
    Organization,
    /// Path and status.
    Path,
    /// Tenant, path and status.
    TenantPath,
    /// Status and duration.
    Ended,
    /// Tenant, status and duration.
    TenantEnded,
    /// Status.
    Status,
    /// Tenant and status.
    TenantStatus,
    /// No condition.
    Time,
}

/// Values of a statement's parameters.
pub(super) struct Parameters<'a> {
    pub(super) filter: &'a ExecutionFilter,
    pub(super) source: Source,
    /// Tenant of the scope.
    pub(super) own: Option<&'a str>,
    pub(super) statuses: Option<Vec<String>>,
    pub(super) ids: Option<Vec<i64>>,
    /// First ids of the ranges that have the prefix.
    pub(super) lows: Option<Vec<i64>>,
    /// Last ids of the ranges.
    pub(super) highs: Option<Vec<i64>>,
    pub(super) range: PositionRange,
    /// Parents or catalog entries whose executions are read; one value of no meaning for other sources.
    pub(super) owners: Vec<i64>,
}

/// Owners of the executions of a statement that groups its rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owners<'a> {
    /// The executions are not grouped.
    None,
    /// Parents.
    Parents(&'a [i64]),
    /// Catalog entries.
    Entries(&'a [i64]),
}

impl<'a> Parameters<'a> {
    /// Returns the parameters of a statement. `None`: no execution can meet the conditions.
    pub(super) fn of(
        scope: &'a Scope,
        filter: &'a ExecutionFilter,
        owners: Owners<'_>,
        range: PositionRange,
    ) -> Option<Self> {
        let (own, wanted) = (scope.tenant(), filter.tenant_id.as_deref());
        if own.is_some() && wanted.is_some() && own != wanted {
            return None;
        }
        let is_indexed = |name: &str| name != DEFAULT;
        let by_tenant = own.or(wanted).is_some_and(is_indexed);
        let entry = if by_tenant { Source::TenantEntry } else { Source::Entry };
        let (source, owners) = match owners {
            Owners::Parents(ids) => (Source::Parent, ids.to_vec()),
            Owners::Entries(ids) => (entry, ids.to_vec()),
            Owners::None if filter.ids.is_some() => (Source::Ids, vec![0]),
            Owners::None if filter.id_prefix.is_some() => (Source::IdRanges, vec![0]),
            Owners::None => match (filter.parent_execution_id, filter.catalog_id) {
                (Some(parent), _) => (Source::Parent, vec![parent.get()]),
                (None, Some(id)) => (entry, vec![id.get()]),
                (None, None) if filter.organization_id.as_deref().is_some_and(is_indexed) => {
                    (Source::Organization, vec![0])
                }
                (None, None) => (by_values(filter, by_tenant), vec![0]),
            },
        };
        let (lows, highs) = filter.id_prefix.as_deref().map(id_ranges).map(|ranges| ranges.into_iter().unzip()).unzip();
        Some(Self {
            filter,
            source,
            own,
            statuses: filter.statuses.as_ref().map(|wanted| stored_names(wanted)),
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
            lows,
            highs,
            range: filter.within(range),
            owners,
        })
    }

    /// Returns the window that is read before the source, if the source may have many kinds.
    pub(super) fn window(&self) -> Option<Window> {
        let of_status = match self.source {
            Source::Path => Window::Status,
            Source::TenantPath => Window::TenantStatus,
            _ => return None,
        };
        match (&self.filter.path, &self.filter.statuses) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(of_status),
            (None, None) => Some(Window::Time),
        }
    }
}

/// Index along which the first executions of a range are read, before the kinds of a source are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// No condition: most pages are expected among the newest executions.
    Time,
    /// Status.
    Status,
    /// Tenant and status.
    TenantStatus,
}

/// Returns the source for a filter without ids, owners and organization.
fn by_values(filter: &ExecutionFilter, by_tenant: bool) -> Source {
    let of = |of_tenant, of_all| if by_tenant { of_tenant } else { of_all };
    if filter.path.is_some() || filter.path_prefix.is_some() {
        of(Source::TenantPath, Source::Path)
    } else if filter.ended_after.is_some() || filter.ended_before.is_some() {
        of(Source::TenantEnded, Source::Ended)
    } else if by_tenant {
        Source::TenantStatus
    } else if filter.statuses.is_some() {
        Source::Status
    } else {
        Source::Time
    }
}

/// Returns the ranges of ids whose decimal digits begin with these digits, as their first and last ids.
pub(super) fn id_ranges(digits: &str) -> Vec<(i64, i64)> {
    let Ok(prefix) = digits.parse::<i64>() else { return Vec::new() };
    if digits.starts_with('0') {
        return if digits == "0" { vec![(0, 0)] } else { Vec::new() };
    }
    let mut ranges = vec![(prefix, prefix)];
    let (mut low, mut high) = (prefix, prefix);
    while let Some(next) = low.checked_mul(10) {
        (low, high) = (next, high.saturating_mul(10).saturating_add(9));
        ranges.push((low, high));
    }
    ranges
}

impl ExecutionFilter {
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

/// Expands to the statement of a source, which is given by the last arguments. It selects `columns` of the executions
/// that meet the conditions and are in the range, up to the limit for each owner, and ends with `rest`. The parameters 1
/// to 21 are those of [`Parameters`]; those of `rest` follow. The first argument is the macro of sqlx with its result
/// type. The direction is `ascending`, `descending` or `unordered`, or one of them with a window: `(near descending, …)`.
/// A window has 1,000 executions from where the page begins. The source is read only if the window neither fills the page
/// nor is the whole range. The parts of a window are its values, its condition, and the column of its index with the time.
///
/// A source with kinds has the columns of a kind, the condition of the partial index, the first columns of the index, a
/// kind before the first one, the values of a kind, the condition that the last kind meets, the kinds that meet the
/// conditions, the values of such a kind, the column of the index with the time, and the bounds in the kind.
macro_rules! select {
    ($query:ident!($($row:ty)?), $($rest:tt)*) => {
        $crate::execution_sources::select!(
            @filters
            "CASE WHEN ($1::text[] IS NULL OR upper(status) = ANY($1))
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
             AND ($14::bigint[] IS NULL OR EXISTS (
                 SELECT FROM unnest($14::bigint[], $15::bigint[]) AS range (low, high)
                 WHERE execution_id BETWEEN range.low AND range.high))
             THEN true ELSE false END",
            $query!($($row)?), $($rest)*
        )
    };
    (
        @filters $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $direction:tt, columns: $columns:literal, rest: $rest:literal,
        arguments: [$($argument:expr),*],
        kinds: $kinds:literal, index: $index:literal, keys: $keys:literal,
        start: $start:literal, kind: $kind:literal, while: $while:literal,
        source: $source:literal, values: $values:literal, time: $time:literal, above: $above:literal, below: $below:literal $(,)?
    ) => {
        $crate::execution_sources::select!(
            @$direction $filters, $query!($($row)?), $parameters, $columns, $rest, [$($argument),*],
            kinds: [
                "WITH RECURSIVE kind AS (
                     SELECT found.* FROM (SELECT " $start " OFFSET 0) AS kind CROSS JOIN LATERAL (
                         SELECT " $kinds " FROM noetl.execution
                         WHERE " $index " AND (" $keys ") >= (" $kind ") ORDER BY " $keys " LIMIT 1
                     ) AS found WHERE " $while "
                     UNION ALL
                     SELECT found.* FROM kind CROSS JOIN LATERAL (
                         SELECT " $kinds " FROM noetl.execution
                         WHERE " $index " AND (" $keys ") > (" $kind ") ORDER BY " $keys " LIMIT 1
                     ) AS found WHERE " $while "
                 ) "
            ],
            source: [$source],
            rows: [
                $index " AND (" $keys ") = (" $values ") AND (" $time ", execution_id) > (" $above ")
                 AND (" $time ", execution_id) < (" $below ") AND " $filters
            ],
            ascending: [" ORDER BY " $time ", execution_id"],
            descending: [" ORDER BY " $time " DESC, execution_id DESC"]
        )
    };
    (
        @filters $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $direction:tt, columns: $columns:literal, rest: $rest:literal,
        arguments: [$($argument:expr),*],
        source: $source:literal, rows: $rows:literal, time: $time:literal, ascending: $ascending:literal, descending: $descending:literal $(,)?
    ) => {
        $crate::execution_sources::select!(
            @$direction $filters, $query!($($row)?), $parameters, $columns, $rest, [$($argument),*],
            kinds: [""], source: [$source],
            rows: [
                $rows " AND (" $time ", execution_id) > ($16, $17) AND (" $time ", execution_id) < ($18, $19) AND " $filters
            ],
            ascending: [$ascending], descending: [$descending]
        )
    };
    (
        @ascending $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @newest $query!($($row)?), $parameters, $columns, $rest, $arguments, before: [""], after: "",
            kinds: $kinds, source: $source, rows: $rows, order: $ascending,
            merge: " ORDER BY noetl.list_time(start_time), execution_id"
        )
    };
    (
        @descending $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @newest $query!($($row)?), $parameters, $columns, $rest, $arguments, before: [""], after: "",
            kinds: $kinds, source: $source, rows: $rows, order: $descending,
            merge: " ORDER BY noetl.list_time(start_time) DESC, execution_id DESC"
        )
    };
    (
        @unordered $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @any $query!($($row)?), $parameters, $columns, $rest, $arguments, before: [""], after: "",
            kinds: $kinds, source: $source, rows: $rows, order: $ascending, merge: ""
        )
    };
    (
        @(near ascending, $($window:literal),+) $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @near newest, "", [$($window),+], $filters, $query!($($row)?), $parameters, $columns, $rest, $arguments,
            kinds: $kinds, source: $source, rows: $rows, order: $ascending,
            merge: " ORDER BY noetl.list_time(start_time), execution_id"
        )
    };
    (
        @(near descending, $($window:literal),+) $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @near newest, " DESC", [$($window),+], $filters, $query!($($row)?), $parameters, $columns, $rest, $arguments,
            kinds: $kinds, source: $source, rows: $rows, order: $descending,
            merge: " ORDER BY noetl.list_time(start_time) DESC, execution_id DESC"
        )
    };
    (
        @(near unordered, $($window:literal),+) $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: [$source:literal], rows: $rows:tt, ascending: $ascending:tt, descending: $descending:tt
    ) => {
        $crate::execution_sources::select!(
            @near any, " DESC", [$($window),+], $filters, $query!($($row)?), $parameters, $columns, $rest, $arguments,
            kinds: $kinds, source: $source, rows: $rows, order: $ascending, merge: ""
        )
    };
    // The kinds are searched only if the window neither has enough executions nor is the whole range.
    (
        @near $pages:ident, $order:literal, [$window:literal, $of:literal, $time:literal], $filters:literal,
        $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: $source:literal, rows: $rows:tt, order: $page:tt, merge: $merge:literal
    ) => {
        $crate::execution_sources::select!(
            @$pages $query!($($row)?), $parameters, $columns, $rest, $arguments,
            before: [
                "WITH around AS MATERIALIZED (
                     SELECT execution.* FROM " $window " CROSS JOIN LATERAL (
                         SELECT execution_id, start_time, " $filters " AS matches FROM noetl.execution
                         WHERE " $of " AND (" $time ", execution_id) > ($16, $17) AND (" $time ", execution_id) < ($18, $19)
                         ORDER BY " $time $order ", execution_id" $order " LIMIT 1000
                     ) AS execution
                     ORDER BY noetl.list_time(start_time)" $order ", execution_id" $order " LIMIT 1000
                 ), near AS MATERIALIZED (
                     SELECT execution.* FROM (
                         SELECT execution_id FROM around WHERE matches
                         ORDER BY noetl.list_time(start_time)" $order ", execution_id" $order " LIMIT $21
                     ) AS found CROSS JOIN LATERAL (
                         SELECT * FROM noetl.execution WHERE execution_id = found.execution_id OFFSET 0
                     ) AS execution
                 ), enough AS MATERIALIZED (
                     SELECT (SELECT count(*) FROM near) >= $21 OR (SELECT count(*) FROM around) < 1000 AS near
                 ) "
            ],
            after: " WHERE NOT (SELECT near FROM enough)
                     UNION ALL
                     SELECT 0 AS owner, near.* FROM near WHERE (SELECT near FROM enough)",
            kinds: $kinds, source: $source, rows: $rows, order: $page, merge: $merge
        )
    };
    // Only the kinds with the first executions can have executions of the page.
    (
        @newest $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, [$($argument:expr),*],
        before: [$($before:literal)+], after: $after:literal, kinds: [$($kinds:literal)+], source: $source:literal,
        rows: [$($rows:literal)+], order: [$($order:literal)+], merge: $merge:literal
    ) => {
        $crate::execution_sources::select!(
            @sql $query!($($row)?), $parameters, [$($argument),*],
            $($before)+ "SELECT " $columns " FROM (
                SELECT owner.id AS owner, execution.* FROM unnest($20::bigint[]) AS owner (id) CROSS JOIN LATERAL ("
            $($kinds)+ "SELECT execution.* FROM (
                    SELECT source.* FROM " $source " CROSS JOIN LATERAL (
                        SELECT start_time, execution_id FROM noetl.execution WHERE " $($rows)+ $($order)+ " LIMIT 1
                    ) AS first " $merge " LIMIT $21
                ) AS source CROSS JOIN LATERAL (
                    SELECT * FROM noetl.execution WHERE " $($rows)+ $($order)+ " LIMIT $21
                ) AS execution " $merge " LIMIT $21
            ) AS execution " $after "
            ) AS execution " $rest
        )
    };
    (
        @any $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, [$($argument:expr),*],
        before: [$($before:literal)+], after: $after:literal, kinds: [$($kinds:literal)+], source: $source:literal,
        rows: [$($rows:literal)+], order: [$($order:literal)+], merge: $merge:literal
    ) => {
        $crate::execution_sources::select!(
            @sql $query!($($row)?), $parameters, [$($argument),*],
            $($before)+ "SELECT " $columns " FROM (
                SELECT owner.id AS owner, execution.* FROM unnest($20::bigint[]) AS owner (id) CROSS JOIN LATERAL ("
            $($kinds)+ "SELECT execution.* FROM " $source " CROSS JOIN LATERAL (
                    SELECT * FROM noetl.execution WHERE " $($rows)+ $($order)+ " LIMIT $21
                ) AS execution LIMIT $21
            ) AS execution " $after "
            ) AS execution " $rest
        )
    };
    (@sql $query:ident!($($row:ty)?), $parameters:expr, [$($argument:expr),*], $first:literal $($part:literal)+) => {
        sqlx::$query!(
            $($row,)?
            $first $(+ $part)+,
            $parameters.statuses.as_deref(),
            $parameters.filter.path_prefix,
            $parameters.filter.parent_execution_id.map(Id::get),
            $parameters.filter.started_after,
            $parameters.filter.started_before,
            $parameters.own,
            $parameters.filter.tenant_id,
            $parameters.filter.organization_id,
            $parameters.filter.path,
            $parameters.filter.catalog_id.map(Id::get),
            $parameters.filter.ended_after,
            $parameters.filter.ended_before,
            $parameters.ids.as_deref(),
            $parameters.lows.as_deref(),
            $parameters.highs.as_deref(),
            $parameters.range.above.at,
            $parameters.range.above.id,
            $parameters.range.below.at,
            $parameters.range.below.id,
            &$parameters.owners,
            $parameters.range.limit,
            $($argument,)*
        )
    };
}

pub(super) use select;

/// Passes a direction and the arguments of [`select`] for [`Source::Path`] to the macro `$statement`.
macro_rules! along_path {
    ($statement:ident, $direction:tt) => {
        $statement!(
            $direction,
            kinds: r#"path COLLATE "C" AS path, upper(status) AS status"#,
            index: "path IS NOT NULL",
            keys: r#"path COLLATE "C", upper(status)"#,
            start: "coalesce($9, $2) AS path, '' AS status",
            kind: "kind.path, kind.status",
            while: "CASE WHEN $9::text IS NULL THEN starts_with(found.path, $2) ELSE found.path = $9 END",
            source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS source",
            values: "source.path, source.status",
            time: "noetl.list_time(start_time, 5)",
            above: "$16, $17",
            below: "$18, $19",
        )
    };
}

/// Passes a direction and the arguments of [`select`] for [`Source::TenantPath`] to the macro `$statement`.
macro_rules! along_tenant_path {
    ($statement:ident, $direction:tt) => {
        $statement!(
            $direction,
            kinds: r#"tenant_id AS tenant, path COLLATE "C" AS path, upper(status) AS status"#,
            index: "tenant_id <> 'default' AND path IS NOT NULL",
            keys: r#"tenant_id, path COLLATE "C", upper(status)"#,
            start: "coalesce($6, $7) AS tenant, coalesce($9, $2) AS path, '' AS status",
            kind: "kind.tenant, kind.path, kind.status",
            while: "found.tenant = coalesce($6, $7) AND CASE WHEN $9::text IS NULL THEN starts_with(found.path, $2) ELSE found.path = $9 END",
            source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS source",
            values: "source.tenant, source.path, source.status",
            time: "noetl.list_time(start_time, 6)",
            above: "$16, $17",
            below: "$18, $19",
        )
    };
}

/// Passes a direction with a window, and the arguments of [`select`] for the source after the window, to the macro
/// `$statement`.
macro_rules! along_window {
    ($statement:ident, $direction:ident, $window:expr, $source:expr) => {
        match ($window, $source) {
            (Window::Time, Source::TenantPath) => $crate::execution_sources::along_tenant_path!(
                $statement,
                (near $direction, "(VALUES (0)) AS source (n)", "true", "noetl.list_time(start_time)")
            ),
            (Window::Time, _) => $crate::execution_sources::along_path!(
                $statement,
                (near $direction, "(VALUES (0)) AS source (n)", "true", "noetl.list_time(start_time)")
            ),
            (Window::Status, _) => $crate::execution_sources::along_path!(
                $statement,
                (
                    near $direction, "(SELECT DISTINCT unnest($1::text[]) AS status) AS source",
                    "upper(status) = source.status", "noetl.list_time(start_time, 9)"
                )
            ),
            (Window::TenantStatus, _) => $crate::execution_sources::along_tenant_path!(
                $statement,
                (
                    near $direction, "(SELECT DISTINCT unnest($1::text[]) AS status) AS source",
                    "tenant_id <> 'default' AND tenant_id = coalesce($6, $7) AND upper(status) = source.status",
                    "noetl.list_time(start_time, 10)"
                )
            ),
        }
    };
}

/// Passes a direction and the arguments of [`select`] for a source to the macro `$statement`.
macro_rules! along {
    ($statement:ident, $direction:tt, $source:expr) => {
        match $source {
            Source::Path => $crate::execution_sources::along_path!($statement, $direction),
            Source::Parent => $statement!(
                $direction,
                kinds: "parent_execution_id AS parent, tenant_id AS tenant, upper(status) AS status",
                index: "parent_execution_id IS NOT NULL",
                keys: "parent_execution_id, tenant_id, upper(status)",
                start: "owner.id AS parent, '' AS tenant, '' AS status",
                kind: "kind.parent, kind.tenant, kind.status",
                while: "found.parent = owner.id",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($6::text IS NULL OR tenant = $6) AND ($7::text IS NULL OR tenant = $7)) AS source",
                values: "source.parent, source.tenant, source.status",
                time: "noetl.list_time(start_time, 1)",
                above: "$16, $17",
                below: "$18, $19",
            ),
            Source::Entry => $statement!(
                $direction,
                kinds: "catalog_id AS entry, upper(status) AS status",
                index: "true",
                keys: "catalog_id, upper(status)",
                start: "owner.id AS entry, '' AS status",
                kind: "kind.entry, kind.status",
                while: "found.entry = owner.id",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS source",
                values: "source.entry, source.status",
                time: "noetl.list_time(start_time, 2)",
                above: "$16, $17",
                below: "$18, $19",
            ),
            Source::TenantEntry => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, catalog_id AS entry, upper(status) AS status",
                index: "tenant_id <> 'default'",
                keys: "tenant_id, catalog_id, upper(status)",
                start: "coalesce($6, $7) AS tenant, owner.id AS entry, '' AS status",
                kind: "kind.tenant, kind.entry, kind.status",
                while: "found.tenant = coalesce($6, $7) AND found.entry = owner.id",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS source",
                values: "source.tenant, source.entry, source.status",
                time: "noetl.list_time(start_time, 3)",
                above: "$16, $17",
                below: "$18, $19",
            ),
            Source::Organization => $statement!(
                $direction,
                kinds: "organization_id AS organization, tenant_id AS tenant, upper(status) AS status",
                index: "organization_id <> 'default'",
                keys: "organization_id, tenant_id, upper(status)",
                start: "$8::text AS organization, '' AS tenant, '' AS status",
                kind: "kind.organization, kind.tenant, kind.status",
                while: "found.organization = $8",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($6::text IS NULL OR tenant = $6) AND ($7::text IS NULL OR tenant = $7)) AS source",
                values: "source.organization, source.tenant, source.status",
                time: "noetl.list_time(start_time, 4)",
                above: "$16, $17",
                below: "$18, $19",
            ),
            Source::TenantPath => $crate::execution_sources::along_tenant_path!($statement, $direction),
            Source::Ended => $statement!(
                $direction,
                kinds: "upper(status) AS status, noetl.duration_class(start_time, end_time) AS class",
                index: "end_time IS NOT NULL",
                keys: "upper(status), noetl.duration_class(start_time, end_time)",
                start: "'' AS status, -1 AS class",
                kind: "kind.status, kind.class",
                while: "true",
                source: "(
                    SELECT kind.*,
                           greatest($16::timestamptz, $11::timestamptz - longest) AS above,
                           CASE WHEN $11 - longest > $16 THEN -9223372036854775808 ELSE $17::bigint END AS above_id,
                           least($18::timestamptz, $12::timestamptz - shortest) AS below,
                           CASE WHEN $12 - shortest < $18 THEN 9223372036854775807 ELSE $19::bigint END AS below_id
                    FROM kind CROSS JOIN LATERAL noetl.duration_bounds(class) AS bounds
                    WHERE $1::text[] IS NULL OR status = ANY($1)
                ) AS source",
                values: "source.status, source.class",
                time: "noetl.list_time(start_time, 7)",
                above: "source.above, source.above_id",
                below: "source.below, source.below_id",
            ),
            Source::TenantEnded => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status, noetl.duration_class(start_time, end_time) AS class",
                index: "tenant_id <> 'default' AND end_time IS NOT NULL",
                keys: "tenant_id, upper(status), noetl.duration_class(start_time, end_time)",
                start: "coalesce($6, $7) AS tenant, '' AS status, -1 AS class",
                kind: "kind.tenant, kind.status, kind.class",
                while: "found.tenant = coalesce($6, $7)",
                source: "(
                    SELECT kind.*,
                           greatest($16::timestamptz, $11::timestamptz - longest) AS above,
                           CASE WHEN $11 - longest > $16 THEN -9223372036854775808 ELSE $17::bigint END AS above_id,
                           least($18::timestamptz, $12::timestamptz - shortest) AS below,
                           CASE WHEN $12 - shortest < $18 THEN 9223372036854775807 ELSE $19::bigint END AS below_id
                    FROM kind CROSS JOIN LATERAL noetl.duration_bounds(class) AS bounds
                    WHERE $1::text[] IS NULL OR status = ANY($1)
                ) AS source",
                values: "source.tenant, source.status, source.class",
                time: "noetl.list_time(start_time, 8)",
                above: "source.above, source.above_id",
                below: "source.below, source.below_id",
            ),
            Source::TenantStatus => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status",
                index: "tenant_id <> 'default'",
                keys: "tenant_id, upper(status)",
                start: "coalesce($6, $7) AS tenant, '' AS status",
                kind: "kind.tenant, kind.status",
                while: "found.tenant = coalesce($6, $7)",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS source",
                values: "source.tenant, source.status",
                time: "noetl.list_time(start_time, 10)",
                above: "$16, $17",
                below: "$18, $19",
            ),
            // The statuses are the kinds.
            Source::Status => $statement!(
                $direction,
                source: "(SELECT DISTINCT unnest($1::text[]) AS status) AS source",
                rows: "upper(status) = source.status",
                time: "noetl.list_time(start_time, 9)",
                ascending: " ORDER BY noetl.list_time(start_time, 9), execution_id",
                descending: " ORDER BY noetl.list_time(start_time, 9) DESC, execution_id DESC",
            ),
            Source::Time => $statement!(
                $direction,
                source: "(VALUES (0)) AS source (n)",
                rows: "true",
                time: "noetl.list_time(start_time)",
                ascending: " ORDER BY noetl.list_time(start_time), execution_id",
                descending: " ORDER BY noetl.list_time(start_time) DESC, execution_id DESC",
            ),
            Source::Ids => $statement!(
                $direction,
                source: "(SELECT DISTINCT unnest($13::bigint[]) AS id) AS source",
                rows: "execution_id = source.id",
                time: "noetl.list_time(start_time)",
                ascending: "",
                descending: "",
            ),
            // No index has the order, so all rows of the ranges are sorted. The service limits their number.
            Source::IdRanges => $statement!(
                $direction,
                source: "unnest($14::bigint[], $15::bigint[]) AS source (low, high)",
                rows: "execution_id >= source.low AND execution_id <= source.high",
                time: "noetl.list_time(start_time, 11)",
                ascending: " ORDER BY noetl.list_time(start_time, 11), execution_id",
                descending: " ORDER BY noetl.list_time(start_time, 11) DESC, execution_id DESC",
            ),
        }
    };
}

pub(super) use {along, along_path, along_tenant_path, along_window};
