//! Registering a source subscription.

use super::activation::{LiveTarget, Outcome};
use super::{Subscriptions, unknown_path};
use crate::service::error::ServiceError;
use noetl_domain::actor::Actor;
use noetl_storage::subscriptions::SubscriptionRow;

impl Subscriptions {
    /// Returns the path's live subscription. Registers the path's newest catalog entry if none is live.
    #[tracing::instrument(level = "debug", name = "subscriptions.register", skip_all, fields(path))]
    pub async fn register(&self, path: &str, by: Option<&Actor>) -> Result<SubscriptionRow, ServiceError> {
        let entry = self.entry(path).await?;
        match self.activator.make_live(&entry, LiveTarget::Any, by).await? {
            Outcome::Live(live) => Ok(live),
            Outcome::AlreadyLive => Err(unknown_path(path).into()),
        }
    }
}
