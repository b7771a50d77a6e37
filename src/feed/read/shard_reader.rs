//! Feed of one shard for one reader: stored messages up to the hub's head, then live events from the hub.
//!
//! If the hub's next event does not directly follow the reader's position, the reader replays from the stream. This
//! happens when its next event was overwritten in the hub's ring, when events are missing, or when the epoch changed.
//! Only the stream shows which events are gone. While the broker can't be reached, the reader waits.

use std::time::Duration;

use async_stream::stream;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::time::sleep;

use crate::feed::read::error::ReadError;
use crate::feed::read::gap::{Gap, GapReason};
use crate::feed::read::hub::Hub;
use crate::feed::read::replay::{self, Range, Replayed, Since};
use crate::feed::read::reset;
use crate::feed::read::ring::{Overwritten, RingReader};
use crate::feed::wire::cursor::Position;
use noetl_domain::feed::FeedTag;
use noetl_domain::shard::ShardIndex;

const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Start position of a reader in one shard.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    Beginning,
    Latest,
    After { at: Position, feed: Option<FeedTag> },
    Since(Since),
}

/// Item of one shard's feed.
#[derive(Debug)]
pub(super) enum ShardItem {
    Replayed(Replayed),
    CaughtUp(Position),
}

impl ShardItem {
    /// Returns the position after the item.
    pub(super) fn position(&self) -> Position {
        match self {
            Self::Replayed(replayed) => replayed.position(),
            Self::CaughtUp(position) => *position,
        }
    }
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
pub(super) async fn join(hub: &Hub, shard: ShardIndex, from: From) -> Joined {
    let (head, live) = hub.register(shard).await;
    let (at, gap) = start(hub, shard, from, head).await;
    Joined { live, head, at, gap }
}

/// Returns the items of one shard, without end and with one [`ShardItem::CaughtUp`]. If `joined` is `None`, the stream
/// was not found yet; the reader then waits for it without delaying the other shards.
pub(super) fn read_shard(
    hub: Hub,
    shard: ShardIndex,
    from: From,
    joined: Option<Joined>,
) -> BoxStream<'static, (ShardIndex, ShardItem)> {
    let items = stream! {
        let joined = match joined {
            Some(joined) => joined,
            None => join(&hub, shard, from).boxed().await,
        };
        let Joined { mut live, head: mut until, mut at, gap } = joined;
        if let Some(gap) = gap {
            yield ShardItem::Replayed(Replayed::Gap(gap));
        }
        let mut missing = GapReason::Retention;
        let mut caught_up = false;
        loop {
            while at < until {
                let before = at;
                let range = Range { at, until, missing };
                // Boxed, so that it uses memory only during a replay: readers are many, and live for most of their
                // time.
                let mut replayed = replay::replay(&hub, shard, range).boxed();
                let ended = loop {
                    match replayed.try_next().await {
                        Ok(Some(item)) => {
                            at = item.position();
                            yield ShardItem::Replayed(item);
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
                yield ShardItem::CaughtUp(at);
            }
            until = loop {
                match live.next().await {
                    Ok(delivered) if delivered.position <= at => {}
                    Ok(delivered) if at.precedes(delivered.position) => {
                        at = delivered.position;
                        yield ShardItem::Replayed(Replayed::Delivered(delivered));
                    }
                    Ok(delivered) => {
                        missing = GapReason::Retention;
                        break delivered.position;
                    }
                    Err(Overwritten) => {
                        missing = GapReason::SlowConsumer;
                        metrics::counter!("noetl_stream_readers_lagged_total").increment(1);
                        let (head, place) = hub.register(shard).await;
                        live = place;
                        break head;
                    }
                }
            };
        }
    };
    items.map(move |item| (shard, item)).boxed()
}

/// Returns the start position of a reader, and the gap that is delivered before the first event.
async fn start(hub: &Hub, shard: ShardIndex, from: From, head: Position) -> (Position, Option<Gap>) {
    loop {
        let found = match from {
            From::Latest => return (head, None),
            From::After { at, feed } => reset::check(hub, shard, at, feed, head).await,
            From::Beginning => replay::beginning(hub, shard).await.map(|at| (at, None)),
            From::Since(since) => replay::since(hub, shard, since, head).await,
        };
        match found {
            Ok(start) => return start,
            Err(error) => wait(&error, false).await,
        }
    }
}

async fn wait(error: &ReadError, advanced: bool) {
    tracing::debug!(%error, advanced, "a replay was interrupted and will be retried");
    if !advanced {
        sleep(AFTER_FAILURE).await;
    }
}
