//! Events of one reader that wait for their large fields, and the later events of the same executions.
//!
//! Without this, one large event would delay all events of the reader while it is read from its shard: here it delays
//! only its own execution. The reader's cursor stays before the first event that waits, because a cursor after it would
//! skip it. A reader that reconnects with such a cursor gets the events that were delivered meanwhile again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::read::delivered::{Delivered, LiveEvent};
use crate::wire::cursor::{Position, StreamCursor};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;

/// Maximum number of events that wait. Then the reader waits for one of them.
const MAX_EVENTS: usize = 256;

/// Event that is complete.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) shard: ShardIndex,
    pub(super) position: Position,
    pub(super) live: LiveEvent,
}

/// Events of one reader that wait, and those that are complete.
#[derive(Debug, Default)]
pub(super) struct IncompleteEvents {
    /// Events of each execution, in order. The first one is being read.
    waiting: HashMap<Id, VecDeque<Arc<Delivered>>>,
    reads: FuturesUnordered<BoxFuture<'static, (Id, LiveEvent)>>,
    /// Complete events that were not delivered yet, in order.
    completed: VecDeque<Completed>,
}

impl IncompleteEvents {
    /// Returns true if there is no event.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.completed.is_empty()
    }

    /// Returns true if the reader must not receive more events.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty() && self.completed.len() + self.waiting.values().map(VecDeque::len).sum::<usize>() >= MAX_EVENTS
    }

    /// Returns true if there is an event of the shard.
    pub(super) fn has(&self, shard: ShardIndex) -> bool {
        self.first(shard).is_some()
    }

    /// Returns true if the event must wait: it is not complete, or an earlier one of its execution was not delivered.
    pub(super) fn delays(&self, delivered: &Delivered, live: &LiveEvent) -> bool {
        delivered.complete.is_some() || (!self.is_empty() && self.has_execution(live.event.execution_id))
    }

    /// Keeps an event until it and the earlier ones of its execution are complete.
    pub(super) fn add(&mut self, delivered: Arc<Delivered>, execution: Id) {
        let waiting = self.waiting.entry(execution).or_default();
        waiting.push_back(delivered);
        if waiting.len() == 1 {
            self.advance(execution);
        }
    }

    /// Returns the next event that is complete. Waits if there is none. Safe to cancel.
    pub(super) async fn next(&mut self) -> Option<Completed> {
        loop {
            if let Some(completed) = self.completed.pop_front() {
                return Some(completed);
            }
            let (execution, live) = self.reads.next().await?;
            if let Some(delivered) = self.waiting.get_mut(&execution).and_then(VecDeque::pop_front) {
                self.completed.push_back(Completed { shard: delivered.shard, position: delivered.position, live });
            }
            self.advance(execution);
        }
    }

    /// Returns a cursor that is before every event.
    pub(super) fn limit(&self, cursor: &StreamCursor) -> StreamCursor {
        let mut limited = cursor.clone();
        if !self.is_empty() {
            for (shard, position) in (0..).zip(&mut limited.positions) {
                let first = self.first(shard);
                let before = first.map(|first| Position { sequence: first.sequence.saturating_sub(1), ..first });
                *position = before.map_or(*position, |before| before.min(*position));
            }
        }
        limited
    }

    /// Moves the first events of an execution that are complete, and starts the read of the next one that is not.
    fn advance(&mut self, execution: Id) {
        let Some(waiting) = self.waiting.get_mut(&execution) else { return };
        while let Some(first) = waiting.front() {
            if let Some(complete) = &first.complete {
                let read = complete.read();
                self.reads.push(async move { (execution, read.await) }.boxed());
                return;
            }
            if let Some(live) = first.event.clone() {
                self.completed.push_back(Completed { shard: first.shard, position: first.position, live });
            }
            waiting.pop_front();
        }
        self.waiting.remove(&execution);
    }

    fn has_execution(&self, execution: Id) -> bool {
        self.waiting.contains_key(&execution)
            || self.completed.iter().any(|completed| completed.live.event.execution_id == execution)
    }

    /// Returns the position of the first event of a shard.
    fn first(&self, shard: ShardIndex) -> Option<Position> {
        let waiting = self.waiting.values().flatten().map(|event| (event.shard, event.position));
        let completed = self.completed.iter().map(|event| (event.shard, event.position));
        waiting.chain(completed).filter(|(of, _)| *of == shard).map(|(_, position)| position).min()
    }
}
