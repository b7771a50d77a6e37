//! Replay of one shard's stored messages between two positions. Missing messages are reported as gaps. Without it, a
//! reader would miss the events between its cursor and the hub's position, and a slow one those that the ring no longer
//! has.

use std::sync::Arc;

use async_stream::try_stream;
use chrono::{DateTime, Utc};
use futures::Stream;

use crate::read::delivered::Delivered;
use crate::read::error::ReadError;
use crate::read::gap::{Gap, GapReason, between};
use crate::read::interests::Interest;
use crate::read::precedence::Precedence;
use crate::read::ring::Place;
use crate::read::source::Extent;
use crate::read::stored::{Found, StoredFeed};
use crate::wire::cursor::Position;
use noetl_domain::ids::Id;

/// Item of one shard's feed.
#[derive(Debug)]
pub(super) enum ShardItem {
    Delivered(Arc<Delivered>),
    Gap(Gap),
    /// The reader follows no message up to this position.
    Passed(Position),
    /// The reader has reached the hub's position, and has this place in the hub's ring from now on. No replay has it.
    CaughtUp(Position, Arc<Place>),
}

impl ShardItem {
    /// Returns the position after the item.
    pub(super) fn position(&self) -> Position {
        match self {
            Self::Delivered(delivered) => delivered.position,
            Self::Gap(gap) => gap.position,
            Self::Passed(position) | Self::CaughtUp(position, _) => *position,
        }
    }

    /// Returns the execution of an event of a bucket that has moved, and what a reader must have received before it.
    pub(super) fn precedence(&self) -> Option<(Id, Precedence)> {
        let Self::Delivered(delivered) = self else { return None };
        let execution = delivered.event.as_ref()?.event.execution_id;
        (delivered.precedence != Precedence::Stream).then(|| (execution, delivered.precedence.clone()))
    }
}

/// Replays the messages after `at` up to `until` that the reader follows, as far as the stream holds them; `missing` is
/// the cause to report for the others. Ends before the first message of a later epoch than that of `until`: the hub
/// delivers that epoch next.
pub(super) fn replay<'a>(
    stored: &'a StoredFeed,
    interest: &'a Interest,
    at: Position,
    until: Position,
    missing: GapReason,
) -> impl Stream<Item = Result<ShardItem, ReadError>> + Send + 'a {
    try_stream! {
        metrics::counter!("noetl_stream_replays_total").increment(1);
        let mut at = at;
        let stream = stored.stream().await?;
        let extent = stream.opened_extent();
        // Kept pages may still have messages that the stream has removed; their readers get a gap.
        let mut next = (resume(stored, at, until, extent).await? + 1).max(extent.first);
        loop {
            let page = stored.page(next).await?;
            if page.messages.is_empty() {
                // If the stream reaches the end of the range, the messages that were not delivered are gone. Otherwise
                // the broker lost them, and the next epoch reports that.
                if extent.last >= until.sequence {
                    stream.check_gone(at, until).await?;
                    let end = Position { sequence: until.sequence + 1, ..until };
                    for gap in between(at, end, extent.first, missing) {
                        yield ShardItem::Gap(gap);
                    }
                }
                return;
            }
            let mut passed = false;
            for message in page.messages_from(next) {
                let delivered = in_epoch(message, at.epoch);
                let position = delivered.position;
                if position <= at {
                    continue;
                }
                if position.epoch > until.epoch {
                    return;
                }
                if !at.precedes(position) {
                    let first = check_epoch(stored, at, position).await?.first;
                    for gap in between(at, position, first, missing) {
                        yield ShardItem::Gap(gap.with(delivered.discard));
                    }
                }
                at = position;
                passed = !delivered.event.as_ref().is_some_and(|live| interest.includes(&live.event));
                if !passed {
                    yield ShardItem::Delivered(delivered);
                }
                if at >= until {
                    break;
                }
            }
            if passed {
                yield ShardItem::Passed(at);
            }
            if at >= until {
                return;
            }
            next = page.next;
        }
    }
}

/// Returns a message of a page with its epoch: without a mark, that of the message before it.
fn in_epoch(message: &Arc<Delivered>, epoch: u32) -> Arc<Delivered> {
    if message.position.epoch > 0 || epoch == 0 {
        return Arc::clone(message);
    }
    let position = Position { epoch, ..message.position };
    Arc::new(Delivered { position, ..Delivered::clone(message) })
}

/// Returns the sequence after which a reader at `at` continues: its own, or, if a later epoch begins below it, the
/// sequence before that epoch's first message.
async fn resume(stored: &StoredFeed, at: Position, until: Position, extent: Extent) -> Result<u64, ReadError> {
    // If the stream starts after `at`, every stored message of any epoch is after it.
    if at.epoch >= until.epoch || at.sequence < extent.first {
        return Ok(at.sequence);
    }
    let renewed = stored.first_after(at.epoch).await?.found;
    Ok(renewed.map_or(at.sequence, |first| at.sequence.min(first - 1)))
}

/// Fails if `next` has a later epoch than `at` but is not the first message that has one: a page is out of date, or its
/// consumer skipped that message. Returns the stream's extent.
async fn check_epoch(stored: &StoredFeed, at: Position, next: Position) -> Result<Extent, ReadError> {
    if next.epoch <= at.epoch {
        return Ok(stored.stream().await?.opened_extent());
    }
    let Found { stream, found } = stored.first_after(at.epoch).await?;
    if found.is_some_and(|first| first < next.sequence) {
        stored.forget();
        return Err(stream.failed("the first message of an epoch was skipped"));
    }
    Ok(stream.opened_extent())
}

/// Returns the position before the first message that the stream holds.
pub(super) async fn beginning(stored: &StoredFeed) -> Result<Position, ReadError> {
    Ok(Position { epoch: 0, sequence: stored.stream().await?.opened_extent().first - 1 })
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
    stored: &StoredFeed,
    since: Since,
    head: Position,
) -> Result<(Position, Option<Gap>), ReadError> {
    let Found { stream, found } = stored.first_since(since.time).await?;
    let Some(first) = found else {
        return Ok((stream.end().await?.max(head), None));
    };
    let place = Position { sequence: first.sequence - 1, ..first };
    // The extent is read again after the first message was found, because a busy stream removes messages meanwhile.
    let gone = place.sequence > 0
        && stream.may_have_dropped(since.time, since.now)
        && stored.stream().await?.opened_extent().first >= first.sequence;
    let gap = Gap { from: 1, to: place.sequence, reason: GapReason::Retention, position: place };
    Ok((place, gone.then_some(gap)))
}
