//! The rows of a cursor loop that are done, without the records of their commands.
//!
//! The ids of these commands contain no index that is unique in the loop, but the event that issued them. So the set of
//! the done ones is all commands that were issued up to an event. Frames with the same numbers of rows are stored as one
//! range. A later event of such a command can't be told from an event of an unknown command, so the whole log must be
//! folded again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fact::Phase;
use crate::ids::Id;

/// Commands of a cursor loop's run whose records are dropped. They are completed without an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SealedRows {
    /// Event up to which every command that was issued has ended.
    through: Option<Id>,
    /// Ranges of frames with the same numbers, by the first frame of the range.
    frames: BTreeMap<i64, Range>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Range {
    last: i64,
    of_each: DoneOfFrame,
}

/// Commands of a frame that are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DoneOfFrame {
    /// Whether the claim of the rows is one of them.
    pub(super) claim: bool,
    /// Number of rows.
    pub(super) rows: i64,
}

impl SealedRows {
    pub(super) fn is_empty(&self) -> bool {
        self.through.is_none()
    }

    /// Returns whether a command that was issued by this event has ended.
    pub(super) fn contains(&self, issued: Id) -> bool {
        self.through >= Some(issued)
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> i64 {
        self.frames.iter().map(|(first, range)| (range.last - first + 1).saturating_mul(range.of_each.rows)).sum()
    }

    /// Returns the frames in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = (i64, DoneOfFrame)> {
        self.frames.iter().flat_map(|(first, range)| (*first..=range.last).map(|frame| (frame, range.of_each)))
    }

    /// Adds a command.
    pub(super) fn add(&mut self, issued: Id, (phase, frame): (Phase, i64)) {
        self.through = self.through.max(Some(issued));
        let mut done = self.take(frame);
        match phase {
            Phase::Claim => done.claim = true,
            Phase::Body => done.rows += 1,
        }
        self.put(frame, done);
    }

    /// Removes a frame from its range.
    fn take(&mut self, frame: i64) -> DoneOfFrame {
        let found = self.frames.range(..=frame).next_back().map(|(first, range)| (*first, *range));
        let Some((first, range)) = found.filter(|(_, range)| frame <= range.last) else {
            return DoneOfFrame::default();
        };
        self.frames.remove(&first);
        if first < frame {
            self.frames.insert(first, Range { last: frame - 1, ..range });
        }
        if frame < range.last {
            self.frames.insert(frame + 1, range);
        }
        range.of_each
    }

    /// Adds a frame that is in no range, and joins it with equal neighbours.
    fn put(&mut self, frame: i64, of_each: DoneOfFrame) {
        let (mut first, mut last) = (frame, frame);
        if let Some((start, range)) = self.frames.range(..frame).next_back()
            && range.last.checked_add(1) == Some(frame)
            && range.of_each == of_each
        {
            first = *start;
        }
        let next = frame.checked_add(1).and_then(|next| Some((next, *self.frames.get(&next)?)));
        if let Some((start, range)) = next.filter(|(_, range)| range.of_each == of_each) {
            self.frames.remove(&start);
            last = range.last;
        }
        self.frames.insert(first, Range { last, of_each });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_frames_are_one_range_in_any_order() {
        let commands: Vec<(Phase, i64)> = (0..6)
            .flat_map(|frame| [(Phase::Claim, frame), (Phase::Body, frame), (Phase::Body, frame)])
            .filter(|command| *command != (Phase::Claim, 3))
            .collect();
        for turn in 0..commands.len() {
            let mut rows = SealedRows::default();
            let turned = commands[turn..].iter().chain(&commands[..turn]);
            for command in turned {
                rows.add(Id::new(7), *command);
            }
            let whole = DoneOfFrame { claim: true, rows: 2 };
            let ranges = [
                (0, Range { last: 2, of_each: whole }),
                (3, Range { last: 3, of_each: DoneOfFrame { claim: false, rows: 2 } }),
                (4, Range { last: 5, of_each: whole }),
            ];
            assert_eq!(rows.frames, BTreeMap::from(ranges), "{turn}");
            assert_eq!((rows.len(), rows.frames().count()), (12, 6));
            rows.add(Id::new(7), (Phase::Claim, 3));
            assert_eq!(rows.frames, BTreeMap::from([(0, Range { last: 5, of_each: whole })]));
        }
    }
}
