//! Guards of fields: the capability that a caller needs for each field.
//!
//! Every root field has a guard, and so has every other field that returns a payload or another object. The remaining
//! fields are open to each caller that can reach their object. An operation without a principal can't use a guarded
//! field, so missing wiring refuses access and never grants it. A test walks the schema, requests every field as every
//! role, and fails on a field that is missing in its table.

use std::sync::Arc;

use async_graphql::{Context, Guard, Result};

use super::errors::error_with_code;
use noetl_auth::principal::{Capability, Principal};
use noetl_domain::actor::Actor;
use noetl_domain::tenant::{Caller, Scope};

/// Guard that admits callers with at least one of these capabilities. An empty list admits every caller that has a
/// principal.
#[derive(Debug, Clone, Copy)]
pub struct RequiredCapability(&'static [Capability]);

/// Every caller that has a principal.
pub const CALLER: RequiredCapability = RequiredCapability(&[]);
/// Reading stored data and payloads.
pub const READ: RequiredCapability = RequiredCapability(&[Capability::Read]);
/// Live subscriptions.
pub const LIVE: RequiredCapability = RequiredCapability(&[Capability::Live]);
/// Starting executions.
pub const EXECUTE: RequiredCapability = RequiredCapability(&[Capability::Execute]);
/// Claiming and settling outbox rows.
pub const OUTBOX: RequiredCapability = RequiredCapability(&[Capability::Outbox]);
/// Counting outbox rows.
pub const OUTBOX_COUNTS: RequiredCapability = RequiredCapability(&[Capability::Read, Capability::Outbox]);
/// Storing events of workers.
pub const PROJECT: RequiredCapability = RequiredCapability(&[Capability::Project]);
/// Storing the states of executions.
pub const ADVANCE: RequiredCapability = RequiredCapability(&[Capability::Advance]);
/// Changing one source subscription. For a caller with only `OWN_LIFECYCLE`, the service checks whether the caller
/// registered it.
pub const CHANGE_SUBSCRIPTION: RequiredCapability =
    RequiredCapability(&[Capability::Lifecycle, Capability::OwnLifecycle]);
/// Changing many source subscriptions.
pub const LIFECYCLE: RequiredCapability = RequiredCapability(&[Capability::Lifecycle]);
/// Cancelling executions.
pub const CANCEL: RequiredCapability = RequiredCapability(&[Capability::Cancel]);
/// Retrying failed and DEAD outbox rows, and discarding DEAD ones.
pub const RETRY: RequiredCapability = RequiredCapability(&[Capability::Retry]);
/// Registering, retiring and restoring catalog entries.
pub const CATALOG: RequiredCapability = RequiredCapability(&[Capability::Catalog]);

impl RequiredCapability {
    /// Returns whether the guard admits a caller.
    #[must_use]
    pub fn admits(self, principal: &Principal) -> bool {
        self.0.is_empty() || principal.has_any(self.0)
    }
}

impl Guard for RequiredCapability {
    async fn check(&self, ctx: &Context<'_>) -> Result<()> {
        let principal = principal(ctx)?;
        if self.admits(principal) {
            return Ok(());
        }
        let needed = self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        let field = ctx.item.node.name.node.as_str();
        if ctx.path_node.is_some_and(|node| node.parent.is_none()) {
            tracing::info!(target: "audit", subject = &*principal.subject, operation = field, needed, outcome = "FORBIDDEN", "refused");
        }
        Err(error_with_code(
            "FORBIDDEN",
            format!("the field {field} needs the capability {needed}, which this caller does not have"),
        ))
    }
}

/// Returns the caller of an operation.
pub fn principal<'a>(ctx: &Context<'a>) -> Result<&'a Arc<Principal>> {
    ctx.data_opt::<Arc<Principal>>()
        .ok_or_else(|| error_with_code("UNAUTHENTICATED", "authenticate with a valid token".to_owned()))
}

/// Returns the caller of an operation, as use cases need it. The actor is `None` if the server does not identify
/// callers.
pub fn caller(ctx: &Context<'_>) -> Result<Caller> {
    let principal = principal(ctx)?;
    let actor = principal.authenticated.then(|| Actor::new(Arc::clone(&principal.subject)));
    Ok(Caller { actor, scope: scope_of(principal), imports: principal.capabilities.has(Capability::Import) })
}

/// Returns the data that the caller of an operation may read and write.
pub fn scope(ctx: &Context<'_>) -> Result<Scope> {
    Ok(scope_of(principal(ctx)?))
}

/// Returns the data that a caller may read and write: those of its tenant, or all if it has none.
#[must_use]
pub fn scope_of(principal: &Principal) -> Scope {
    principal.tenant.as_ref().map_or(Scope::Unrestricted, |tenant| Scope::Tenant(Arc::clone(tenant)))
}

/// Returns whether the caller may change only source subscriptions that it registered.
pub fn changes_only_own(ctx: &Context<'_>) -> Result<bool> {
    Ok(!principal(ctx)?.capabilities.has(Capability::Lifecycle))
}
