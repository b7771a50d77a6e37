//! Inputs of source subscriptions.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, OneofObject};

use super::lifecycle::{SubscriptionAction, SubscriptionStatus};
use crate::filters::checked_text;
use crate::guards::WrittenInput;
use crate::labels::LabelFilter;
use crate::scalars::{parse_event_id, parse_id, parse_ids};
use crate::selector::{Selected, selector};
use noetl_domain::tenant::{Caller, NamedTenancy};
use noetl_storage::subscriptions;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::subscriptions::{Selection, Transition};

/// Key of a source subscription.
#[derive(Debug, OneofObject)]
pub enum SubscriptionKey {
    /// Id of the subscription.
    Id(ID),
    /// Catalog path. Selects the subscription of the path that is not deactivated, or else the last one.
    Path(String),
}

/// Filter for source subscriptions. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct SubscriptionFilter {
    /// Only subscriptions with one of these statuses.
    statuses: Option<Vec<SubscriptionStatus>>,
    /// Only subscriptions whose path begins with this text.
    path_prefix: Option<String>,
    /// Only subscriptions whose labels meet all these conditions (1 to 5). They are compared one by one.
    labels: Option<Vec<LabelFilter>>,
    /// Only subscriptions of this tenant.
    tenant_id: Option<String>,
    /// Only subscriptions of this organization.
    organization_id: Option<String>,
}

impl SubscriptionFilter {
    /// Converts the input to the storage layer's filter. `field` is the path of the filter in the arguments.
    pub fn parse(self, field: &str) -> Result<subscriptions::SubscriptionFilter, Rejection> {
        Ok(subscriptions::SubscriptionFilter {
            states: self.statuses.map(|statuses| statuses.into_iter().map(Into::into).collect()),
            path_prefix: checked_text(&format!("{field}.pathPrefix"), self.path_prefix)?,
            labels: LabelFilter::parse_all(&format!("{field}.labels"), self.labels)?,
            tenant_id: checked_text(&format!("{field}.tenantId"), self.tenant_id)?,
            organization_id: checked_text(&format!("{field}.organizationId"), self.organization_id)?,
            ..subscriptions::SubscriptionFilter::default()
        })
    }
}

/// Source subscription to register.
#[derive(Debug, InputObject)]
pub struct RegisterSubscriptionInput {
    /// Catalog path whose newest entry that is not retired is of kind `subscription`. All tenants share the paths: a path
    /// has at most one subscription that is not deactivated.
    pub path: String,
    /// Tenant of the subscription (1 to 256 bytes; default: the tenant of the caller, else `default`). A caller with a
    /// tenant can't name another one.
    tenant_id: Option<String>,
    /// Organization of the subscription (1 to 256 bytes, default `default`).
    organization_id: Option<String>,
}

impl RegisterSubscriptionInput {
    /// Returns the tenant and the organization that the caller names.
    #[must_use]
    pub fn tenancy(&self) -> NamedTenancy {
        NamedTenancy { tenant_id: self.tenant_id.clone(), organization_id: self.organization_id.clone() }
    }
}

/// Source subscription whose status is changed.
#[derive(Debug, InputObject)]
pub struct SubscriptionTransitionInput {
    /// Id of the subscription.
    pub subscription_id: ID,
    /// `lastEventId` that the caller has read. If a later lifecycle event exists, the transition is refused with
    /// `STALE_VERSION`. If the field is left out, the version is not checked; null, and a variable without a value, is
    /// refused.
    expected_last_event_id: MaybeUndefined<ID>,
    /// Reason, written to the log (at most 4096 bytes).
    reason: Option<String>,
}

impl SubscriptionTransitionInput {
    /// Converts the input to the transition that the caller requests, and parses its ids.
    pub fn parse(
        self,
        action: SubscriptionAction,
        caller: Caller,
        only_own: bool,
        written: &WrittenInput<'_>,
    ) -> Result<Transition, Rejection> {
        const EXPECTED: &str = "expectedLastEventId";
        let id = parse_id("subscriptionId", &self.subscription_id)?;
        let expected = written.guard(EXPECTED, self.expected_last_event_id)?;
        Ok(Transition {
            id,
            action: action.into(),
            expected_last_event_id: expected.map(|event| parse_event_id(EXPECTED, &event, id)).transpose()?,
            reason: self.reason,
            caller,
            only_own,
        })
    }
}

selector! {
    /// Selection of source subscriptions.
    SubscriptionSelector, SubscriptionFilter
}

impl SubscriptionSelector {
    /// Converts the selector to the service's selection and parses its ids.
    pub fn parse(self, ctx: &Context<'_>) -> Result<Selection, Rejection> {
        Ok(match self.check(ctx)? {
            Selected::Ids(ids) => Selection::Ids(parse_ids("select.ids", &ids)?),
            Selected::Filter(filter) => Selection::Filter(filter.parse("select.filter")?),
            Selected::All => Selection::Filter(subscriptions::SubscriptionFilter::default()),
        })
    }
}

/// Transition of several source subscriptions.
#[derive(Debug, InputObject)]
pub struct TransitionSubscriptionsInput {
    /// Action to carry out.
    pub action: SubscriptionAction,
    /// Subscriptions to change, at most 1000. Those that are deactivated, or in a state that this server does not know, are
    /// selected only by their ids, or by a filter with `statuses`.
    pub select: SubscriptionSelector,
    /// Reason, written to the logs (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether to change nothing and only return the result that is expected (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}
