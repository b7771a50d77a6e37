//! Events of one reader that wait for their large fields, and the later events of the same executions.
//!
//! So a large event delays only its own execution: the reader delivers the events of other executions meanwhile. The
//! reader's cursor stays before the first event that is held, because a cursor after it would skip it. A reader that
//! reconnects with such a cursor gets the events that were delivered meanwhile again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::read::delivered::{Delivered, LiveEvent};
use crate::wire::cursor::{Position, StreamCursor};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;

/// Maximum number of events that a reader holds. Then it waits for one of them.
const MAX_HELD: usize = 256;

/// Event that is complete.
#[derive(Debug)]
pub(super) struct Released {
    pub(super) shard: ShardIndex,
    pub(super) position: Position,
    pub(super) live: LiveEvent,
}

/// Held events of one reader.
#[derive(Debug, Default)]
pub(super) struct HeldEvents {
    /// Events of each execution, in order. The first one is being read.
    waiting: HashMap<Id, VecDeque<Arc<Delivered>>>,
    reads: FuturesUnordered<BoxFuture<'static, (Id, LiveEvent)>>,
    /// Complete events that were not delivered yet, in order.
    released: VecDeque<Released>,
}

impl HeldEvents {
    /// Returns true if no event is held.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.released.is_empty()
    }

    /// Returns true if the reader must not receive more events.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty() && self.released.len() + self.waiting.values().map(VecDeque::len).sum::<usize>() >= MAX_HELD
    }

    /// Returns true if an event of the shard is held.
    pub(super) fn holds(&self, shard: ShardIndex) -> bool {
        self.first(shard).is_some()
    }

    /// Returns true if the event must be held: it is not complete, or an earlier one of its execution is held.
    pub(super) fn concerns(&self, delivered: &Delivered, live: &LiveEvent) -> bool {
        delivered.complete.is_some() || (!self.is_empty() && self.holds_execution(live.event.execution_id))
    }

    /// Holds an event until it and the earlier ones of its execution are complete.
    pub(super) fn hold(&mut self, delivered: Arc<Delivered>, execution: Id) {
        let waiting = self.waiting.entry(execution).or_default();
        waiting.push_back(delivered);
        if waiting.len() == 1 {
            self.release(execution);
        }
    }

    /// Returns the next event that is complete. Waits if there is none. Safe to cancel.
    pub(super) async fn next(&mut self) -> Option<Released> {
        loop {
            if let Some(released) = self.released.pop_front() {
                return Some(released);
            }
            let (execution, live) = self.reads.next().await?;
            if let Some(delivered) = self.waiting.get_mut(&execution).and_then(VecDeque::pop_front) {
                self.released.push_back(Released { shard: delivered.shard, position: delivered.position, live });
            }
            self.release(execution);
        }
    }

    /// Returns a cursor that is before every held event.
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

    /// Releases the first events of an execution that are complete, and starts the read of the next one that is not.
    fn release(&mut self, execution: Id) {
        let Some(waiting) = self.waiting.get_mut(&execution) else { return };
        while let Some(first) = waiting.front() {
            if let Some(complete) = &first.complete {
                let read = complete.read();
                self.reads.push(async move { (execution, read.await) }.boxed());
                return;
            }
            if let Some(live) = first.event.clone() {
                self.released.push_back(Released { shard: first.shard, position: first.position, live });
            }
            waiting.pop_front();
        }
        self.waiting.remove(&execution);
    }

    fn holds_execution(&self, execution: Id) -> bool {
        self.waiting.contains_key(&execution)
            || self.released.iter().any(|released| released.live.event.execution_id == execution)
    }

    /// Returns the position of the first held event of a shard.
    fn first(&self, shard: ShardIndex) -> Option<Position> {
        let waiting = self.waiting.values().flatten().map(|held| (held.shard, held.position));
        let released = self.released.iter().map(|held| (held.shard, held.position));
        waiting.chain(released).filter(|(of, _)| *of == shard).map(|(_, position)| position).min()
    }
}
