//! The index of each source, as arguments of [`select`](super::execution_select::select).

/// Passes a direction and the arguments of `select` for [`Source::Path`] to the macro `$statement`. More than
/// [`MAX_PATH_KINDS`](super::error::MAX_PATH_KINDS) kinds with a prefix are refused.
macro_rules! along_path {
    ($statement:ident, $direction:tt) => {
        $statement!(
            $direction,
            kinds: r#"path COLLATE "C" AS path, upper(status) AS status, kind.place + 1 AS place"#,
            index: "path IS NOT NULL",
            keys: r#"path COLLATE "C", upper(status)"#,
            start: "unnest(coalesce($9, ARRAY[$2])) AS path, '' AS status, 0 AS place",
            kind: "kind.path, kind.status",
            while: "CASE WHEN $9::text[] IS NOT NULL THEN found.path = kind.path WHEN NOT starts_with(found.path, $2) THEN false
                         WHEN found.place > 4000 THEN noetl.refuse_path_prefix() ELSE true END",
            time: "noetl.list_time(start_time, 5)",
        )
    };
}

/// Passes a direction and the arguments of `select` for [`Source::TenantPath`] to the macro `$statement`. More than
/// [`MAX_PATH_KINDS`](super::error::MAX_PATH_KINDS) kinds with a prefix are refused.
macro_rules! along_tenant_path {
    ($statement:ident, $direction:tt) => {
        $statement!(
            $direction,
            kinds: r#"tenant_id AS tenant, path COLLATE "C" AS path, upper(status) AS status, kind.place + 1 AS place"#,
            index: "tenant_id <> 'default' AND path IS NOT NULL",
            keys: r#"tenant_id, path COLLATE "C", upper(status)"#,
            start: "coalesce($6, $7) AS tenant, unnest(coalesce($9, ARRAY[$2])) AS path, '' AS status, 0 AS place",
            kind: "kind.tenant, kind.path, kind.status",
            while: "found.tenant = coalesce($6, $7)
                    AND CASE WHEN $9::text[] IS NOT NULL THEN found.path = kind.path WHEN NOT starts_with(found.path, $2) THEN false
                             WHEN found.place > 4000 THEN noetl.refuse_path_prefix() ELSE true END",
            time: "noetl.list_time(start_time, 6)",
        )
    };
}

/// Passes a direction, the first arguments of `select`, and those that the sources with durations share, to the macro
/// `$statement`.
macro_rules! along_ended {
    ($statement:ident, $direction:tt, $($first:tt)*) => {
        $statement!(
            $direction,
            $($first)*
            source: "(
                SELECT kind.*,
                       greatest($16::timestamptz, $11::timestamptz - longest) AS above,
                       CASE WHEN $11 - longest > $16 THEN -9223372036854775808 ELSE $17::bigint END AS above_id,
                       least($18::timestamptz, $12::timestamptz - shortest) AS below,
                       CASE WHEN $12 - shortest < $18 THEN 9223372036854775807 ELSE $19::bigint END AS below_id
                FROM kind CROSS JOIN LATERAL noetl.duration_bounds(class) AS bounds
                WHERE $1::text[] IS NULL OR status = ANY($1)
            ) AS kind",
            above: "kind.above, kind.above_id",
            below: "kind.below, kind.below_id",
        )
    };
}

/// Passes a direction and the arguments of `select` for an [`EndedSource`] to the macro `$statement`. No other index has the
/// key of one of these.
macro_rules! along_order {
    (@all $statement:ident, $direction:tt, $key:literal, $time:literal) => {
        $statement!(
            $direction,
            kinds: "upper(status) AS status",
            index: "end_time IS NOT NULL",
            keys: $key,
            start: "'' AS status",
            kind: "kind.status",
            while: "true",
            time: $time,
        )
    };
    (@tenant $statement:ident, $direction:tt, $keys:literal, $time:literal) => {
        $statement!(
            $direction,
            kinds: "tenant_id AS tenant, upper(status) AS status",
            index: "tenant_id <> 'default' AND end_time IS NOT NULL",
            keys: $keys,
            start: "coalesce($6, $7) AS tenant, '' AS status",
            kind: "kind.tenant, kind.status",
            while: "found.tenant = coalesce($6, $7)",
            time: $time,
        )
    };
    ($statement:ident, $direction:tt, $source:expr) => {
        match $source {
            EndedSource::LastEnded => $crate::execution_along::along_order!(
                @all $statement,
                $direction,
                "CASE WHEN end_time IS NOT NULL THEN upper(status) END",
                "noetl.list_time(end_time, 19)"
            ),
            EndedSource::TenantLastEnded => $crate::execution_along::along_order!(
                @tenant $statement,
                $direction,
                "CASE WHEN end_time IS NOT NULL THEN tenant_id END, upper(status)",
                "noetl.list_time(end_time, 20)"
            ),
            EndedSource::Longest => $crate::execution_along::along_order!(
                @all $statement,
                $direction,
                "CASE WHEN end_time IS NULL THEN '' ELSE upper(status) END",
                "noetl.list_time(noetl.duration_time(start_time, end_time), 21)"
            ),
            EndedSource::TenantLongest => $crate::execution_along::along_order!(
                @tenant $statement,
                $direction,
                "CASE WHEN end_time IS NULL THEN '' ELSE tenant_id END, upper(status)",
                "noetl.list_time(noetl.duration_time(start_time, end_time), 22)"
            ),
        }
    };
}

/// Passes a direction with a window, and the arguments of `select` for the source after the window, to the macro
/// `$statement`.
macro_rules! along_window {
    ($statement:ident, ($($direction:tt)+), $window:expr, $source:expr) => {
        match ($window, $source) {
            (Window::Time, Source::TenantPath) => $crate::execution_along::along_tenant_path!(
                $statement,
                ($($direction)+, "(VALUES (0)) AS kind (n)", "true", "noetl.list_time(start_time)")
            ),
            (Window::Time, _) => $crate::execution_along::along_path!(
                $statement,
                ($($direction)+, "(VALUES (0)) AS kind (n)", "true", "noetl.list_time(start_time)")
            ),
            (Window::Status, Source::TenantPath) => $crate::execution_along::along_tenant_path!(
                $statement,
                (
                    $($direction)+,
                    "(SELECT DISTINCT unnest($1::text[]) AS status) AS kind",
                    "tenant_id <> 'default' AND tenant_id = coalesce($6, $7) AND upper(status) = kind.status",
                    "noetl.list_time(start_time, 10)"
                )
            ),
            (Window::Status, _) => $crate::execution_along::along_path!(
                $statement,
                (
                    $($direction)+,
                    "(SELECT DISTINCT unnest($1::text[]) AS status) AS kind",
                    "upper(status) = kind.status",
                    "noetl.list_time(start_time, 9)"
                )
            ),
        }
    };
}

/// Passes a direction and the arguments of `select` for a source to the macro `$statement`.
macro_rules! along {
    ($statement:ident, $direction:tt, $source:expr) => {
        match $source {
            Source::Path => $crate::execution_along::along_path!($statement, $direction),
            Source::Parent => $statement!(
                $direction,
                kinds: "parent_execution_id AS parent, tenant_id AS tenant, upper(status) AS status",
                index: "parent_execution_id IS NOT NULL",
                keys: "parent_execution_id, tenant_id, upper(status)",
                start: "owner.id AS parent, '' AS tenant, '' AS status",
                kind: "kind.parent, kind.tenant, kind.status",
                while: "found.parent = owner.id",
                time: "noetl.list_time(start_time, 1)",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($6::text IS NULL OR tenant = $6) AND ($7::text IS NULL OR tenant = $7)) AS kind",
            ),
            Source::Rerun => $statement!(
                $direction,
                kinds: "rerun_of AS origin, tenant_id AS tenant, upper(status) AS status",
                index: "rerun_of IS NOT NULL",
                keys: "rerun_of, tenant_id, upper(status)",
                start: "owner.id AS origin, '' AS tenant, '' AS status",
                kind: "kind.origin, kind.tenant, kind.status",
                while: "found.origin = owner.id",
                time: "noetl.list_time(start_time, 16)",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($6::text IS NULL OR tenant = $6) AND ($7::text IS NULL OR tenant = $7)) AS kind",
            ),
            // With a tenant, the kinds are its statuses. Without one, they are those of each tenant that has reruns.
            Source::Reruns => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status",
                index: "rerun_of IS NOT NULL",
                // No other index has this key.
                keys: "CASE WHEN rerun_of IS NOT NULL THEN tenant_id END, upper(status)",
                start: "coalesce($6, $7, '') AS tenant, '' AS status",
                kind: "kind.tenant, kind.status",
                while: "coalesce($6, $7, found.tenant) = found.tenant",
                time: "noetl.list_time(start_time, 23)",
            ),
            Source::Entry => $statement!(
                $direction,
                kinds: "catalog_id AS entry, upper(status) AS status",
                index: "true",
                keys: "catalog_id, upper(status)",
                start: "owner.id AS entry, '' AS status",
                kind: "kind.entry, kind.status",
                while: "found.entry = owner.id",
                time: "noetl.list_time(start_time, 2)",
            ),
            Source::TenantEntry => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, catalog_id AS entry, upper(status) AS status",
                index: "tenant_id <> 'default'",
                keys: "tenant_id, catalog_id, upper(status)",
                start: "coalesce($6, $7) AS tenant, owner.id AS entry, '' AS status",
                kind: "kind.tenant, kind.entry, kind.status",
                while: "found.tenant = coalesce($6, $7) AND found.entry = owner.id",
                time: "noetl.list_time(start_time, 3)",
            ),
            Source::Organization => $statement!(
                $direction,
                kinds: "organization_id AS organization, tenant_id AS tenant, upper(status) AS status",
                index: "organization_id <> 'default'",
                keys: "organization_id, tenant_id, upper(status)",
                start: "$8::text AS organization, '' AS tenant, '' AS status",
                kind: "kind.organization, kind.tenant, kind.status",
                while: "found.organization = $8",
                time: "noetl.list_time(start_time, 4)",
                source: "(SELECT * FROM kind WHERE ($1::text[] IS NULL OR status = ANY($1)) AND ($6::text IS NULL OR tenant = $6) AND ($7::text IS NULL OR tenant = $7)) AS kind",
            ),
            Source::Label => $statement!(
                $direction,
                from: [
                    "noetl.execution_label",
                    "noetl.execution_label JOIN LATERAL (
                         SELECT * FROM noetl.execution WHERE execution.execution_id = execution_label.execution_id OFFSET 0
                     ) AS execution USING (execution_id)"
                ],
                kinds: "label AS label, label_status AS status",
                index: "true",
                keys: "label, label_status",
                start: "label, '' AS status FROM unnest($28::text[]) AS label",
                kind: "kind.label, kind.status",
                while: "found.label = kind.label",
                time: "noetl.list_time(label_time)",
            ),
            Source::TenantLabel => $statement!(
                $direction,
                from: [
                    "noetl.execution_label",
                    "noetl.execution_label JOIN LATERAL (
                         SELECT * FROM noetl.execution WHERE execution.execution_id = execution_label.execution_id OFFSET 0
                     ) AS execution USING (execution_id)"
                ],
                kinds: "label_tenant AS tenant, label AS label, label_status AS status",
                index: "label_tenant <> 'default'",
                // No other index has this key.
                keys: "label_tenant, CASE WHEN label_tenant <> 'default' THEN label END, label_status",
                start: "coalesce($6, $7) AS tenant, label, '' AS status FROM unnest($28::text[]) AS label",
                kind: "kind.tenant, kind.label, kind.status",
                while: "found.tenant = coalesce($6, $7) AND found.label = kind.label",
                time: "noetl.list_time(label_time, 1)",
            ),
            Source::Pool => $statement!(
                $direction,
                kinds: "execution_pool AS pool, upper(status) AS status",
                index: "execution_pool IS NOT NULL",
                keys: "execution_pool, upper(status)",
                start: "unnest($24::text[]) AS pool, '' AS status",
                kind: "kind.pool, kind.status",
                while: "found.pool = kind.pool",
                time: "noetl.list_time(start_time, 14)",
            ),
            Source::TenantPool => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, execution_pool AS pool, upper(status) AS status",
                index: "tenant_id <> 'default' AND execution_pool IS NOT NULL",
                keys: "tenant_id, execution_pool, upper(status)",
                start: "coalesce($6, $7) AS tenant, unnest($24::text[]) AS pool, '' AS status",
                kind: "kind.tenant, kind.pool, kind.status",
                while: "found.tenant = coalesce($6, $7) AND found.pool = kind.pool",
                time: "noetl.list_time(start_time, 15)",
            ),
            Source::Root => $statement!(
                $direction,
                kinds: "upper(status) AS status",
                index: "parent_execution_id IS NULL",
                // No other index has this key.
                keys: "CASE WHEN parent_execution_id IS NULL THEN upper(status) END",
                start: "'' AS status",
                kind: "kind.status",
                while: "true",
                time: "noetl.list_time(start_time, 12)",
            ),
            Source::TenantRoot => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status",
                index: "tenant_id <> 'default' AND parent_execution_id IS NULL",
                keys: "CASE WHEN parent_execution_id IS NULL THEN tenant_id END, upper(status)",
                start: "coalesce($6, $7) AS tenant, '' AS status",
                kind: "kind.tenant, kind.status",
                while: "found.tenant = coalesce($6, $7)",
                time: "noetl.list_time(start_time, 13)",
            ),
            Source::FailedSteps => $statement!(
                $direction,
                kinds: "upper(status) AS status",
                index: "failed_steps > 0",
                // No other index has this key.
                keys: "CASE WHEN failed_steps > 0 THEN upper(status) END",
                start: "'' AS status",
                kind: "kind.status",
                while: "true",
                time: "noetl.list_time(start_time, 17)",
            ),
            Source::TenantFailedSteps => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status",
                index: "tenant_id <> 'default' AND failed_steps > 0",
                keys: "CASE WHEN failed_steps > 0 THEN tenant_id END, upper(status)",
                start: "coalesce($6, $7) AS tenant, '' AS status",
                kind: "kind.tenant, kind.status",
                while: "found.tenant = coalesce($6, $7)",
                time: "noetl.list_time(start_time, 18)",
            ),
            Source::TenantPath => $crate::execution_along::along_tenant_path!($statement, $direction),
            Source::Ended => $crate::execution_along::along_ended!(
                $statement,
                $direction,
                kinds: "upper(status) AS status, noetl.duration_class(start_time, end_time) AS class",
                index: "end_time IS NOT NULL",
                keys: "upper(status), noetl.duration_class(start_time, end_time)",
                start: "'' AS status, -1 AS class",
                kind: "kind.status, kind.class",
                while: "true",
                time: "noetl.list_time(start_time, 7)",
            ),
            Source::TenantEnded => $crate::execution_along::along_ended!(
                $statement,
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status, noetl.duration_class(start_time, end_time) AS class",
                index: "tenant_id <> 'default' AND end_time IS NOT NULL",
                keys: "tenant_id, upper(status), noetl.duration_class(start_time, end_time)",
                start: "coalesce($6, $7) AS tenant, '' AS status, -1 AS class",
                kind: "kind.tenant, kind.status, kind.class",
                while: "found.tenant = coalesce($6, $7)",
                time: "noetl.list_time(start_time, 8)",
            ),
            Source::TenantStatus => $statement!(
                $direction,
                kinds: "tenant_id AS tenant, upper(status) AS status",
                index: "tenant_id <> 'default'",
                keys: "tenant_id, upper(status)",
                start: "coalesce($6, $7) AS tenant, '' AS status",
                kind: "kind.tenant, kind.status",
                while: "found.tenant = coalesce($6, $7)",
                time: "noetl.list_time(start_time, 10)",
            ),
            // The statuses are the kinds.
            Source::Status => $statement!(
                $direction,
                source: "(SELECT DISTINCT unnest($1::text[]) AS status) AS kind",
                rows: "upper(status) = kind.status",
                time: "noetl.list_time(start_time, 9)",
            ),
            Source::Time => $statement!($direction, rows: "true", time: "noetl.list_time(start_time)"),
            // No index has the order of the next two, so the planner uses the primary key, and the rows are sorted. Their
            // number is limited by the service.
            Source::Ids => $statement!(
                $direction,
                source: "(SELECT DISTINCT unnest($13::bigint[]) AS id) AS kind",
                rows: "execution_id = kind.id",
                time: "noetl.list_time(start_time, 11)",
            ),
            Source::IdRanges => $statement!(
                $direction,
                source: "unnest($14::bigint[], $15::bigint[]) AS kind (low, high)",
                rows: "execution_id >= kind.low AND execution_id <= kind.high",
                time: "noetl.list_time(start_time, 11)",
            ),
        }
    };
}

pub(super) use {along, along_ended, along_order, along_path, along_tenant_path, along_window};
