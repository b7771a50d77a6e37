//! The items of a feed as the steps of a reader that follows a list.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_graphql::Result;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep_until};

use super::Place;
use crate::errors::stream_unavailable;
use crate::live::read_error;
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_feed::read::reader::{Item, ReadError};
use noetl_feed::wire::cursor::StreamCursor;
use plain_json::Text;

/// Maximum number of objects whose changes are combined into one step.
const MAX_COMBINED: usize = 500;

/// Changes of one object.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The object.
    pub(super) id: Id,
    /// Its last delivered event. A later event of a log can have a smaller id.
    pub(super) event: Arc<Event<Text>>,
    /// Position of the last delivered event.
    pub(super) place: Place,
    /// Whether all events were published before the reader joined the feed.
    pub(super) replayed: bool,
}

/// Changes that a reader received at one time.
#[derive(Debug)]
pub(super) struct Step {
    /// Changed objects, by id.
    pub(super) changes: BTreeMap<Id, Change>,
    /// Gaps in the feed.
    pub(super) gaps: Vec<Place>,
    /// Position after the step.
    pub(super) cursor: StreamCursor,
}

/// The feed of a reader.
pub(super) struct Steps {
    feed: BoxStream<'static, Result<Item, ReadError>>,
    /// First item, which shows that the reader has joined the feed.
    first: Option<Item>,
    cursor: StreamCursor,
    caught_up: bool,
}

impl Steps {
    /// Joins the feed: every later event will be received.
    pub(super) async fn join(mut feed: BoxStream<'static, Result<Item, ReadError>>) -> Result<Self> {
        let first = feed.try_next().await.map_err(read_error)?.ok_or_else(stream_unavailable)?;
        let cursor = first.cursor().clone();
        Ok(Self { feed, first: Some(first), cursor, caught_up: false })
    }

    /// Returns whether all events that were published before the reader joined the feed were received.
    pub(super) fn is_caught_up(&self) -> bool {
        self.caught_up
    }

    /// Returns the position in the feed.
    pub(super) fn cursor(&self) -> &StreamCursor {
        &self.cursor
    }

    /// Waits for the next items, at most until `retry_at`. With `combine`, all items that have arrived are one step.
    pub(super) async fn next(&mut self, retry_at: Option<Instant>, combine: bool) -> Result<Step> {
        let mut step = Step { changes: BTreeMap::new(), gaps: Vec::new(), cursor: self.cursor.clone() };
        let item = if let Some(item) = self.first.take() {
            item
        } else {
            tokio::select! {
                item = self.feed.try_next() => item.map_err(read_error)?.ok_or_else(stream_unavailable)?,
                () = wait_until(retry_at) => return Ok(step),
            }
        };
        self.add(&mut step, item);
        while combine
            && step.changes.len() < MAX_COMBINED
            && let Some(item) = self.feed.next().now_or_never()
        {
            self.add(&mut step, item.ok_or_else(stream_unavailable)?.map_err(read_error)?);
        }
        step.cursor = self.cursor.clone();
        Ok(step)
    }

    fn add(&mut self, step: &mut Step, item: Item) {
        self.cursor = item.cursor().clone();
        match item {
            Item::Event { live, shard, position, .. } => {
                let (id, place) = (live.event.execution_id, Place { shard, position });
                let change = step.changes.entry(id).or_insert_with(|| Change {
                    id,
                    event: Arc::clone(&live.event),
                    place,
                    replayed: true,
                });
                change.replayed &= !self.caught_up;
                // An object's later events are in another shard's feed after its bucket has moved.
                change.place = if change.place.shard == shard {
                    Place { shard, position: change.place.position.max(position) }
                } else {
                    place
                };
                change.event = live.event;
            }
            // The list is read after the replay, so it has what the replay lacks.
            Item::Gap { shard, gap, .. } if self.caught_up => {
                step.gaps.push(Place { shard, position: gap.position });
            }
            Item::CaughtUp { .. } => self.caught_up = true,
            Item::Gap { .. } | Item::Heartbeat { .. } => {}
        }
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
