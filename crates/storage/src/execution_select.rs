//! Reads of the list of executions along indexes.
//!
//! Each index of a list begins with columns that conditions compare, and ends with the order of the list: a time, then
//! id. A *kind* is a distinct combination of the first columns. A statement finds the kinds that meet the conditions,
//! with one descent of the index for each. Then it reads a page of each kind along the index, and merges the pages. So
//! its cost does not depend on the number of executions that do not meet the conditions. The indexes are those of
//! `noetl.execution`, and those of `noetl.execution_label`, which is joined with the executions.
//!
//! The planner must use this index with any statistics of the table:
//!
//! - The time in each index is a different expression (`noetl.list_time` with a place), so only this index has the order.
//! - Conditions on other columns are compared row by row. They are in a `CASE`, because the planner assumes that a `CASE`
//!   holds for every second row. If it expected few rows, it would prefer a sort.
//! - The values of the columns come from a subquery, so the planner does not estimate how many rows have them.

/// Expands to the statement of a source, which is given by the last arguments. It selects `columns` of the executions
/// that meet the conditions and are in the range, up to the limit for each owner, and ends with `rest`. The parameters 1
/// to 29 are those of [`Parameters`](super::execution_sources::Parameters); those of `rest` follow. The first argument
/// is the macro of sqlx with its result type. The direction is `(page "")` for a page of the oldest executions,
/// `(page " DESC")` for one of the newest, and `(any " DESC")` for executions that are only counted. Behind it, in the same
/// parentheses, can be a window: its values, its condition, and the column of its index with the time. A window has 1,000
/// executions from where the page begins. The source is read only if the window neither fills the page nor is the whole
/// range.
///
/// A source with kinds has, if its index is not of `noetl.execution`, the table of the index and this table joined with
/// the executions. It has the columns of a kind, the condition of the partial index, the first columns of the index, a
/// kind before the first one, the values of a kind, the condition that the last kind meets, and the column of the index
/// with the time. It has also the kinds that meet the conditions, if these are more than those on the status, and the
/// bounds in the kind, if they differ from those of the range.
///
/// A source whose kinds are known has them as a table, the condition of a kind, and the column with the time. Without the
/// table, all executions are of one kind.
macro_rules! select {
    ($query:ident!($($row:ty)?), $($rest:tt)*) => {
        $crate::execution_select::select!(
            // The source of ids has no other executions, so ids are not compared again.
            @filters
            "CASE WHEN ($1::text[] IS NULL OR upper(status) = ANY($1))
             AND ($2::text IS NULL OR starts_with(path, $2))
             AND ($3::bigint IS NULL OR parent_execution_id = $3)
             AND ($4::timestamptz IS NULL OR start_time >= $4)
             AND ($5::timestamptz IS NULL OR start_time < $5)
             AND ($6::text IS NULL OR tenant_id = $6)
             AND ($7::text IS NULL OR tenant_id = $7) AND ($8::text IS NULL OR organization_id = $8)
             AND ($9::text[] IS NULL OR path = ANY($9))
             AND ($10::bigint IS NULL OR catalog_id = $10)
             AND NOT ($23 AND parent_execution_id IS NOT NULL)
             AND ($24::text[] IS NULL OR execution_pool = ANY($24))
             AND ($25::bigint IS NULL OR rerun_of = $25)
             AND ($26::boolean IS NULL OR (coalesce(failed_steps, 0) > 0) = $26)
             AND ($29::boolean IS NULL OR (rerun_of IS NOT NULL) = $29)
             AND ($28::text[] IS NULL OR labels @@ $27::text::jsonpath)
             AND ($11::timestamptz IS NULL OR end_time >= $11)
             AND ($12::timestamptz IS NULL OR end_time < $12)
             AND ($13::bigint[] IS NULL OR true)
             AND ($14::bigint[] IS NULL OR EXISTS (
                 SELECT FROM unnest($14::bigint[], $15::bigint[]) AS range (low, high)
                 WHERE execution_id BETWEEN range.low AND range.high))
             AND ($22::bytea IS NULL OR get_bit($22, noetl.bucket_of(execution_id)) = 1)
             THEN true ELSE false END",
            $query!($($row)?), $($rest)*
        )
    };
    (
        @filters $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $direction:tt, columns: $columns:literal, rest: $rest:literal,
        arguments: $arguments:tt,
        $(from: $from:tt,)? kinds: $kinds:literal, index: $index:literal, keys: $keys:literal,
        start: $start:literal, kind: $kind:literal, while: $while:literal,
        time: $time:literal
        $(, source: $source:literal)? $(, above: $above:literal, below: $below:literal)? $(,)?
    ) => {
        // The first element of each list is used: the given one, else the default.
        $crate::execution_select::select!(
            @kinds $filters, $query!($($row)?), $parameters, $direction, $columns, $rest, $arguments,
            from: [$($from)? ["noetl.execution", "noetl.execution"]], kinds: $kinds, index: $index, keys: $keys, start: $start,
            kind: $kind, while: $while, time: $time,
            source: [$($source)? "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1))) AS kind"],
            above: [$($above)? "$16, $17"], below: [$($below)? "$18, $19"]
        )
    };
    (
        @kinds $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $direction:tt, $columns:literal, $rest:literal, $arguments:tt,
        from: [[$table:literal, $executions:literal] $($default_from:tt)?], kinds: $kinds:literal, index: $index:literal,
        keys: $keys:literal, start: $start:literal, kind: $kind:literal, while: $while:literal, time: $time:literal,
        source: [$source:literal $($default_source:literal)?],
        above: [$above:literal $($default_above:literal)?], below: [$below:literal $($default_below:literal)?]
    ) => {
        $crate::execution_select::select!(
            @directed $direction, $filters, $query!($($row)?), $parameters, $columns, $rest, $arguments,
            kinds: [
                "WITH RECURSIVE kind AS (
                     SELECT found.* FROM (SELECT " $start " OFFSET 0) AS kind CROSS JOIN LATERAL (
                         SELECT " $kinds " FROM " $table "
                         WHERE " $index " AND (" $keys ") >= (" $kind ") ORDER BY " $keys " LIMIT 1
                     ) AS found WHERE " $while "
                     UNION ALL
                     SELECT found.* FROM kind CROSS JOIN LATERAL (
                         SELECT " $kinds " FROM " $table "
                         WHERE " $index " AND (" $keys ") > (" $kind ") ORDER BY " $keys " LIMIT 1
                     ) AS found WHERE " $while "
                 ) "
            ],
            source: $source,
            rows: [
                $executions " WHERE " $index " AND (" $keys ") = (" $kind ") AND (" $time ", execution_id) > (" $above ")
                 AND (" $time ", execution_id) < (" $below ") AND " $filters
            ],
            time: $time
        )
    };
    (
        @filters $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, $direction:tt, columns: $columns:literal, rest: $rest:literal,
        arguments: $arguments:tt,
        source: $source:literal, rows: $rows:literal, time: $time:literal $(,)?
    ) => {
        $crate::execution_select::select!(
            @directed $direction, $filters, $query!($($row)?), $parameters, $columns, $rest, $arguments,
            kinds: [""], source: $source,
            rows: [
                "noetl.execution WHERE " $rows " AND (" $time ", execution_id) > ($16, $17) AND (" $time ", execution_id) < ($18, $19) AND " $filters
            ],
            time: $time
        )
    };
    // All executions of the index are of one kind, so the first rows of the range are the page.
    (
        @filters $filters:literal, $query:ident!($($row:ty)?), $parameters:expr, ($pages:ident $order:literal),
        columns: $columns:literal, rest: $rest:literal, arguments: [$($argument:expr),*],
        rows: $rows:literal, time: $time:literal $(,)?
    ) => {
        $crate::execution_select::select!(
            @sql $query!($($row)?), $parameters, [$($argument),*],
            "SELECT " $columns " FROM (
                SELECT ($20::bigint[])[1] AS owner, execution.* FROM noetl.execution WHERE " $rows "
                 AND (" $time ", execution_id) > ($16, $17) AND (" $time ", execution_id) < ($18, $19) AND " $filters "
                ORDER BY " $time $order ", execution_id" $order " LIMIT $21
            ) AS execution " $rest
        )
    };
    (
        @directed ($pages:ident $order:literal), $filters:literal,
        $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: $source:literal, rows: $rows:tt, time: $time:literal
    ) => {
        $crate::execution_select::select!(
            @$pages $query!($($row)?), $parameters, $columns, $rest, $arguments, $order, before: [""], after: "",
            kinds: $kinds, source: $source, rows: $rows, time: $time
        )
    };
    // The kinds are searched only if the window neither has enough executions nor is the whole range.
    (
        @directed ($pages:ident $order:literal, $window:literal, $of:literal, $window_time:literal), $filters:literal,
        $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, $arguments:tt,
        kinds: $kinds:tt, source: $source:literal, rows: $rows:tt, time: $time:literal
    ) => {
        $crate::execution_select::select!(
            @$pages $query!($($row)?), $parameters, $columns, $rest, $arguments, $order,
            before: [
                "WITH around AS MATERIALIZED (
                     SELECT execution.* FROM " $window " CROSS JOIN LATERAL (
                         SELECT execution_id, start_time, " $filters " AS matches FROM noetl.execution
                         WHERE " $of " AND (" $window_time ", execution_id) > ($16, $17)
                           AND (" $window_time ", execution_id) < ($18, $19)
                         ORDER BY " $window_time $order ", execution_id" $order " LIMIT 1000
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
            kinds: $kinds, source: $source, rows: $rows, time: $time
        )
    };
    // Only the kinds with the first executions can have executions of the page.
    (
        @page $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, [$($argument:expr),*], $order:literal,
        before: [$($before:literal)+], after: $after:literal, kinds: [$($kinds:literal)+], source: $source:literal,
        rows: [$($rows:literal)+], time: $time:literal
    ) => {
        $crate::execution_select::select!(
            @sql $query!($($row)?), $parameters, [$($argument),*],
            $($before)+ "SELECT " $columns " FROM (
                SELECT owner.id AS owner, execution.* FROM unnest($20::bigint[]) AS owner (id) CROSS JOIN LATERAL ("
            $($kinds)+ "SELECT execution.* FROM (
                    SELECT kind.* FROM " $source " CROSS JOIN LATERAL (
                        SELECT " $time " AS moment, execution_id FROM " $($rows)+ "
                        ORDER BY " $time $order ", execution_id" $order " LIMIT 1
                    ) AS first ORDER BY first.moment" $order ", execution_id" $order " LIMIT $21
                ) AS kind CROSS JOIN LATERAL (
                    SELECT * FROM " $($rows)+ "
                    ORDER BY " $time $order ", execution_id" $order " LIMIT $21
                ) AS execution ORDER BY " $time $order ", execution_id" $order " LIMIT $21
            ) AS execution " $after "
            ) AS execution " $rest
        )
    };
    (
        @any $query:ident!($($row:ty)?), $parameters:expr, $columns:literal, $rest:literal, [$($argument:expr),*], $order:literal,
        before: [$($before:literal)+], after: $after:literal, kinds: [$($kinds:literal)+], source: $source:literal,
        rows: [$($rows:literal)+], time: $time:literal
    ) => {
        $crate::execution_select::select!(
            @sql $query!($($row)?), $parameters, [$($argument),*],
            $($before)+ "SELECT " $columns " FROM (
                SELECT owner.id AS owner, execution.* FROM unnest($20::bigint[]) AS owner (id) CROSS JOIN LATERAL ("
            $($kinds)+ "SELECT execution.* FROM " $source " CROSS JOIN LATERAL (
                    SELECT * FROM " $($rows)+ "
                    ORDER BY " $time $order ", execution_id" $order " LIMIT $21
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
            $parameters.paths.as_deref() as Option<&[&str]>,
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
            $parameters.held,
            $parameters.filter.roots_only,
            $parameters.pools.as_deref() as Option<&[&str]>,
            $parameters.filter.rerun_of.map(Id::get),
            $parameters.filter.has_failed_steps,
            $parameters.label_path,
            $parameters.label_entries.as_deref(),
            $parameters.filter.is_rerun,
            $($argument,)*
        )
    };
}

pub(super) use select;
