//! Source subscriptions.

use async_graphql::{Context, Enum, ID, Object, Result};
use chrono::{DateTime, Utc};

use super::catalog::CatalogEntry;
use super::execution::{children, log};
use crate::domain::ids::Id;
use crate::domain::lifecycle::{Action, State};
use crate::graphql::access::READ;
use crate::graphql::connection::{EventConnection, ExecutionConnection, PageArguments};
use crate::graphql::errors::fault;
use crate::graphql::inputs::{EventFilter, ExecutionFilter};
use crate::graphql::loaders::{BatchLoader, SubscriptionKey};
use crate::graphql::scalars::show_id;
use crate::graphql::schema::Services;
use crate::storage::subscriptions::SubscriptionRow;

/// Where a source subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "State")]
pub enum SubscriptionState {
    /// Known, never activated.
    Registered,
    /// Taking messages.
    Active,
    /// Not taking messages until it is resumed.
    Paused,
    /// Finishing what it took, taking no more.
    Draining,
    /// Ended; its path is free for another registration.
    Deactivated,
}

/// What can be asked of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Action")]
pub enum SubscriptionAction {
    /// Start taking messages.
    Activate,
    /// Stop taking messages for a while.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Finish what was taken and take no more.
    Drain,
    /// End the subscription.
    Deactivate,
}

/// A long-lived resource that takes messages and runs an execution for each.
#[derive(Debug, Clone)]
pub struct SourceSubscription(pub SubscriptionRow);

impl SourceSubscription {
    /// The subscription with this id, through the loader.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let row = ctx.data::<BatchLoader>()?.load_one(SubscriptionKey(id)).await.map_err(fault)?;
        Ok(row.transpose().map_err(fault)?.map(Self))
    }
}

/// A long-lived resource that takes messages and runs an execution for each. Its state is its latest lifecycle event.
#[Object]
impl SourceSubscription {
    /// The subscription's id, which is also the execution id of its log.
    async fn id(&self) -> ID {
        show_id(self.0.id)
    }

    /// The catalog path; at most one subscription of a path is live.
    async fn path(&self) -> &str {
        &self.0.path
    }

    /// Where it stands.
    async fn state(&self) -> SubscriptionState {
        self.0.state.into()
    }

    /// What can be asked of it now.
    async fn available_actions(&self) -> Vec<SubscriptionAction> {
        self.0.state.available_actions().into_iter().map(Into::into).collect()
    }

    /// Its latest lifecycle event: the version to pass as `expectedLastEventId`.
    async fn last_event_id(&self) -> ID {
        show_id(self.0.last_event_id)
    }

    /// The type of its latest lifecycle event.
    async fn last_event_type(&self) -> &str {
        &self.0.last_event_type
    }

    /// When it was registered.
    async fn registered_at(&self) -> DateTime<Utc> {
        self.0.registered_at
    }

    /// When its state last changed.
    async fn updated_at(&self) -> DateTime<Utc> {
        self.0.updated_at
    }

    /// The shard that holds its log.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.executions.databases().index_of(self.0.id))
    }

    /// The catalog entry that it was registered with.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        CatalogEntry::load(ctx, self.0.catalog_id).await
    }

    /// Its log, oldest first: lifecycle events, and duplicates that were turned away.
    #[graphql(guard = "READ")]
    async fn history(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which events; all by default.")] filter: Option<EventFilter>,
        #[graphql(desc = "Items from the start; at most 100.")] first: Option<i32>,
        #[graphql(desc = "Behind this cursor.")] after: Option<String>,
        #[graphql(desc = "Items from the end; at most 100.")] last: Option<i32>,
        #[graphql(desc = "Ahead of this cursor.")] before: Option<String>,
    ) -> Result<EventConnection> {
        log(ctx, self.0.id, filter, &PageArguments { first, after, last, before }).await
    }

    /// The executions of its messages, newest first.
    #[graphql(guard = "READ")]
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which executions; all by default.")] filter: Option<ExecutionFilter>,
        #[graphql(desc = "Items from the start; at most 100.")] first: Option<i32>,
        #[graphql(desc = "Behind this cursor.")] after: Option<String>,
        #[graphql(desc = "Items from the end; at most 100.")] last: Option<i32>,
        #[graphql(desc = "Ahead of this cursor.")] before: Option<String>,
    ) -> Result<ExecutionConnection> {
        let page = PageArguments { first, after, last, before };
        children(ctx, self.0.id, filter, &page).await
    }
}
