//! What a reader must be told between two places: what is gone, and that sequences have lost their meaning.

use super::cursor::Position;

/// Why a part of the feed is missing, or may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The stream no longer holds it.
    Retention,
    /// The reader was too slow, and the stream no longer holds it.
    SlowConsumer,
    /// The feed began anew; events behind the gap may have been seen before.
    EpochChanged,
}

impl GapReason {
    /// Its label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::SlowConsumer => "slow_consumer",
            Self::EpochChanged => "epoch_changed",
        }
    }
}

/// A gap in one shard's feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first missing sequence.
    pub from: u64,
    /// The last one; below `from` when nothing is missing.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
    /// The place behind it.
    pub position: Position,
}

/// The gaps between a reader at `at` and the next message. `first`: the first that the stream holds. `missing`: why a part
/// is missing that the stream does not hold.
pub(super) fn between(at: Position, next: Position, first: u64, missing: GapReason) -> Vec<Gap> {
    let renewed = if at.epoch == 0 { next.sequence <= at.sequence } else { next.epoch > at.epoch };
    let before = next.sequence.saturating_sub(1);
    let mut gaps = Vec::new();
    let mut reached = at.sequence;
    // Of an epoch whose beginning is no longer there nobody knows how much is gone.
    let beheaded = renewed && first == next.sequence && before > 0;
    if before > at.sequence || beheaded {
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

    fn told(at: Position, next: Position, first: u64) -> Vec<(u64, u64, GapReason)> {
        between(at, next, first, Retention).into_iter().map(|gap| (gap.from, gap.to, gap.reason)).collect()
    }

    #[test]
    fn nothing_is_skipped_silently_and_nothing_is_made_up() {
        assert_eq!(told(place(1, 4), place(1, 5), 1), []);
        assert_eq!(told(place(0, 0), place(1, 1), 1), []);
        assert_eq!(told(place(0, 4), place(3, 5), 5), []);
        assert_eq!(told(place(0, 0), place(1, 5), 5), [(1, 4, Retention)]);
        assert_eq!(told(place(1, 4), place(1, 9), 9), [(5, 8, Retention)]);
        assert_eq!(told(place(1, 60), place(2, 51), 1), [(51, 60, EpochChanged)]);
        assert_eq!(told(place(1, 60), place(2, 61), 1), [(61, 60, EpochChanged)]);
        assert_eq!(told(place(1, 60), place(2, 1), 1), [(1, 60, EpochChanged)]);
        assert_eq!(told(place(1, 60), place(2, 81), 81), [(61, 80, Retention), (81, 80, EpochChanged)]);
        assert_eq!(told(place(1, 200), place(2, 61), 61), [(60, 60, Retention), (61, 200, EpochChanged)]);
        assert_eq!(told(place(0, 60), place(1, 3), 3), [(2, 2, Retention), (3, 60, EpochChanged)]);
    }

    #[test]
    fn the_place_behind_the_last_gap_is_right_before_the_next_message() {
        for (at, next, first) in [(place(1, 60), place(2, 51), 1), (place(1, 60), place(2, 81), 81)] {
            let gaps = between(at, next, first, Retention);
            assert!(gaps.last().unwrap().position.precedes(next));
        }
    }
}
