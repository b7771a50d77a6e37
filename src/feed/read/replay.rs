//! Replay of one shard's stored messages between two positions. Missing messages are reported as gaps.

use std::sync::Arc;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_stream::try_stream;
use chrono::{DateTime, Utc};
use futures::Stream;

use crate::feed::read::delivered::{Delivered, decode};
use crate::feed::read::error::ReadError;
use crate::feed::read::gap::{Gap, GapReason, between};
use crate::feed::read::hub::Hub;
use crate::feed::read::source::{Extent, ShardStream};
use crate::feed::wire::cursor::Position;
use noetl_domain::shard::ShardIndex;

/// Range to replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// Position of the reader.
    pub(super) at: Position,
    /// Last position.
    pub(super) until: Position,
    /// Cause to report for messages that the stream does not hold.
    pub(super) missing: GapReason,
}

/// Item of a replay.
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

/// Replays a range, as far as the stream holds it. Ends before the first message of a later epoch than the range's: the
/// hub delivers that epoch next.
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
                // If the stream reaches the end of the range, the messages that were not delivered are gone. Otherwise
                // the broker lost them, and the next epoch reports that.
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
                let delivered = decode(hub.databases(), &stream, at, &message).await?;
                if delivered.position <= at {
                    continue;
                }
                if delivered.position.epoch > until.epoch {
                    return;
                }
                if !at.precedes(delivered.position) {
                    let first = stream.check_epoch(at, delivered.position).await?.first;
                    for gap in between(at, delivered.position, first, missing) {
                        yield Replayed::Gap(gap.with(delivered.discard));
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

/// Returns the sequence after which a reader at `at` continues: its own, or, if a later epoch begins below it, the
/// sequence before that epoch's first message.
async fn resume(stream: &ShardStream, at: Position, until: Position, extent: Extent) -> Result<u64, ReadError> {
    if at.epoch >= until.epoch {
        return Ok(at.sequence);
    }
    stream.resume(at, extent).await
}

/// Returns the position before the first message that the stream holds.
pub(super) async fn beginning(hub: &Hub, shard: ShardIndex) -> Result<Position, ReadError> {
    let extent = hub.stream(shard).await?.extent().await?;
    Ok(Position { epoch: 0, sequence: extent.first - 1 })
}

/// Time of publication from which a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// Earliest time of publication.
    pub time: DateTime<Utc>,
    /// Time of the request.
    pub now: DateTime<Utc>,
}

/// Returns the position before the first message that was published at a time or later, with a gap if earlier ones from
/// that time on may have expired. If the stream holds no such message, returns the later of its end and `head`, the
/// hub's position.
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
    // The extent is read again after the first message was found, because a busy stream removes messages meanwhile.
    let gone = place.sequence > 0
        && stream.may_have_dropped(since.time, since.now)
        && stream.extent().await?.first >= first.sequence;
    let gap = Gap { from: 1, to: place.sequence, reason: GapReason::Retention, position: place };
    Ok((place, gone.then_some(gap)))
}
