//! Item of the live subscription for source subscriptions.

use async_graphql::{ID, SimpleObject};

use super::types::SourceSubscription;
use crate::audience::Audience;
use crate::scalars::{Time, show_id};
use crate::shared_item::{ItemKey, SharedItem, SharedTexts};
use crate::updates::{Update, UpdateKind};
use noetl_runtime::clock;
use noetl_storage::subscriptions::SubscriptionRow;

/// An update of a source subscription.
#[derive(Debug, SimpleObject)]
pub struct SubscriptionUpdate {
    /// Kind of the update. It is never `ENDED`, because a deactivated subscription can be activated again.
    pub kind: UpdateKind,
    /// Id of the subscription; null for `GAP` and `CAUGHT_UP`.
    pub subscription_id: Option<ID>,
    /// The subscription; null for `GAP` and `CAUGHT_UP`, and for a `LEFT_FILTER` if it was deleted.
    pub subscription: Option<SharedItem<SourceSubscription>>,
    /// Time of the item.
    pub at: Time,
    /// Position in the event feed: this item and those before it include every event up to it.
    pub cursor: Option<String>,
    /// Shard of a `GAP`; null for other kinds.
    pub shard: Option<u16>,
}

impl SubscriptionUpdate {
    /// Returns the item of an update for the readers of `audience`.
    #[must_use]
    pub fn new(update: Update<SubscriptionRow>, audience: Option<&Audience>, texts: &SharedTexts) -> Self {
        let shared = audience.cloned().zip(update.read);
        let show = |row: SubscriptionRow| {
            // Readers of one read can show the states after different events.
            let key = shared.map(|(audience, read)| ItemKey { audience, read, id: row.last_event_id });
            SharedItem::new(SourceSubscription::from(row), key.map(|key| (key, texts.clone())))
        };
        Self {
            kind: update.kind,
            subscription_id: update.id.map(show_id),
            subscription: update.row.map(show),
            at: Time(clock::now()),
            cursor: update.cursor.map(|cursor| cursor.to_text()),
            shard: update.shard,
        }
    }
}
