//! Streams of one reader whose next event must wait, because its bucket has moved and the reader has not passed the end
//! of the stream that the bucket left. Without this, the events of a moved bucket would come out of order. The rest of
//! a waiting stream is not read, so the memory is bounded.
//!
//! If the other stream has lost data, its end may be before the barrier for ever. Then the reader gets a gap, and does
//! not wait. While the broker can't be reached, it waits.

use std::collections::HashSet;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::time::{Instant, sleep, timeout};

use crate::read::gap::{Gap, GapReason};
use crate::read::hub::Hub;
use crate::read::precedence::{Precedence, Wait, has_passed};
use crate::read::replay::ShardItem;
use crate::wire::cursor::{Position, StreamCursor};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;

/// Time between two comparisons of the positions with the barriers.
const COMPARE_EVERY: Duration = Duration::from_millis(20);
/// Time after which the end of the other stream is compared with the barrier, and between two such comparisons. A server
/// that just became the leader of a replicated stream may respond before it has read all of it.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time between two requests for a new map.
const READ_MAP_EVERY: Duration = Duration::from_millis(250);
/// Time after which an event is delivered although the map does not say where its bucket was. So a cluster database that
/// is down delays the events of a move only.
const MAX_MAP_DELAY: Duration = Duration::from_secs(10);

/// Stream of one shard.
pub(super) type ShardFeed = BoxStream<'static, (ShardIndex, ShardItem)>;

/// Item of a shard's stream, and the rest of the stream.
pub(super) struct Received {
    pub(super) shard: ShardIndex,
    pub(super) item: ShardItem,
    pub(super) feed: ShardFeed,
}

/// Next step of the waiting streams.
pub(super) enum Next {
    /// An item no longer waits.
    Item(Box<Received>),
    /// A stream ends before a barrier, so it has lost events.
    Gap(ShardIndex, Gap),
    /// Nothing has changed.
    None,
}

/// The waiting streams of one reader.
#[derive(Default)]
pub(super) struct WaitingStreams {
    waiting: Vec<Waiting>,
    /// Barriers of streams that have lost data.
    lost: HashSet<Wait>,
}

struct Waiting {
    received: Received,
    execution: Id,
    precedence: Precedence,
    check: BoxFuture<'static, Check>,
}

/// Result of a check.
enum Check {
    /// The event's precedence by the new map.
    Precedence(Precedence),
    /// A stream that ends before the barrier.
    Lost(Wait),
}

impl WaitingStreams {
    /// Returns true if no stream waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if the stream of the shard waits.
    pub(super) fn has(&self, shard: ShardIndex) -> bool {
        self.waiting.iter().any(|one| one.received.shard == shard)
    }

    /// Adds an item if it must wait. Returns it if not.
    pub(super) fn add_or_return(&mut self, received: Received, hub: &Hub, cursor: &StreamCursor) -> Option<Received> {
        let Some((execution, precedence)) = received.item.precedence() else { return Some(received) };
        if self.is_passed(&precedence, hub, cursor) {
            return Some(received);
        }
        metrics::counter!("noetl_stream_order_waits_total").increment(1);
        let check = check(hub.clone(), &received, execution, &precedence);
        self.waiting.push(Waiting { received, execution, precedence, check });
        None
    }

    /// Returns the next step.
    pub(super) fn next(&mut self, hub: &Hub, cursor: &StreamCursor) -> Next {
        for index in 0..self.waiting.len() {
            let one = &mut self.waiting[index];
            match (&mut one.check).now_or_never() {
                Some(Check::Precedence(precedence)) => {
                    one.check = check(hub.clone(), &one.received, one.execution, &precedence);
                    one.precedence = precedence;
                }
                Some(Check::Lost(wait)) => {
                    one.check = check(hub.clone(), &one.received, one.execution, &one.precedence);
                    self.lost.insert(wait);
                    let at = cursor.positions.get(usize::from(wait.shard)).copied().unwrap_or_default();
                    let (from, to) = (at.sequence + 1, wait.position.sequence);
                    tracing::warn!(
                        shard = wait.shard,
                        from,
                        to,
                        "the stream ends before the events of a bucket that has left the shard"
                    );
                    return Next::Gap(wait.shard, Gap { from, to, reason: GapReason::Retention, position: at });
                }
                None => {}
            }
            if self.is_passed(&self.waiting[index].precedence, hub, cursor) {
                return Next::Item(Box::new(self.waiting.swap_remove(index).received));
            }
        }
        Next::None
    }

    /// Returns whether the reader has passed every position that it must pass before an event.
    fn is_passed(&self, precedence: &Precedence, hub: &Hub, cursor: &StreamCursor) -> bool {
        let Precedence::Waits(waits) = precedence else { return *precedence == Precedence::Stream };
        waits.iter().all(|wait| {
            // A stream that waits itself has delivered everything before its next item.
            let next = self.waiting.iter().find(|one| one.received.shard == wait.shard);
            let before = next.map(|one| before(one.received.item.position()));
            let at = cursor.positions.get(usize::from(wait.shard)).copied().unwrap_or_default();
            let other_feed = hub.identity(wait.shard).is_some_and(|feed| feed != wait.feed);
            has_passed(at, wait.position)
                || before.is_some_and(|before| has_passed(before, wait.position))
                || other_feed
                || self.lost.contains(wait)
        })
    }
}

/// Waits until the positions must be compared again. Safe to cancel.
pub(super) async fn next_comparison() {
    sleep(COMPARE_EVERY).await;
}

fn before(position: Position) -> Position {
    Position { sequence: position.sequence.saturating_sub(1), ..position }
}

/// Returns a check of an item that waits.
fn check(hub: Hub, received: &Received, execution: Id, precedence: &Precedence) -> BoxFuture<'static, Check> {
    let (shard, position) = (received.shard, received.item.position());
    match precedence {
        Precedence::Outdated => {
            async move { Check::Precedence(current(&hub, shard, position, execution).await) }.boxed()
        }
        Precedence::Waits(waits) => {
            let waits = waits.clone();
            async move {
                loop {
                    sleep(CHECK_EVERY).await;
                    for wait in waits.iter() {
                        if is_lost(&hub, *wait).await {
                            sleep(CHECK_EVERY).await;
                            if is_lost(&hub, *wait).await {
                                return Check::Lost(*wait);
                            }
                        }
                    }
                }
            }
            .boxed()
        }
        Precedence::Stream => futures::future::pending().boxed(),
    }
}

/// Waits until the map says where the bucket was. All readers wait for the same read of the map.
async fn current(hub: &Hub, shard: ShardIndex, position: Position, execution: Id) -> Precedence {
    let begun = Instant::now();
    loop {
        let map = hub.databases().map();
        let precedence = Precedence::of(&map, shard, position, execution);
        if precedence != Precedence::Outdated {
            return precedence;
        }
        hub.databases().request_new_map();
        if begun.elapsed() > MAX_MAP_DELAY {
            tracing::warn!(shard, %execution, "an event of a bucket that is being moved is delivered without its order");
            return Precedence::Stream;
        }
        // No new map within the time: it is requested again.
        drop(timeout(READ_MAP_EVERY, hub.databases().map_changed(map.version())).await);
    }
}

/// Returns whether a stream ends before a barrier. False if the broker does not say so.
async fn is_lost(hub: &Hub, wait: Wait) -> bool {
    match hub.stored(wait.shard).end().await {
        Ok(end) => !has_passed(end, wait.position),
        Err(error) => error.missing,
    }
}
