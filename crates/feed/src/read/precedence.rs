//! Order of the events of a bucket that has moved. Its events are in the streams of several shards, which a reader
//! reads at its own speed. An event may be delivered only when the reader has passed the barriers of all earlier moves:
//! the ends of the streams that the bucket left. Without that, the later events of a bucket would come first where the
//! reader is faster in the later stream.
//!
//! No two streams wait for each other: the event that waits was published after the barriers, and positions of a stream
//! follow the time of publication (docs/design/moving-buckets.md).

use std::sync::Arc;

use crate::wire::cursor::Position;
use noetl_domain::feed::FeedId;
use noetl_domain::ids::Id;
use noetl_domain::shard::{Barrier, Departure, ShardIndex, ShardMap};

/// Position in another stream that a reader must pass before an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wait {
    pub(super) shard: ShardIndex,
    pub(super) feed: FeedId,
    pub(super) position: Position,
}

/// Condition under which a reader may receive an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Precedence {
    /// Only the earlier events of the same stream.
    Stream,
    /// Also the events of other streams up to these positions.
    Waits(Arc<[Wait]>),
    /// Unknown: the bucket has arrived, and the map does not say so yet.
    Outdated,
}

impl Precedence {
    /// Returns the precedence of an event of an execution at a position.
    pub(super) fn of(map: &ShardMap, shard: ShardIndex, position: Position, execution: Id) -> Self {
        if !map.has_moves() {
            return Self::Stream;
        }
        let departures = map.departures_of(execution);
        match earlier(departures, shard, position) {
            Some(earlier) => Self::after(earlier.iter().filter(|departure| departure.from != shard)),
            // The bucket never moved, or the event is of a shard that did not have it.
            None if map.target_of(execution) == Some(shard) => Self::Outdated,
            None => Self::Stream,
        }
    }

    fn after<'a>(departures: impl Iterator<Item = &'a Departure>) -> Self {
        let wait = |departure: &Departure| {
            let Barrier { feed, epoch, sequence } = departure.barrier?;
            Some(Wait { shard: departure.from, feed, position: Position { epoch, sequence } })
        };
        let waits: Arc<[Wait]> = departures.filter_map(wait).collect();
        if waits.is_empty() { Self::Stream } else { Self::Waits(waits) }
    }
}

/// Returns the departures before the time in which a shard had the bucket and published at a position. `None`: it never
/// had the bucket at that position.
fn earlier(departures: &[Departure], shard: ShardIndex, position: Position) -> Option<&[Departure]> {
    for (index, departure) in departures.iter().enumerate() {
        let ends_after =
            departure.barrier.is_some_and(|end| position <= Position { epoch: end.epoch, sequence: end.sequence });
        if departure.from == shard && ends_after {
            return departures.get(..index);
        }
    }
    departures.last().is_some_and(|last| last.to == shard).then_some(departures)
}

/// Returns whether a reader at a position has passed another one in the same stream. A position without an epoch is of a
/// stream that held no event.
pub(super) fn has_passed(at: Position, wanted: Position) -> bool {
    if at.epoch == 0 { at.sequence >= wanted.sequence } else { at >= wanted }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use noetl_domain::shard::{Moves, bucket_of};

    const EXECUTION: Id = Id::new(17);

    fn at(epoch: u32, sequence: u64) -> Position {
        Position { epoch, sequence }
    }

    fn departure(from: ShardIndex, to: ShardIndex, sequence: u64) -> Departure {
        let feed = FeedId::new(u128::from(from) + 1);
        Departure { from, to, barrier: Some(Barrier { feed, epoch: 1, sequence }) }
    }

    /// Returns the shards and sequences that a reader must pass before an event.
    fn waits(departures: &[Departure], shard: ShardIndex, sequence: u64) -> Vec<(ShardIndex, u64)> {
        let departures = BTreeMap::from([(bucket_of(EXECUTION), departures.to_vec())]);
        let map = ShardMap::even(3).with_moves(1, Moves { departures, ..Moves::default() });
        match Precedence::of(&map, shard, at(1, sequence), EXECUTION) {
            Precedence::Waits(waits) => waits.iter().map(|wait| (wait.shard, wait.position.sequence)).collect(),
            Precedence::Stream => Vec::new(),
            Precedence::Outdated => panic!("the map is not outdated"),
        }
    }

    #[test]
    fn events_wait_for_all_earlier_moves_of_their_bucket() {
        // The bucket goes from 0 to 1, back to 0, and to 2.
        let moves = [departure(0, 1, 10), departure(1, 0, 20), departure(0, 2, 30)];
        assert_eq!(waits(&moves, 0, 10), []);
        assert_eq!(waits(&moves, 1, 15), [(0, 10)]);
        assert_eq!(waits(&moves, 0, 11), [(1, 20)]);
        assert_eq!(waits(&moves, 2, 1), [(0, 10), (1, 20), (0, 30)]);
        // Events of shards that did not have the bucket then.
        assert_eq!((waits(&moves, 1, 21), waits(&moves, 0, 31)), (vec![], vec![]));
        assert_eq!(waits(&[], 1, 5), []);
    }

    #[test]
    fn a_shard_that_published_nothing_has_no_barrier() {
        let silent = Departure { barrier: None, ..departure(0, 1, 0) };
        assert_eq!(waits(&[silent], 1, 5), []);
        assert_eq!(waits(&[silent, departure(1, 2, 9)], 2, 5), [(1, 9)]);
    }

    #[test]
    fn a_position_without_an_epoch_passes_by_its_sequence() {
        for (position, passed) in
            [(at(1, 9), false), (at(1, 10), true), (at(2, 1), true), (at(0, 9), false), (at(0, 10), true)]
        {
            assert_eq!(has_passed(position, at(1, 10)), passed, "{position:?}");
        }
    }
}
