//! Shards whose objects must be listed again, because changes may be missing.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

use super::Place;
use noetl_domain::shard::ShardIndex;
use noetl_feed::wire::cursor::Position;

/// Time after which a shard that could not be read is read again.
pub const RETRY: Duration = Duration::from_secs(1);

/// A shard whose objects must be listed.
#[derive(Debug, Clone, Copy)]
struct Cause {
    /// Time of the next attempt.
    due: Instant,
    /// Position after a gap in the feed.
    gap: Option<Position>,
    /// Whether the reader knows that changes may be missing.
    reported: bool,
}

/// The shards to list.
#[derive(Debug)]
pub struct Outdated(BTreeMap<ShardIndex, Cause>);

impl Outdated {
    /// Returns all shards. Nothing is missing yet, so no gap is reported.
    #[must_use]
    pub fn all(shards: ShardIndex, now: Instant) -> Self {
        let cause = Cause { due: now, gap: None, reported: false };
        Self((0..shards).map(|shard| (shard, cause)).collect())
    }

    /// Adds a shard after a gap in its feed. It is due at once.
    pub fn add_gap(&mut self, gap: Place, now: Instant) {
        self.0.insert(gap.shard, Cause { due: now, gap: Some(gap.position), reported: true });
    }

    /// Adds a shard that can't be read. Returns whether this must be reported.
    pub fn add_unavailable(&mut self, shard: ShardIndex, now: Instant) -> bool {
        let retry = Cause { due: now + RETRY, gap: None, reported: true };
        !self.0.insert(shard, retry).is_some_and(|cause| cause.reported)
    }

    /// Returns whether a shard has to be listed.
    pub(super) fn contains(&self, shard: ShardIndex) -> bool {
        self.0.contains_key(&shard)
    }

    /// Returns whether no shard has to be listed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a shard that was listed.
    pub fn remove(&mut self, shard: ShardIndex) {
        self.0.remove(&shard);
    }

    /// Returns the shards that are due and can be reached. The next attempt for the others is postponed.
    pub fn due(&mut self, now: Instant, reachable: impl Fn(ShardIndex) -> bool) -> BTreeSet<ShardIndex> {
        let mut due = BTreeSet::new();
        for (shard, cause) in self.0.iter_mut().filter(|(_, cause)| cause.due <= now) {
            // The first attempt finds out what can't be reached, and reports it.
            if reachable(*shard) || !cause.reported {
                due.insert(*shard);
            } else {
                cause.due = now + RETRY;
            }
        }
        due
    }

    /// Returns the gap of a shard in the feed, if it is the only one of these shards.
    #[must_use]
    pub fn gap(&self, shards: &BTreeSet<ShardIndex>) -> Option<Place> {
        let (Some(shard), 1) = (shards.first().copied(), shards.len()) else { return None };
        self.0.get(&shard).and_then(|cause| cause.gap).map(|position| Place { shard, position })
    }

    /// Returns the time of the next attempt.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.0.values().map(|cause| cause.due).min()
    }
}
