//! Objects that have an id over all types.

use async_graphql::{Context, ID, Interface, Result};
use noetl_domain::node_id::NodeId;

use crate::catalog::types::CatalogEntry;
use crate::event::types::Event;
use crate::execution::types::{Execution, LogOwner};
use crate::outbox::types::OutboxEntry;
use crate::subscription::types::SourceSubscription;

/// An object with an id that no other object has. The query `node` returns the object with an id.
#[derive(Debug, Clone, Interface)]
#[graphql(field(name = "id", ty = "ID", desc = "Id of the object, unique over all types."))]
pub enum Node {
    /// An execution.
    Execution(Execution),
    /// A source subscription.
    SourceSubscription(SourceSubscription),
    /// An entry of the catalog.
    CatalogEntry(CatalogEntry),
    /// An event.
    Event(Event),
    /// An entry of the outbox.
    OutboxEntry(OutboxEntry),
}

impl Node {
    /// Returns the object with this id through the batch loaders; `None` if there is none that the caller may read.
    pub async fn load(ctx: &Context<'_>, id: NodeId) -> Result<Option<Self>> {
        Ok(match id {
            NodeId::Log(id) => LogOwner::load(ctx, id, ctx.look_ahead()).await?.and_then(|owner| {
                let execution = owner.execution.map(Self::Execution);
                execution.or_else(|| owner.subscription.map(Self::SourceSubscription))
            }),
            NodeId::CatalogEntry(id) => CatalogEntry::load(ctx, id).await?.map(Self::CatalogEntry),
            NodeId::Event(key) => Event::load(ctx, key).await?.map(Self::Event),
            NodeId::OutboxEntry(id) => OutboxEntry::load(ctx, id).await?.map(Self::OutboxEntry),
        })
    }
}
