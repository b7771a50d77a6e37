//! Conditions of lists of executions.

use chrono::{DateTime, Utc};

use super::executions::{ExecutionRow, stored_names};
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::labels::LabelCondition;

/// Number of the first characters of an error in which a text is searched for.
pub(super) const SEARCHED_CHARS: u16 = 10_000;

/// Conditions of a list; an execution must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ExecutionFilter {
    /// Statuses to include; default: all.
    pub statuses: Option<Vec<Status>>,
    /// Paths to include; default: all.
    pub paths: Option<Vec<String>>,
    /// Prefix of the path.
    pub path_prefix: Option<String>,
    /// Catalog entry.
    pub catalog_id: Option<Id>,
    /// Subscription or execution that started it.
    pub parent_execution_id: Option<Id>,
    /// Whether only executions without a parent are included.
    pub roots_only: bool,
    /// Execution of which it is a rerun.
    pub rerun_of: Option<Id>,
    /// Whether it must be a rerun, or none; default: both are included.
    pub is_rerun: Option<bool>,
    /// Whether a step must be failed, or none; default: both are included.
    pub has_failed_steps: Option<bool>,
    /// Text that the error of a failed execution must contain; default: all are included.
    pub error_contains: Option<String>,
    /// Pools to include; default: all, and executions that name none.
    pub execution_pools: Option<Vec<String>>,
    /// Conditions on labels, all of which must be met.
    pub labels: Vec<LabelCondition>,
    /// Ids to include; default: all.
    pub ids: Option<Vec<Id>>,
    /// First digits of the id.
    pub id_prefix: Option<String>,
    /// Inclusive lower bound of the start time.
    pub started_after: Option<DateTime<Utc>>,
    /// Exclusive upper bound of the start time.
    pub started_before: Option<DateTime<Utc>>,
    /// Inclusive lower bound of the end time.
    pub ended_after: Option<DateTime<Utc>>,
    /// Exclusive upper bound of the end time.
    pub ended_before: Option<DateTime<Utc>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
}

/// Kind of the owners by which executions are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerKind {
    /// Subscriptions or executions, which started the executions.
    Parent,
    /// Catalog entries, which the executions run.
    Entry,
    /// Executions, of which the executions are reruns.
    Origin,
}

impl OwnerKind {
    /// Returns the owner of an execution.
    #[must_use]
    pub fn owner_of(self, row: &ExecutionRow) -> i64 {
        match self {
            Self::Parent => row.parent_execution_id.unwrap_or_default(),
            Self::Entry => row.catalog_id,
            Self::Origin => row.rerun_of.unwrap_or_default(),
        }
    }
}

impl ExecutionFilter {
    /// Returns whether the execution meets all conditions. Rows have no errors, so of the condition on the error only the
    /// status is compared; [`Self::matches_error`] compares the rest.
    #[must_use]
    pub fn matches(&self, row: &ExecutionRow) -> bool {
        let status = row.status.to_uppercase();
        let path = row.path.as_deref();
        let is_after = |time: Option<DateTime<Utc>>, bound: Option<DateTime<Utc>>| {
            bound.is_none_or(|bound| time.is_some_and(|at| at >= bound))
        };
        let is_before = |time: Option<DateTime<Utc>>, bound: Option<DateTime<Utc>>| {
            bound.is_none_or(|bound| time.is_some_and(|at| at < bound))
        };
        self.statuses.as_ref().is_none_or(|wanted| stored_names(wanted).contains(&status))
            && is_one_of(self.paths.as_ref(), path)
            && self.path_prefix.as_deref().is_none_or(|prefix| path.is_some_and(|path| path.starts_with(prefix)))
            && self.catalog_id.is_none_or(|id| row.catalog_id == id.get())
            && self.parent_execution_id.is_none_or(|parent| row.parent_execution_id == Some(parent.get()))
            && (!self.roots_only || row.parent_execution_id.is_none())
            && self.rerun_of.is_none_or(|origin| row.rerun_of == Some(origin.get()))
            && self.is_rerun.is_none_or(|wanted| row.rerun_of.is_some() == wanted)
            && self.has_failed_steps.is_none_or(|wanted| (row.failed_steps.unwrap_or_default() > 0) == wanted)
            && (self.error_contains.is_none() || Status::from_stored(&row.status) == Status::Failed)
            && is_one_of(self.execution_pools.as_ref(), row.execution_pool.as_deref())
            && self.matches_labels(row)
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&Id::new(row.execution_id)))
            && self.id_prefix.as_deref().is_none_or(|prefix| row.execution_id.to_string().starts_with(prefix))
            && is_after(row.start_time, self.started_after)
            && is_before(row.start_time, self.started_before)
            && is_after(row.end_time, self.ended_after)
            && is_before(row.end_time, self.ended_before)
            && self.tenant_id.as_ref().is_none_or(|tenant| *tenant == row.tenant_id)
            && self.organization_id.as_ref().is_none_or(|organization| *organization == row.organization_id)
    }

    /// Returns whether an error meets the condition on it. The error is read only if there is the condition.
    #[must_use]
    pub fn matches_error(&self, error: impl FnOnce() -> Option<String>) -> bool {
        self.error_contains.as_deref().is_none_or(|text| error().is_some_and(|error| contains(&error, text)))
    }

    fn matches_labels(&self, row: &ExecutionRow) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let labels = row.labels();
        self.labels.iter().all(|condition| condition.matches(&labels))
    }

    /// Returns the name of a condition with which no index has the order, as the API names it. `None`: there is none.
    #[must_use]
    pub fn refused_by(&self, order: ExecutionOrder) -> Option<&'static str> {
        let Self {
            statuses: _,
            paths,
            path_prefix,
            catalog_id,
            parent_execution_id,
            roots_only,
            rerun_of,
            is_rerun,
            has_failed_steps,
            error_contains,
            execution_pools,
            labels,
            ids,
            id_prefix,
            started_after,
            started_before,
            ended_after,
            ended_before,
            tenant_id: _,
            organization_id,
        } = self;
        let by_duration = match order {
            ExecutionOrder::Newest | ExecutionOrder::Oldest => return None,
            ExecutionOrder::LastEnded => false,
            ExecutionOrder::Longest => true,
        };
        let conditions = [
            ("path", paths.is_some()),
            ("pathPrefix", path_prefix.is_some()),
            ("version", catalog_id.is_some()),
            ("parentExecutionId", parent_execution_id.is_some()),
            ("rootsOnly", *roots_only),
            ("rerunOf", rerun_of.is_some()),
            ("isRerun", is_rerun.is_some()),
            ("hasFailedSteps", has_failed_steps.is_some()),
            ("errorContains", error_contains.is_some()),
            ("executionPools", execution_pools.is_some()),
            ("labels", !labels.is_empty()),
            ("dedupKey", ids.is_some()),
            ("idPrefix", id_prefix.is_some()),
            ("startedAfter", started_after.is_some()),
            ("startedBefore", started_before.is_some()),
            ("endedAfter", ended_after.is_some() && by_duration),
            ("endedBefore", ended_before.is_some() && by_duration),
            ("organizationId", organization_id.is_some()),
        ];
        conditions.into_iter().find_map(|(name, is_set)| is_set.then_some(name))
    }

    /// Returns whether there is a condition on ids.
    pub(super) fn names_ids(&self) -> bool {
        self.ids.is_some() || self.id_prefix.is_some()
    }

    /// Returns the owner of this kind whose executions are included; `None`: those of all owners.
    pub(super) fn owner(&self, kind: OwnerKind) -> Option<Id> {
        match kind {
            OwnerKind::Parent => self.parent_execution_id,
            OwnerKind::Entry => self.catalog_id,
            OwnerKind::Origin => self.rerun_of,
        }
    }

    /// Returns the filter for the executions of an owner.
    pub(super) fn of_owner(&self, kind: OwnerKind, owner: i64) -> Self {
        let (mut filter, owner) = (self.clone(), Some(Id::new(owner)));
        match kind {
            OwnerKind::Parent => filter.parent_execution_id = owner,
            OwnerKind::Entry => filter.catalog_id = owner,
            OwnerKind::Origin => filter.rerun_of = owner,
        }
        filter
    }

    /// Returns whether an execution that matches can stop matching after an event.
    #[must_use]
    pub const fn can_stop_matching(&self) -> bool {
        self.statuses.is_some()
            || self.ended_after.is_some()
            || self.ended_before.is_some()
            || self.has_failed_steps.is_some()
            || self.error_contains.is_some()
    }
}

/// Returns whether an error contains a text, in any case of letters.
fn contains(error: &str, text: &str) -> bool {
    lower(error.chars().take(SEARCHED_CHARS.into())).contains(&lower(text.chars()))
}

fn lower(chars: impl Iterator<Item = char>) -> String {
    chars.flat_map(char::to_lowercase).collect()
}

/// Returns whether a value is one of the wanted ones.
fn is_one_of(wanted: Option<&Vec<String>>, value: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| value.is_some_and(|value| wanted.iter().any(|one| one == value)))
}
