//! Feed of one shard for one reader: stored messages up to the hub's head, then live events from the hub. Both ends of
//! the transition are positions of the stream, so no event is missed there, and none comes twice.
//!
//! From the hub, a reader takes only the events that it follows. All others between them directly follow each other, so
//! the position of an event is also the reader's position before it. If the hub's next event does not directly follow
//! the one before it, or the reader's position, the reader replays from the stream. This happens when its next event
//! was overwritten in the hub's ring, when events are missing, or when the epoch changed. Only the stream shows which
//! events are gone. While the broker can't be reached, the reader waits.

use std::time::Duration;

use async_stream::stream;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::time::sleep;

use crate::read::error::ReadError;
use crate::read::gap::{Gap, GapReason};
use crate::read::hub::Hub;
use crate::read::interests::Interest;
use crate::read::replay::{self, ShardItem, Since};
use crate::read::reset;
use crate::read::ring::RingReader;
use crate::wire::cursor::Position;
use noetl_domain::feed::FeedTag;
use noetl_domain::shard::ShardIndex;

/// Mean time before a replay that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Start position of a reader in one shard.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShardStart {
    Beginning,
    Latest,
    After { at: Position, feed: Option<FeedTag> },
    Since(Since),
}

/// Reader that has joined the hub and has a start position.
#[derive(Debug)]
pub(super) struct Joined {
    live: RingReader,
    head: Position,
    /// Position of the reader.
    pub(super) at: Position,
    /// Gap that is delivered before the first event.
    gap: Option<Gap>,
}

/// Waits until the hub has found the stream, and joins it.
pub(super) async fn join(hub: &Hub, shard: ShardIndex, from: ShardStart, interest: Interest) -> Joined {
    let (head, live) = hub.register(shard, interest).await;
    let (at, gap) = start(hub, shard, from, head).await;
    Joined { live, head, at, gap }
}

/// Returns the items of one shard, without end and with one [`ShardItem::CaughtUp`]. If `joined` is `None`, the stream
/// was not found yet; the reader then waits for it without delaying the other shards.
pub(super) fn read_shard(
    hub: Hub,
    shard: ShardIndex,
    from: ShardStart,
    interest: Interest,
    joined: Option<Joined>,
) -> BoxStream<'static, (ShardIndex, ShardItem)> {
    let items = stream! {
        let joined = match joined {
            Some(joined) => joined,
            None => join(&hub, shard, from, interest.clone()).boxed().await,
        };
        let Joined { mut live, head: mut until, mut at, gap } = joined;
        if let Some(gap) = gap {
            yield ShardItem::Gap(gap);
        }
        let mut missing = GapReason::Retention;
        let mut caught_up = false;
        loop {
            while at < until {
                let before = at;
                // Boxed, so that it uses memory only during a replay: readers are many, and live for most of their
                // time.
                let mut replayed = replay::replay(hub.stored(shard), &interest, at, until, missing).boxed();
                let ended = loop {
                    match replayed.try_next().await {
                        Ok(Some(item)) => {
                            at = item.position();
                            yield item;
                        }
                        Ok(None) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                };
                match ended {
                    Ok(()) => break,
                    Err(error) => wait(&error, at > before).await,
                }
            }
            if !caught_up {
                caught_up = true;
                yield ShardItem::CaughtUp(at, live.place());
            }
            // Whether the reader has received every event before its place in the ring that it follows. Otherwise it
            // needs the next event of any kind to notice the gap.
            let mut complete = at >= until;
            until = loop {
                live.set_live(complete);
                let Ok(entry) = live.next(!complete).await else {
                    missing = GapReason::SlowConsumer;
                    metrics::counter!("noetl_stream_readers_lagged_total").increment(1);
                    break live.skip();
                };
                if complete {
                    at = at.max(entry.before);
                }
                let position = entry.delivered.position;
                if position > at && !at.precedes(position) {
                    missing = GapReason::Retention;
                    break position;
                }
                complete = true;
                if position > at {
                    at = position;
                    yield ShardItem::Delivered(entry.delivered);
                }
            };
            at = at.max(live.set_live(false));
        }
    };
    items.map(move |item| (shard, item)).boxed()
}

/// Returns the start position of a reader, and the gap that is delivered before the first event.
async fn start(hub: &Hub, shard: ShardIndex, from: ShardStart, head: Position) -> (Position, Option<Gap>) {
    loop {
        let found = match from {
            ShardStart::Latest => return (head, None),
            ShardStart::After { at, feed } => reset::check(hub, shard, at, feed, head).await,
            ShardStart::Beginning => replay::beginning(hub.stored(shard)).await.map(|at| (at, None)),
            ShardStart::Since(since) => replay::since(hub.stored(shard), since, head).await,
        };
        match found {
            Ok(start) => return start,
            Err(error) => wait(&error, false).await,
        }
    }
}

/// Waits before a replay is tried again, unless it has advanced. The times of several readers differ.
async fn wait(error: &ReadError, advanced: bool) {
    if advanced {
        tracing::debug!(%error, "a replay was interrupted and continues");
    } else {
        tracing::warn!(%error, "a replay was interrupted and will be retried");
        let share = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
        sleep(AFTER_FAILURE.mul_f64(0.5 + share)).await;
    }
}
