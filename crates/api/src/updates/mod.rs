//! Updates of objects that live subscriptions follow: their kinds, and the streams for lists of objects.

pub mod known;
pub mod list;
pub mod outdated;
mod steps;

use std::collections::{HashMap, HashSet};

use async_graphql::{Enum, Result};

use super::errors::field_error;
use super::shared_reads::ReadNumber;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_feed::wire::cursor::{Position, StreamCursor};
use noetl_use_cases::error::{ReadFailures, ServiceError};

/// Kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum UpdateKind {
    /// The current state of the object. It comes at the start of the live subscription, and again after a `GAP`.
    Current,
    /// The state of the object after a change. In a list, also of an object that matches the filter now and did not
    /// match it before.
    Changed,
    /// The object was in the list and does not match the filter any more. The item has its current state, or no object
    /// if it was deleted.
    LeftFilter,
    /// The object has ended, and the item has its final state. A live subscription for one object completes after this
    /// item. In a list, the item comes again if the log of the object still changes.
    Ended,
    /// Changes of the objects on one shard may be missing: the shard can't be reached, or its event feed has a gap. The
    /// current states follow as `CURRENT` when they can be read again, and objects that left the list as `LEFT_FILTER`.
    Gap,
    /// The list is complete. It comes once at the start, when the objects of all shards that can be read were sent, and
    /// again after each `GAP`, when no shard is missing any more. A live subscription for one object has none.
    CaughtUp,
}

/// An update before it is shown.
#[derive(Debug, Clone)]
pub struct Update<R> {
    /// Kind of the update.
    pub kind: UpdateKind,
    /// Id of the object; `None` for items without an object.
    pub id: Option<Id>,
    /// The object.
    pub row: Option<R>,
    /// Read by which other readers have the same row; `None` if they don't.
    pub read: Option<ReadNumber>,
    /// Position in the feed: this item and those before it include every event up to it.
    pub cursor: Option<StreamCursor>,
    /// Shard of a gap.
    pub shard: Option<ShardIndex>,
}

impl<R> Update<R> {
    /// Returns the update of an object.
    #[must_use]
    pub const fn of(kind: UpdateKind, id: Id, row: Option<R>) -> Self {
        Self { kind, id: Some(id), row, read: None, cursor: None, shard: None }
    }

    /// Returns the update of a list that is complete.
    #[must_use]
    pub const fn caught_up() -> Self {
        Self { kind: UpdateKind::CaughtUp, id: None, row: None, read: None, cursor: None, shard: None }
    }

    /// Returns the update for a shard whose changes may be missing.
    #[must_use]
    pub const fn gap(shard: ShardIndex) -> Self {
        Self { kind: UpdateKind::Gap, id: None, row: None, read: None, cursor: None, shard: Some(shard) }
    }
}

/// Position in the feed of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of the shard.
    pub shard: ShardIndex,
    /// Position in its feed.
    pub position: Position,
}

/// Result of reading an object that changed.
#[derive(Debug, Clone)]
pub enum Found<R> {
    /// Its current state.
    Row(R),
    /// It does not exist, or is not in the scope of the reader.
    Missing,
    /// Its shard can't be reached, or is too slow.
    Unavailable,
}

impl<R> Found<R> {
    /// Returns the results for objects, in the order of `ids`, of which each occurs once. Fails if a read met another fault
    /// than an unavailable shard.
    pub(super) fn all(ids: &[Id], mut rows: HashMap<Id, R>, failed: ReadFailures) -> Result<Vec<Self>> {
        let unreadable = |error: &ServiceError| error.unavailable().is_some() || error.timed_out().is_some();
        let down: HashSet<Id> = failed.iter().filter(|(_, error)| unreadable(error)).map(|(id, _)| *id).collect();
        if let Some(error) = failed.into_values().find(|error| !unreadable(error)) {
            return Err(field_error(error));
        }
        let result = |id: &Id| match rows.remove(id) {
            _ if down.contains(id) => Self::Unavailable,
            Some(row) => Self::Row(row),
            None => Self::Missing,
        };
        Ok(ids.iter().map(result).collect())
    }
}
