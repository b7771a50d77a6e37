//! Registering a source subscription.

use super::activation::{LiveTarget, Outcome, occupied};
use super::{Subscriptions, unknown_path};
use crate::service::error::ServiceError;
use crate::service::tenancy::{check, resolve};
use noetl_domain::tenant::{Caller, NamedTenancy};
use noetl_storage::subscriptions::SubscriptionRow;

impl Subscriptions {
    /// Returns the path's live subscription. Registers the path's newest catalog entry if none is live. If the live one
    /// has another tenant or organization than the named one, or than the caller's, the request is rejected.
    #[tracing::instrument(level = "debug", name = "subscriptions.register", skip_all, fields(path))]
    pub async fn register(
        &self,
        path: &str,
        named: &NamedTenancy,
        caller: &Caller,
    ) -> Result<SubscriptionRow, ServiceError> {
        check(named)?;
        let tenancy = resolve(named, None, &caller.scope)?;
        let entry = self.entry(path).await?;
        let Outcome::Live(live) =
            self.activator.make_live(&entry, LiveTarget::Any { tenancy: &tenancy }, caller).await?
        else {
            return Err(unknown_path(path).into());
        };
        let is = |wanted: &Option<String>, own: &String| wanted.as_ref().is_none_or(|wanted| wanted == own);
        let is_wanted = caller.scope.admits(&live.tenancy.tenant_id)
            && is(&named.tenant_id, &live.tenancy.tenant_id)
            && is(&named.organization_id, &live.tenancy.organization_id);
        if is_wanted { Ok(live) } else { Err(occupied(&live, "path", &caller.scope).into()) }
    }
}
