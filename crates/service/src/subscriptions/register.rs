//! Registering a source subscription.

use async_trait::async_trait;

use super::activation::{LiveTarget, occupied};
use super::{Subscriptions, unknown_path};
use crate::tenancy::resolve;
use noetl_domain::tenant::{Caller, NamedTenancy};
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::subscriptions::RegisterSubscription;
use noetl_use_cases::tenancy::check;

#[async_trait]
impl RegisterSubscription for Subscriptions {
    #[tracing::instrument(level = "debug", name = "subscriptions.register", skip_all, fields(path))]
    async fn register(
        &self,
        path: &str,
        named: &NamedTenancy,
        caller: &Caller,
    ) -> Result<SubscriptionRow, ServiceError> {
        check(named)?;
        let tenancy = resolve(named, None, &caller.scope)?;
        let entry = self.entry(path).await?;
        let Some(live) = self.activator.make_live(&entry, LiveTarget::Any { tenancy: &tenancy }, caller).await? else {
            return Err(unknown_path(path).into());
        };
        let is = |wanted: &Option<String>, own: &String| wanted.as_ref().is_none_or(|wanted| wanted == own);
        let is_wanted = caller.scope.admits(&live.tenancy.tenant_id)
            && is(&named.tenant_id, &live.tenancy.tenant_id)
            && is(&named.organization_id, &live.tenancy.organization_id);
        if is_wanted { Ok(live) } else { Err(occupied(&live, "path", &caller.scope).into()) }
    }
}
