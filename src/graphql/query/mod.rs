//! The root of all queries.

pub(super) mod health;

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};

use super::access::{CALLER, OUTBOX_COUNTS, READ, principal};
use super::connection::{
    CatalogEntryConnection, EventConnection, ExecutionConnection, PageArguments, SourceSubscriptionConnection,
    id_cursor, selects,
};
use super::errors::fault;
use super::inputs::{CatalogFilter, EventFilter, ExecutionFilter, SubscriptionFilter, SubscriptionKey};
use super::scalars::parse_id;
use super::schema::Services;
use super::types::catalog::CatalogEntry;
use super::types::event::Event;
use super::types::execution::{Execution, executions, log};
use super::types::feed::EventStreamStatus;
use super::types::outbox::Outbox;
use super::types::server::{ServerInfo, Shard, Viewer};
use super::types::subscription::SourceSubscription;
use crate::service::bounds::check_text;
use noetl_domain::cursor::{CursorKind, encode};
use noetl_storage::catalog::{self, CatalogKey};
use noetl_storage::subscriptions::SubscriptionRow;

/// The root of all queries.
#[derive(Debug)]
pub struct Query;

/// The root of all queries.
#[Object]
impl Query {
    /// Source subscription with this key; null if there is none.
    #[graphql(guard = "READ")]
    async fn subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id or path of the subscription.")] by: SubscriptionKey,
    ) -> Result<Option<SourceSubscription>> {
        let subscriptions = &ctx.data::<Services>()?.subscriptions;
        let found = match by {
            SubscriptionKey::Id(id) => subscriptions.get(parse_id("by.id", &id).map_err(fault)?).await,
            SubscriptionKey::Path(path) => {
                check_text("by.path", &path).map_err(fault)?;
                subscriptions.by_path(&path).await
            }
        };
        Ok(found.map_err(fault)?.map(SourceSubscription))
    }

    /// Source subscriptions, newest first.
    #[graphql(guard = "READ")]
    async fn subscriptions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<SubscriptionFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<SourceSubscriptionConnection> {
        let page = PageArguments { first, after, last, before };
        let request = page.by_id(CursorKind::Subscription).map_err(fault)?;
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let listing = ctx.data::<Services>()?.subscriptions.list(&filter, &request).await.map_err(fault)?;
        let cursor = |row: &SubscriptionRow| id_cursor(CursorKind::Subscription, row.id.get());
        Ok(SourceSubscriptionConnection::new(listing.page, listing.unavailable, cursor, SourceSubscription))
    }

    /// Execution with this id; null if there is none.
    #[graphql(guard = "READ")]
    async fn execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution.")] id: ID,
    ) -> Result<Option<Execution>> {
        Execution::load(ctx, parse_id("id", &id).map_err(fault)?).await
    }

    /// Executions, newest first.
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
        let request = page.by_id(CursorKind::Execution).map_err(fault)?;
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let listing = ctx.data::<Services>()?.executions.list(&filter, &request).await.map_err(fault)?;
        Ok(executions(listing.page, listing.unavailable))
    }

    /// One event in the log of an execution or a source subscription; null if there is none.
    #[graphql(guard = "READ")]
    async fn event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution or source subscription that the log belongs to.")] execution_id: ID,
        #[graphql(desc = "Id of the event.")] id: ID,
    ) -> Result<Option<Event>> {
        let execution = parse_id("executionId", &execution_id).map_err(fault)?;
        let event = parse_id("id", &id).map_err(fault)?;
        let found = ctx.data::<Services>()?.executions.event(execution, event).await.map_err(fault)?;
        Ok(found.map(|event| Event(Arc::new(event))))
    }

    /// Log of an execution or a source subscription, oldest event first.
    #[graphql(guard = "READ")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution or source subscription that the log belongs to.")] execution_id: ID,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<EventConnection> {
        let execution = parse_id("executionId", &execution_id).map_err(fault)?;
        log(ctx, execution, filter, &PageArguments { first, after, last, before }).await
    }

    /// One version of a catalog path; null if there is none.
    #[graphql(guard = "READ")]
    async fn catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Catalog path.")] path: String,
        #[graphql(desc = "Version of the path (default: the newest).")] version: Option<i32>,
    ) -> Result<Option<CatalogEntry>> {
        check_text("path", &path).map_err(fault)?;
        let version = match version.map(i16::try_from) {
            Some(Err(_)) => return Ok(None),
            Some(Ok(version)) => Some(version),
            None => None,
        };
        let found = ctx.data::<Services>()?.catalog.find(&path, version).await.map_err(fault)?;
        Ok(found.map(CatalogEntry))
    }

    /// Catalog entries, ordered by path and version.
    #[graphql(guard = "READ")]
    async fn catalog_entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: the newest version of each path).")]
        filter: Option<CatalogFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<CatalogEntryConnection> {
        let page = PageArguments { first, after, last, before };
        let request = page.request(CursorKind::Catalog, read_place).map_err(fault)?;
        let filter = filter.unwrap_or_default().parse().map_err(fault)?;
        let wanted = ["content", "payload", "meta"].into_iter().filter(|field| selects(ctx, field));
        let wanted: Vec<String> = wanted.map(str::to_owned).collect();
        let page = ctx.data::<Services>()?.catalog.list(&filter, &wanted, &request).await.map_err(fault)?;
        Ok(CatalogEntryConnection::new(page, Vec::new(), catalog_cursor, |entry| CatalogEntry(Arc::new(entry))))
    }

    /// The outbox: messages for delivery to the broker.
    #[graphql(guard = "OUTBOX_COUNTS")]
    async fn outbox(&self) -> Outbox {
        Outbox
    }

    /// Status of the event stream.
    #[graphql(guard = "READ")]
    async fn event_stream(&self, ctx: &Context<'_>) -> Result<EventStreamStatus> {
        Ok(health::event_stream(ctx.data()?).await)
    }

    /// Health of the shards, as this replica sees them.
    #[graphql(guard = "READ")]
    async fn shards(&self, ctx: &Context<'_>) -> Result<Vec<Shard>> {
        Ok(health::shards(ctx.data()?))
    }

    /// Information about the replica that executes the operation.
    #[graphql(guard = "CALLER")]
    async fn server(&self, ctx: &Context<'_>) -> Result<ServerInfo> {
        Ok(health::server(ctx.data()?))
    }

    /// Caller of this operation.
    #[graphql(guard = "CALLER")]
    async fn viewer(&self, ctx: &Context<'_>) -> Result<Viewer> {
        Ok(health::viewer(principal(ctx)?))
    }
}

/// Returns the cursor of a catalog entry: its version, then its path.
fn catalog_cursor(entry: &catalog::CatalogEntry) -> String {
    let mut position = entry.version.to_be_bytes().to_vec();
    position.extend_from_slice(entry.path.as_bytes());
    encode(CursorKind::Catalog, &position)
}

fn read_place(position: &[u8]) -> Option<CatalogKey> {
    let (version, path) = position.split_first_chunk::<2>()?;
    Some((String::from_utf8(path.to_vec()).ok()?, i16::from_be_bytes(*version)))
}
