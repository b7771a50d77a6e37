//! Source subscriptions.

use async_graphql::{Context, Enum, ID, Object, Result};
use chrono::{DateTime, Utc};

use super::catalog::CatalogEntry;
use super::execution::{children, log};
use crate::graphql::access::READ;
use crate::graphql::connection::{EventConnection, ExecutionConnection, PageArguments};
use crate::graphql::errors::fault;
use crate::graphql::inputs::{EventFilter, ExecutionFilter};
use crate::graphql::loaders::{BatchLoader, SubscriptionKey};
use crate::graphql::scalars::show_id;
use crate::graphql::schema::Services;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, State};
use noetl_storage::subscriptions::SubscriptionRow;

/// State of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "State")]
pub enum SubscriptionState {
    /// Registered, but never activated.
    Registered,
    /// Receives messages.
    Active,
    /// Receives no messages until it is resumed or activated.
    Paused,
    /// Processes the received messages and receives no more.
    Draining,
    /// Ended. Its path is free for another registration.
    Deactivated,
}

/// Action on a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Action")]
pub enum SubscriptionAction {
    /// Starts to receive messages.
    Activate,
    /// Stops receiving messages until it is resumed or activated.
    Pause,
    /// Receives messages again after a pause.
    Resume,
    /// Processes the received messages and receives no more.
    Drain,
    /// Ends the subscription.
    Deactivate,
}

/// A long-lived resource that receives messages and runs an execution for each message.
#[derive(Debug, Clone)]
pub struct SourceSubscription(pub SubscriptionRow);

impl SourceSubscription {
    /// Returns the subscription with this id through the batch loader.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let row = ctx.data::<BatchLoader>()?.load_one(SubscriptionKey(id)).await.map_err(fault)?;
        Ok(row.transpose().map_err(fault)?.map(Self))
    }
}

/// A long-lived resource that receives messages and runs an execution for each message. Its state is the status of its
/// latest lifecycle event.
#[Object]
impl SourceSubscription {
    /// Id of the subscription. It is also the execution id of its log.
    async fn id(&self) -> ID {
        show_id(self.0.id)
    }

    /// Catalog path. A path has at most one subscription that is not deactivated.
    async fn path(&self) -> &str {
        &self.0.path
    }

    /// Current state.
    async fn state(&self) -> SubscriptionState {
        self.0.state.into()
    }

    /// Actions that the current state allows.
    async fn available_actions(&self) -> Vec<SubscriptionAction> {
        self.0.state.available_actions().into_iter().map(Into::into).collect()
    }

    /// Id of the latest lifecycle event: the version to pass as `expectedLastEventId`.
    async fn last_event_id(&self) -> ID {
        show_id(self.0.last_event_id)
    }

    /// Type of the latest lifecycle event.
    async fn last_event_type(&self) -> &str {
        &self.0.last_event_type
    }

    /// Time of registration.
    async fn registered_at(&self) -> DateTime<Utc> {
        self.0.registered_at
    }

    /// Time of the latest lifecycle event.
    async fn updated_at(&self) -> DateTime<Utc> {
        self.0.updated_at
    }

    /// Index of the shard that stores the log.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.databases.index_of(self.0.id))
    }

    /// Catalog entry that the subscription was registered with.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        CatalogEntry::load(ctx, self.0.catalog_id).await
    }

    /// Log of the subscription, oldest event first: lifecycle events, and an audit event for each duplicate message.
    #[graphql(guard = "READ")]
    async fn history(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<EventConnection> {
        log(ctx, self.0.id, filter, &PageArguments { first, after, last, before }).await
    }

    /// Executions that the subscription started, newest first.
    #[graphql(guard = "READ")]
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<ExecutionFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<ExecutionConnection> {
        let page = PageArguments { first, after, last, before };
        children(ctx, self.0.id, filter, &page).await
    }
}
