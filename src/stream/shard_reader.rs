//! One shard's feed for one reader: stored messages up to where the hub stood, then the hub's.
//!
//! Whatever does not follow on what the reader has is fetched from the stream, which alone knows what is gone: a reader
//! that fell out of the hub's ring, a hole, a new epoch. A broker that can't be reached makes the reader wait.

use std::time::Duration;

use async_stream::stream;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tokio::time::sleep;

use super::cursor::Position;
use super::gap::{Gap, GapReason};
use super::hub::Hub;
use super::replay::{self, Range, Replayed, Since};
use super::ring::{FellOut, Place};
use super::source::ReadError;
use crate::domain::shard::ShardIndex;

const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// Where a reader of a shard starts.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    Beginning,
    Latest,
    After(Position),
    Since(Since),
}

/// What one shard gives.
#[derive(Debug)]
pub(super) enum ShardItem {
    Replayed(Replayed),
    CaughtUp(Position),
}

impl ShardItem {
    /// The place behind it.
    pub(super) fn position(&self) -> Position {
        match self {
            Self::Replayed(replayed) => replayed.position(),
            Self::CaughtUp(position) => *position,
        }
    }
}

/// A reader that has its place: at the hub, and where it starts.
#[derive(Debug)]
pub(super) struct Joined {
    live: Place,
    head: Position,
    /// Where the reader stands.
    pub(super) at: Position,
    /// What it must be told before anything else.
    gap: Option<Gap>,
}

/// Waits until the hub has found the stream, and joins it.
pub(super) async fn join(hub: &Hub, shard: ShardIndex, from: From) -> Joined {
    let (head, live) = hub.register(shard).await;
    let (at, gap) = start(hub, shard, from, head).await;
    Joined { live, head, at, gap }
}

/// Reads one shard for ever. Says once that it has caught up. `None`: the stream was not found yet, and the other shards
/// don't wait for it.
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
                // On the heap only as long as it takes: readers are live for most of their time, and many.
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
                    Err(FellOut) => {
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

/// Where a reader stands at first, and the gap that it is told of before anything else.
async fn start(hub: &Hub, shard: ShardIndex, from: From, head: Position) -> (Position, Option<Gap>) {
    loop {
        let found = match from {
            From::Latest => return (head, None),
            From::After(at) => return (at, None),
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
    tracing::debug!(%error, advanced, "a replay pauses");
    if !advanced {
        sleep(AFTER_FAILURE).await;
    }
}
