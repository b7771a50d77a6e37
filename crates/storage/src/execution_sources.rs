//! Index along which a list of executions is read, and the parameters of its statement.

use std::collections::BTreeSet;

use super::execution_filter::ExecutionFilter;
use super::executions::stored_names;
use super::view::View;
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
    /// Origin of the rerun, tenant and status.
    Rerun,
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
    /// Pool and status.
    Pool,
    /// Tenant, pool and status.
    TenantPool,
    /// Status, of executions without a parent.
    Root,
    /// Tenant and status, of executions without a parent.
    TenantRoot,
    /// Status, of executions with failed steps.
    FailedSteps,
    /// Tenant and status, of executions with failed steps.
    TenantFailedSteps,
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
    pub(super) paths: Option<Vec<&'a str>>,
    pub(super) pools: Option<Vec<&'a str>>,
    pub(super) ids: Option<Vec<i64>>,
    /// First ids of the ranges that have the prefix.
    pub(super) lows: Option<Vec<i64>>,
    /// Last ids of the ranges.
    pub(super) highs: Option<Vec<i64>>,
    pub(super) range: PositionRange,
    /// Parents, origins or catalog entries whose executions are read; one value of no meaning for other sources.
    pub(super) owners: Vec<i64>,
    /// Bits of the buckets whose executions are visible; `None`: all are.
    pub(super) held: Option<&'a [u8]>,
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
    /// Executions of which the executions are reruns.
    Origins(&'a [i64]),
}

impl<'a> Parameters<'a> {
    /// Returns the parameters of a statement. `None`: no execution can meet the conditions.
    pub(super) fn of(
        shard: &'a View<'_>,
        scope: &'a Scope,
        filter: &'a ExecutionFilter,
        owners: Owners<'_>,
        range: PositionRange,
    ) -> Option<Self> {
        let (own, wanted) = (scope.tenant(), filter.tenant_id.as_deref());
        if shard.is_empty() || (own.is_some() && wanted.is_some() && own != wanted) {
            return None;
        }
        let is_indexed = |name: &str| name != DEFAULT;
        let by_tenant = own.or(wanted).is_some_and(is_indexed);
        let entry = if by_tenant { Source::TenantEntry } else { Source::Entry };
        let (source, owners) = match owners {
            Owners::Parents(ids) => (Source::Parent, ids.to_vec()),
            Owners::Entries(ids) => (entry, ids.to_vec()),
            Owners::Origins(ids) => (Source::Rerun, ids.to_vec()),
            Owners::None if filter.ids.is_some() => (Source::Ids, vec![0]),
            Owners::None if filter.id_prefix.is_some() => (Source::IdRanges, vec![0]),
            Owners::None => match (filter.rerun_of, filter.parent_execution_id, filter.catalog_id) {
                (Some(origin), ..) => (Source::Rerun, vec![origin.get()]),
                (None, Some(parent), _) => (Source::Parent, vec![parent.get()]),
                (None, None, Some(id)) => (entry, vec![id.get()]),
                (None, None, None) if filter.organization_id.as_deref().is_some_and(is_indexed) => {
                    (Source::Organization, vec![0])
                }
                (None, None, None) => (by_values(filter, by_tenant), vec![0]),
            },
        };
        let (lows, highs) = filter.id_prefix.as_deref().map(id_ranges).map(|ranges| ranges.into_iter().unzip()).unzip();
        Some(Self {
            filter,
            source,
            own,
            statuses: filter.statuses.as_ref().map(|wanted| stored_names(wanted)),
            paths: filter.paths.as_deref().map(distinct),
            pools: filter.execution_pools.as_deref().map(distinct),
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
            lows,
            highs,
            range: filter.within(range),
            owners,
            held: shard.held(),
        })
    }

    /// Returns the window that is read before the source, if the source may have many kinds.
    pub(super) fn window(&self) -> Option<Window> {
        let of_status = match self.source {
            Source::Path => Window::Status,
            Source::TenantPath => Window::TenantStatus,
            _ => return None,
        };
        match (&self.filter.paths, &self.filter.statuses) {
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
    if filter.has_failed_steps == Some(true) {
        of(Source::TenantFailedSteps, Source::FailedSteps)
    } else if filter.paths.is_some() || filter.path_prefix.is_some() {
        of(Source::TenantPath, Source::Path)
    } else if filter.ended_after.is_some() || filter.ended_before.is_some() {
        of(Source::TenantEnded, Source::Ended)
    } else if filter.execution_pools.is_some() {
        of(Source::TenantPool, Source::Pool)
    } else if filter.roots_only {
        of(Source::TenantRoot, Source::Root)
    } else if by_tenant {
        Source::TenantStatus
    } else if filter.statuses.is_some() {
        Source::Status
    } else {
        Source::Time
    }
}

/// Returns each text once.
fn distinct(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
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
        let after = self.started_after.map(|at| ListPosition { at, id: i64::MIN });
        let before = self.started_before.map(|at| ListPosition { at, id: i64::MIN });
        PositionRange {
            above: after.map_or(range.above, |bound| bound.max(range.above)),
            below: before.map_or(range.below, |bound| bound.min(range.below)),
            ..range
        }
    }
}
