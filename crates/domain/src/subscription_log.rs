//! The events that this server writes to a source subscription's log.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::actor::Actor;
use super::event::Event;
use super::execution::emitted;
use super::ids::Id;
use super::labels::Labels;
use super::lifecycle::{Action, DEDUPLICATED, REGISTERED, State};
use super::tenant::Tenancy;

/// Log of a source subscription.
#[derive(Debug, Clone, Copy)]
pub struct SubscriptionLog<'a> {
    /// Id of the subscription.
    pub id: Id,
    /// Catalog path of the subscription.
    pub path: &'a str,
    /// Id of the catalog entry with which the subscription was registered.
    pub catalog_id: Id,
    /// Tenant and organization of the subscription.
    pub tenancy: &'a Tenancy,
    /// Caller that causes the events; `None`: it is not identified.
    pub by: Option<&'a Actor>,
}

impl SubscriptionLog<'_> {
    /// Returns the first event. `labels` are those of the document.
    #[must_use]
    pub fn registered(&self, event_id: Id, labels: &Labels, at: DateTime<Utc>) -> Event {
        let mut meta = self.lifecycle_meta(at);
        meta.extend(labels.to_stored().map(|labels| (Labels::META_KEY.to_owned(), labels)));
        self.event(event_id, REGISTERED, State::Registered.as_str(), self.context(), meta, at)
    }

    /// Returns the event of a transition to `state`.
    #[must_use]
    pub fn transitioned(
        &self,
        event_id: Id,
        action: Action,
        state: State,
        reason: Option<&str>,
        at: DateTime<Utc>,
    ) -> Event {
        let mut context = self.context();
        if let Some(reason) = reason {
            context.insert("reason".to_owned(), reason.into());
        }
        self.event(event_id, action.event_type(), state.as_str(), context, self.lifecycle_meta(at), at)
    }

    /// Returns the audit event of a duplicate of the message that `execution` runs. `differs`: whether it is known that
    /// the duplicate has other content.
    #[must_use]
    pub fn deduplicated(&self, event_id: Id, key: &str, execution: Id, differs: bool, at: DateTime<Utc>) -> Event {
        let mut context = self.context();
        context.insert("dedup_key".to_owned(), key.into());
        context.insert("execution_id".to_owned(), execution.to_string().into());
        if differs {
            context.insert("differs".to_owned(), true.into());
        }
        self.event(event_id, DEDUPLICATED, "DUPLICATE", context, emitted(at, self.by), at)
    }

    fn lifecycle_meta(&self, at: DateTime<Utc>) -> Map<String, Value> {
        let mut meta = emitted(at, self.by);
        meta.insert("subscription_lifecycle".to_owned(), true.into());
        meta
    }

    fn context(&self) -> Map<String, Value> {
        let fields = [
            ("subscription_id", self.id.to_string()),
            ("path", self.path.to_owned()),
            ("catalog_id", self.catalog_id.to_string()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    fn event(
        &self,
        event_id: Id,
        event_type: &str,
        status: &str,
        context: Map<String, Value>,
        meta: Map<String, Value>,
        at: DateTime<Utc>,
    ) -> Event {
        Event {
            node_id: Some("subscription".to_owned()),
            node_name: Some(self.path.to_owned()),
            node_type: Some("subscription".to_owned()),
            status: Some(status.to_owned()),
            context: Some(context.into()),
            meta: Some(meta.into()),
            tenant_id: self.tenancy.tenant_id.clone(),
            organization_id: self.tenancy.organization_id.clone(),
            ..Event::bare(self.id, event_id, self.catalog_id, event_type, at)
        }
    }
}
