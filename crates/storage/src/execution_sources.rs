//! Index along which a list of executions is read, and the parameters of its statement.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::execution_filter::{ExecutionFilter, OwnerKind};
use super::executions::stored_names;
use super::label_path::label_path;
use super::view::View;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::labels::LabelCondition;
use noetl_domain::list_position::PositionRange;
use noetl_domain::tenant::{DEFAULT, Scope};

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
    /// Tenant and status, of reruns.
    Reruns,
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
    /// Label and status.
    Label,
    /// Tenant, label and status.
    TenantLabel,
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

/// Index along which executions that have ended are read in an order of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedSource {
    /// Status, by end time.
    LastEnded,
    /// Tenant and status, by end time.
    TenantLastEnded,
    /// Status, by duration.
    Longest,
    /// Tenant and status, by duration.
    TenantLongest,
}

/// Values of a statement's parameters.
pub(super) struct Parameters<'a> {
    pub(super) filter: &'a ExecutionFilter,
    pub(super) source: Source,
    /// Source of a list of executions that have ended, in place of `source`.
    pub(super) ended: Option<EndedSource>,
    /// Tenant of the scope.
    pub(super) own: Option<&'a str>,
    pub(super) statuses: Option<Vec<String>>,
    pub(super) paths: Option<Vec<&'a str>>,
    pub(super) pools: Option<Vec<&'a str>>,
    /// Predicate that the labels of a row must meet, as a JSON path; `None`: there is no condition.
    pub(super) label_path: Option<String>,
    /// Entries of `noetl.execution_label` along which the sources of labels are read: those of one condition; `None`:
    /// there is no condition.
    pub(super) label_entries: Option<Vec<String>>,
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

impl<'a> Parameters<'a> {
    /// Returns the parameters of a statement, whose rows are grouped by these owners, if there are any. `None`: no
    /// execution can meet the conditions.
    pub(super) fn of(
        shard: &'a View<'_>,
        scope: &'a Scope,
        filter: &'a ExecutionFilter,
        owners: Option<(OwnerKind, &[i64])>,
        range: PositionRange,
    ) -> Option<Self> {
        let (own, wanted) = (scope.tenant(), filter.tenant_id.as_deref());
        if shard.is_empty() || (own.is_some() && wanted.is_some() && own != wanted) {
            return None;
        }
        let by_tenant = own.or(wanted).is_some_and(is_indexed);
        let entry = if by_tenant { Source::TenantEntry } else { Source::Entry };
        let (source, owners) = match owners {
            Some((OwnerKind::Parent, ids)) => (Source::Parent, ids.to_vec()),
            Some((OwnerKind::Entry, ids)) => (entry, ids.to_vec()),
            Some((OwnerKind::Origin, ids)) => (Source::Rerun, ids.to_vec()),
            None if filter.ids.is_some() => (Source::Ids, vec![0]),
            None if filter.id_prefix.is_some() => (Source::IdRanges, vec![0]),
            None => match (filter.rerun_of, filter.parent_execution_id, filter.catalog_id) {
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
            ended: None,
            own,
            statuses: filter.statuses.as_ref().map(|wanted| stored_names(wanted)),
            paths: filter.paths.as_deref().map(distinct),
            pools: filter.execution_pools.as_deref().map(distinct),
            label_path: label_path(&filter.labels),
            label_entries: filter.labels.first().map(entries_of),
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| id.get()).collect()),
            lows,
            highs,
            range: filter.within(range),
            owners,
            held: shard.held(),
        })
    }

    /// Returns the parameters of a list in an order. The filter must have only conditions that the order allows.
    pub(super) fn in_order(self, order: ExecutionOrder) -> Self {
        let by_tenant = self.tenant().is_some();
        let (ended, range) = match order {
            ExecutionOrder::Newest | ExecutionOrder::Oldest => return self,
            ExecutionOrder::LastEnded => {
                let source = if by_tenant { EndedSource::TenantLastEnded } else { EndedSource::LastEnded };
                (source, self.range.between(self.filter.ended_after, self.filter.ended_before))
            }
            ExecutionOrder::Longest => {
                (if by_tenant { EndedSource::TenantLongest } else { EndedSource::Longest }, self.range)
            }
        };
        Self { ended: Some(ended), range, ..self }
    }

    /// Returns the conditions whose executions are counted before the list is read along the index of the rarest one.
    /// Empty: the source is certain.
    pub(super) fn rivals(&self) -> Vec<Rival> {
        if self.ended.is_some() || self.source.is_given() {
            return Vec::new();
        }
        let filter = self.filter;
        let mut rivals: Vec<Rival> = filter.labels.iter().map(|label| Rival::Label(entries_of(label))).collect();
        if let (Some(from), Some(until)) = (filter.ended_after, filter.ended_before) {
            rivals.push(Rival::Ended(from, until));
        }
        match rivals.as_slice() {
            [only] if self.exact().is_none() && only.source(self.tenant()) == self.source => Vec::new(),
            _ => rivals,
        }
    }

    /// Returns the source of the condition that names values of an indexed column, and a filter with this condition
    /// alone; `None`: there is no such condition.
    pub(super) fn exact(&self) -> Option<(Source, ExecutionFilter)> {
        let filter = self.filter;
        let source = exact_source(filter, self.tenant().is_some())?;
        let is_of = |one, of_tenant| source == one || source == of_tenant;
        let alone = ExecutionFilter {
            is_rerun: filter.is_rerun.filter(|_| source == Source::Reruns),
            has_failed_steps: filter.has_failed_steps.filter(|_| is_of(Source::FailedSteps, Source::TenantFailedSteps)),
            paths: filter.paths.clone().filter(|_| is_of(Source::Path, Source::TenantPath)),
            execution_pools: filter.execution_pools.clone().filter(|_| is_of(Source::Pool, Source::TenantPool)),
            statuses: filter.statuses.clone(),
            started_after: filter.started_after,
            started_before: filter.started_before,
            tenant_id: filter.tenant_id.clone(),
            ..ExecutionFilter::default()
        };
        Some((source, alone))
    }

    /// Returns the parameters of the same list, read along the index of a condition.
    pub(super) fn along(self, rival: &Rival) -> Self {
        let source = rival.source(self.tenant());
        match rival {
            Rival::Label(entries) => Self { source, label_entries: Some(entries.clone()), ..self },
            Rival::Ended(..) => Self { source, ..self },
        }
    }

    /// Returns the tenant whose executions are wanted, if the indexes on tenants have it.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.own.or(self.filter.tenant_id.as_deref()).filter(|tenant| is_indexed(tenant))
    }

    /// Returns the window that is read before the source, if the source may have many kinds.
    pub(super) fn window(&self) -> Option<Window> {
        if !matches!(self.source, Source::Path | Source::TenantPath) || self.filter.paths.is_some() {
            return None;
        }
        Some(if self.filter.statuses.is_some() { Window::Status } else { Window::Time })
    }
}

/// Condition whose executions are counted along its index, without reading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rival {
    /// Entries of `noetl.execution_label` that meet a condition on a label.
    Label(Vec<String>),
    /// Bounds of the end time: from the first one until before the second one.
    Ended(DateTime<Utc>, DateTime<Utc>),
}

impl Rival {
    /// Returns the source that is read along the condition.
    fn source(&self, tenant: Option<&str>) -> Source {
        match (self, tenant) {
            (Self::Label(_), None) => Source::Label,
            (Self::Label(_), Some(_)) => Source::TenantLabel,
            (Self::Ended(..), None) => Source::Ended,
            (Self::Ended(..), Some(_)) => Source::TenantEnded,
        }
    }
}

impl Source {
    /// Returns whether the source has few executions: those with the ids, or the reruns of one execution.
    const fn is_given(self) -> bool {
        matches!(self, Self::Ids | Self::IdRanges | Self::Rerun)
    }

    /// Returns whether a parent, a catalog entry or an organization gives the source.
    pub(super) const fn has_owner(self) -> bool {
        matches!(self, Self::Parent | Self::Entry | Self::TenantEntry | Self::Organization)
    }
}

/// Index along which the first executions of a range are read, before the kinds of a source are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// No condition: most pages are expected among the newest executions.
    Time,
    /// Status, and the tenant if the source has it.
    Status,
}

/// Returns the source of the condition of a filter that names values of an indexed column.
fn exact_source(filter: &ExecutionFilter, by_tenant: bool) -> Option<Source> {
    let of = |of_tenant, of_all| Some(if by_tenant { of_tenant } else { of_all });
    if filter.is_rerun == Some(true) {
        Some(Source::Reruns)
    } else if filter.has_failed_steps == Some(true) {
        of(Source::TenantFailedSteps, Source::FailedSteps)
    } else if filter.paths.is_some() {
        of(Source::TenantPath, Source::Path)
    } else if filter.execution_pools.is_some() {
        of(Source::TenantPool, Source::Pool)
    } else {
        None
    }
}

/// Returns the source for a filter without ids, owners and organization, if no condition is known to be rare.
fn by_values(filter: &ExecutionFilter, by_tenant: bool) -> Source {
    let of = |of_tenant, of_all| if by_tenant { of_tenant } else { of_all };
    let has_end = filter.ended_after.is_some() || filter.ended_before.is_some();
    match exact_source(filter, by_tenant) {
        // A pool has most of the executions that ended at any time.
        Some(Source::Pool | Source::TenantPool) if has_end => {}
        Some(source) => return source,
        None => {}
    }
    if !filter.labels.is_empty() {
        of(Source::TenantLabel, Source::Label)
    } else if filter.path_prefix.is_some() {
        of(Source::TenantPath, Source::Path)
    } else if has_end {
        of(Source::TenantEnded, Source::Ended)
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

/// Returns the entries of the index of labels that meet a condition: the name, or the name with a value.
pub(super) fn entries_of(condition: &LabelCondition) -> Vec<String> {
    let name = &condition.name;
    match &condition.values {
        None => vec![name.clone()],
        Some(values) => distinct(values).into_iter().map(|value| format!("{name}={value}")).collect(),
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
        range.between(self.started_after, self.started_before)
    }
}

/// Returns whether the indexes on tenants and on organizations have the rows with this name. They leave out the rows
/// that name none.
pub(super) fn is_indexed(name: &str) -> bool {
    name != DEFAULT
}
