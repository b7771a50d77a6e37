//! Gaps between two positions of a feed: missing events and changes of the epoch.

use crate::wire::cursor::Position;
use crate::wire::envelope::Discard;

/// Cause of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The stream no longer holds the events.
    Retention,
    /// The reader was too slow, and the stream no longer holds the events.
    SlowConsumer,
    /// The feed started a new epoch. Events after the gap may have been delivered before.
    EpochChanged,
    /// The cursor can't exist in this feed. The reader continues from the first event that the stream holds.
    Reset,
}

impl GapReason {
    /// Returns its label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::SlowConsumer => "slow_consumer",
            Self::EpochChanged => "epoch_changed",
            Self::Reset => "reset",
        }
    }
}

/// Gap in one shard's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// First sequence of the gap.
    pub from: u64,
    /// Last sequence of the gap; less than `from` if no event is missing.
    pub to: u64,
    /// Cause.
    pub reason: GapReason,
    /// Position after the gap.
    pub position: Position,
}

impl Gap {
    /// Returns the gap before the first message of an epoch, with the messages that this one tells readers to discard.
    pub(super) fn with(self, discard: Option<Discard>) -> Self {
        match discard {
            Some(Discard { from, to }) if self.reason == GapReason::EpochChanged => Self { from, to, ..self },
            _ => self,
        }
    }

    /// Returns the gap of a reader whose cursor can't exist in the feed.
    pub(super) fn reset(cursor: Position) -> Self {
        Self { from: 1, to: cursor.sequence, reason: GapReason::Reset, position: Position::default() }
    }
}

/// Returns the gaps between a reader at `at` and the next message. `first` is the first sequence that the stream holds.
/// `missing` is the cause for messages that the stream no longer holds.
pub(super) fn between(at: Position, next: Position, first: u64, missing: GapReason) -> Vec<Gap> {
    let renewed = if at.epoch == 0 { next.sequence <= at.sequence } else { next.epoch > at.epoch };
    let before = next.sequence.saturating_sub(1);
    let mut gaps = Vec::new();
    let mut reached = at.sequence;
    // If the start of an epoch has expired, the number of missing events is unknown.
    let start_expired = renewed && first == next.sequence && before > 0;
    if before > at.sequence || start_expired {
        let from = (at.sequence + 1).min(before);
        gaps.push(Gap { from, to: before, reason: missing, position: Position { sequence: before, ..at } });
        reached = reached.max(before);
    }
    if renewed {
        let (from, to) = ((reached + 1).min(next.sequence), reached.max(before));
        let position = Position { epoch: next.epoch, sequence: before };
        gaps.push(Gap { from, to, reason: GapReason::EpochChanged, position });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use GapReason::{EpochChanged, Retention};

    fn place(epoch: u32, sequence: u64) -> Position {
        Position { epoch, sequence }
    }

    fn ranges(at: Position, next: Position, first: u64) -> Vec<(u64, u64, GapReason)> {
        between(at, next, first, Retention).into_iter().map(|gap| (gap.from, gap.to, gap.reason)).collect()
    }

    #[test]
    fn every_missing_event_is_in_a_gap_and_no_other() {
        assert_eq!(ranges(place(1, 4), place(1, 5), 1), []);
        assert_eq!(ranges(place(0, 0), place(1, 1), 1), []);
        assert_eq!(ranges(place(0, 4), place(3, 5), 5), []);
        assert_eq!(ranges(place(0, 0), place(1, 5), 5), [(1, 4, Retention)]);
        assert_eq!(ranges(place(1, 4), place(1, 9), 9), [(5, 8, Retention)]);
        assert_eq!(ranges(place(1, 60), place(2, 51), 1), [(51, 60, EpochChanged)]);
        assert_eq!(ranges(place(1, 60), place(2, 61), 1), [(61, 60, EpochChanged)]);
        assert_eq!(ranges(place(1, 60), place(2, 1), 1), [(1, 60, EpochChanged)]);
        assert_eq!(ranges(place(1, 60), place(2, 81), 81), [(61, 80, Retention), (81, 80, EpochChanged)]);
        assert_eq!(ranges(place(1, 200), place(2, 61), 61), [(60, 60, Retention), (61, 200, EpochChanged)]);
        assert_eq!(ranges(place(0, 60), place(1, 3), 3), [(2, 2, Retention), (3, 60, EpochChanged)]);
    }

    #[test]
    fn only_the_gap_of_a_new_epoch_covers_the_messages_to_discard() {
        let gaps = between(place(1, 60), place(2, 81), 81, Retention);
        let discard = Some(Discard { from: 40, to: 70 });
        let ranges: Vec<_> = gaps.iter().map(|gap| gap.with(discard)).map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(ranges, [(61, 80), (40, 70)]);
        assert_eq!(gaps[1].with(None), gaps[1]);
    }

    #[test]
    fn position_after_the_last_gap_precedes_the_next_message() {
        for (at, next, first) in [(place(1, 60), place(2, 51), 1), (place(1, 60), place(2, 81), 81)] {
            let gaps = between(at, next, first, Retention);
            assert!(gaps.last().unwrap().position.precedes(next));
        }
    }
}
