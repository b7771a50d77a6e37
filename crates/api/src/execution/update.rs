//! Item of the live subscriptions for executions.

use async_graphql::{ID, SimpleObject};

use super::current::CurrentExecution;
use super::types::Execution;
use crate::audience::Audience;
use crate::scalars::{Time, show_id};
use crate::shared_item::{ItemKey, SharedItem, SharedTexts};
use crate::updates::{Update, UpdateKind};
use noetl_runtime::clock;

/// An update of an execution.
#[derive(Debug, SimpleObject)]
pub struct ExecutionUpdate {
    /// Kind of the update.
    pub kind: UpdateKind,
    /// Id of the execution; null for `GAP` and `CAUGHT_UP`.
    pub execution_id: Option<ID>,
    /// The execution; null for `GAP` and `CAUGHT_UP`, and for a `LEFT_FILTER` if it was deleted.
    pub execution: Option<SharedItem<Execution>>,
    /// Time of the item.
    pub at: Time,
    /// Position in the event feed: this item and those before it include every event up to it. Null in
    /// `executionUpdates`, which reads the feed of one shard only.
    pub cursor: Option<String>,
    /// Shard of a `GAP`; null for other kinds.
    pub shard: Option<u16>,
}

impl ExecutionUpdate {
    /// Returns the item of an update for the readers of `audience`.
    #[must_use]
    pub fn new(update: Update<CurrentExecution>, audience: Option<&Audience>, texts: &SharedTexts) -> Self {
        let shared = audience.cloned().zip(update.read).zip(update.id);
        let key = shared.map(|((audience, read), id)| ItemKey { audience, read, id });
        let show = |row| SharedItem::new(Execution::as_read(row), key.map(|key| (key, texts.clone())));
        Self {
            kind: update.kind,
            execution_id: update.id.map(show_id),
            execution: update.row.map(show),
            at: Time(clock::now()),
            cursor: update.cursor.map(|cursor| cursor.to_text()),
            shard: update.shard,
        }
    }
}
