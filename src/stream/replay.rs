//! One shard's stored messages from a place up to another, with a word on each that is missing.

use std::sync::Arc;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_stream::try_stream;
use chrono::{DateTime, Utc};
use futures::Stream;

use super::cursor::Position;
use super::delivered::{Delivered, decode};
use super::gap::{Gap, GapReason, between};
use super::hub::Hub;
use super::source::{Extent, ReadError, ShardStream};
use crate::domain::shard::ShardIndex;

/// What is to be replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// Where the reader stands.
    pub(super) at: Position,
    /// The last place.
    pub(super) until: Position,
    /// What to say of messages that the stream does not hold.
    pub(super) missing: GapReason,
}

/// What a replay gives.
#[derive(Debug)]
pub(super) enum Replayed {
    Delivered(Arc<Delivered>),
    Gap(Gap),
}

impl Replayed {
    pub(super) fn position(&self) -> Position {
        match self {
            Self::Delivered(delivered) => delivered.position,
            Self::Gap(gap) => gap.position,
        }
    }
}

/// Replays a range, as far as the stream holds it. What belongs to a later epoch than the range's end is left for those who
/// know of that epoch.
pub(super) fn replay(
    hub: &Hub,
    shard: ShardIndex,
    range: Range,
) -> impl Stream<Item = Result<Replayed, ReadError>> + Send + '_ {
    try_stream! {
        metrics::counter!("noetl_stream_replays_total").increment(1);
        let Range { mut at, until, missing } = range;
        let stream = hub.stream(shard).await?;
        let extent = stream.extent().await?;
        let start = resume(&stream, at, until, extent).await? + 1;
        let mut pages = stream.pages(DeliverPolicy::ByStartSequence { start_sequence: start }).await?;
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                // Where the stream goes beyond the range, what did not come is gone; else the broker lost it, and says so
                // under its next epoch.
                if extent.last >= until.sequence {
                    stream.check_gone(at, until).await?;
                    let end = Position { sequence: until.sequence + 1, ..until };
                    for gap in between(at, end, extent.first, missing) {
                        yield Replayed::Gap(gap);
                    }
                }
                return;
            }
            for message in page {
                let delivered = decode(hub.databases(), shard, at, &message).await?;
                if delivered.position <= at {
                    continue;
                }
                if delivered.position.epoch > until.epoch {
                    return;
                }
                if !at.precedes(delivered.position) {
                    let first = stream.check_epoch(at, delivered.position).await?.first;
                    for gap in between(at, delivered.position, first, missing) {
                        yield Replayed::Gap(gap);
                    }
                }
                at = delivered.position;
                yield Replayed::Delivered(Arc::new(delivered));
                if at >= until {
                    return;
                }
            }
        }
    }
}

/// Behind which sequence a reader at `at` goes on: its own, or, where later epochs began below it, their beginning.
async fn resume(stream: &ShardStream, at: Position, until: Position, extent: Extent) -> Result<u64, ReadError> {
    if at.epoch >= until.epoch {
        return Ok(at.sequence);
    }
    stream.resume(at, extent).await
}

/// The place before the first message that the stream holds.
pub(super) async fn beginning(hub: &Hub, shard: ShardIndex) -> Result<Position, ReadError> {
    let extent = hub.stream(shard).await?.extent().await?;
    Ok(Position { epoch: 0, sequence: extent.first - 1 })
}

/// A time from which on a reader wants what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// The time.
    pub time: DateTime<Utc>,
    /// The time at which it is asked for.
    pub now: DateTime<Utc>,
}

/// The place before the first message that was published at a time or later, the stream's end when there is none; with a
/// gap before it if messages from that time on may be gone. The hub, which stands at `head`, may be behind.
pub(super) async fn since(
    hub: &Hub,
    shard: ShardIndex,
    since: Since,
    head: Position,
) -> Result<(Position, Option<Gap>), ReadError> {
    let stream = hub.stream(shard).await?;
    let extent = stream.extent().await?;
    let Some(first) = stream.first_since(since.time, extent).await? else {
        return Ok((stream.end(extent).await?.max(head), None));
    };
    let place = Position { sequence: first.sequence - 1, ..first };
    // Looked at behind the first message: a busy stream drops others meanwhile.
    let gone = place.sequence > 0
        && stream.may_have_dropped(since.time, since.now)
        && stream.extent().await?.first >= first.sequence;
    let gap = Gap { from: 1, to: place.sequence, reason: GapReason::Retention, position: place };
    Ok((place, gone.then_some(gap)))
}
