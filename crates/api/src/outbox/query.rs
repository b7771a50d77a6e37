//! Query of the outbox.

use async_graphql::Object;

use super::types::Outbox;
use crate::access::OUTBOX_COUNTS;

/// Query of the outbox.
#[derive(Debug, Default)]
pub struct OutboxQuery;

#[Object]
impl OutboxQuery {
    /// The outbox: messages for delivery to the broker.
    #[graphql(guard = "OUTBOX_COUNTS")]
    async fn outbox(&self) -> Option<Outbox> {
        Some(Outbox)
    }
}
