//! Snowflake ids: 41 bits of milliseconds since 2024-01-01T00:00:00Z, 10 bits of machine id, 12 bits of sequence.
//!
//! The generator is a hybrid logical clock. It never goes back, regardless of the wall clock. [`next_after`] raises it
//! above an id that another replica made, so an event that is appended after another event gets the larger id on any
//! replica. It makes no id above the ceiling that its lease reserved. The next holder of the machine id starts above
//! that ceiling.
//!
//! [`next_after`]: Snowflakes::next_after

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// Milliseconds from the Unix epoch to 2024-01-01T00:00:00Z, the start of snowflake time.
pub const EPOCH_UNIX_MS: u64 = 1_704_067_200_000;
/// Largest machine id.
pub const MAX_MACHINE_ID: u16 = 1023;

/// Number of bits of the machine id.
const MACHINE_BITS: u32 = 10;
/// Number of bits of the sequence within a millisecond.
const SEQUENCE_BITS: u32 = 12;
/// Last millisecond that an id can contain, in snowflake time.
const MAX_MS: u64 = (1 << 41) - 1;
/// Distance in milliseconds after the current time from which an id no longer raises the generator: one day.
pub const MAX_FLOOR_LEAD_MS: u64 = 24 * 3600 * 1000;
/// Last sequence of a millisecond.
const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// A 63-bit snowflake id. The API uses its decimal string.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Id(i64);

impl Id {
    /// Creates an id from a number, which must come from storage or the generator.
    #[must_use]
    pub const fn new(raw: i64) -> Self {
        Self(raw)
    }

    /// Returns the smallest id of a millisecond (since 2024-01-01T00:00:00Z).
    #[must_use]
    pub const fn first_of(ms: u64) -> Self {
        Self((ms << (MACHINE_BITS + SEQUENCE_BITS)).cast_signed() & i64::MAX)
    }

    /// Returns the id as the number that the tables store.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns whether a generator can make a larger id. No event can be appended after an id for which this is false.
    #[must_use]
    pub const fn can_be_followed(self) -> bool {
        self.millis() < MAX_MS
    }

    /// Returns the time that the id contains.
    #[must_use]
    pub fn time(self) -> DateTime<Utc> {
        let unix_ms = (EPOCH_UNIX_MS + self.millis()).cast_signed();
        DateTime::from_timestamp_millis(unix_ms).unwrap_or_default()
    }

    /// Returns the machine id that the id contains.
    #[must_use]
    pub fn machine(self) -> u16 {
        u16::try_from(self.0.cast_unsigned() >> SEQUENCE_BITS & u64::from(MAX_MACHINE_ID)).unwrap_or_default()
    }

    /// Returns the time at which the id was made, in milliseconds since 2024-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0.cast_unsigned() >> (MACHINE_BITS + SEQUENCE_BITS)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is not an id. An id is a decimal number from 0 to 9223372036854775807, without sign or leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id: an id is a decimal number from 0 to 9223372036854775807")]
pub struct MalformedId;

impl FromStr for Id {
    type Err = MalformedId;

    fn from_str(text: &str) -> Result<Self, MalformedId> {
        let canonical = text == "0" || (text.starts_with(|c: char| ('1'..='9').contains(&c)));
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        if !canonical || !digits {
            return Err(MalformedId);
        }
        text.parse().map(Self).map_err(|_| MalformedId)
    }
}

/// Reasons for which the generator can't make an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdGenerationError {
    /// The generator has reached its ceiling. The lease must reserve more ids first.
    #[error("the reserved id range ends at {ceiling_ms} ms")]
    CeilingReached {
        /// The ceiling in milliseconds since 2024-01-01T00:00:00Z.
        ceiling_ms: u64,
    },
    /// No larger id than this one fits in 63 bits.
    #[error("the id {0} can't be followed by a larger one")]
    Exhausted(Id),
}

/// Id generator of one replica.
#[derive(Debug)]
pub struct Snowflakes {
    machine_id: u16,
    ceiling_ms: u64,
    /// Milliseconds and sequence of the last id.
    last: (u64, u64),
    /// Sequence of ids after distant floors, which keeps them distinct.
    distant_sequence: u64,
}

impl Snowflakes {
    /// Creates a generator of ids after `floor_ms` and up to `ceiling_ms`, both in milliseconds since
    /// 2024-01-01T00:00:00Z.
    #[must_use]
    pub fn new(machine_id: u16, floor_ms: u64, ceiling_ms: u64) -> Self {
        Self {
            machine_id: machine_id & MAX_MACHINE_ID,
            ceiling_ms,
            last: (floor_ms, MAX_SEQUENCE),
            distant_sequence: 0,
        }
    }

    /// Allows ids up to `ceiling_ms`. A value below the current ceiling is ignored.
    pub fn raise_ceiling(&mut self, ceiling_ms: u64) {
        self.ceiling_ms = self.ceiling_ms.max(ceiling_ms.min(MAX_MS));
    }

    /// Restricts later ids to milliseconds after `floor_ms`.
    pub fn start_above(&mut self, floor_ms: u64) {
        self.last = self.last.max((floor_ms, MAX_SEQUENCE));
    }

    /// Returns the millisecond of the last id, in snowflake time. The next ceiling must be above it.
    #[must_use]
    pub fn position_ms(&self) -> u64 {
        self.last.0
    }

    /// Returns the next id at `now_ms` (milliseconds since 2024-01-01T00:00:00Z). It is larger than every id made or
    /// observed. A clock above the ceiling counts as the ceiling.
    pub fn next(&mut self, now_ms: u64) -> Result<Id, IdGenerationError> {
        let (ms, sequence) = self.last;
        let now_ms = now_ms.min(self.ceiling_ms);
        let next = if now_ms > ms {
            (now_ms, 0)
        } else if sequence < MAX_SEQUENCE {
            (ms, sequence + 1)
        } else {
            (ms + 1, 0)
        };
        if next.0 > MAX_MS {
            return Err(IdGenerationError::Exhausted(self.compose(ms, sequence)));
        }
        if next.0 > self.ceiling_ms {
            return Err(IdGenerationError::CeilingReached { ceiling_ms: self.ceiling_ms });
        }
        self.last = next;
        Ok(self.compose(next.0, next.1))
    }

    /// Returns the next id larger than `floor`. A floor more than a day after the clock, in a log with ids of another
    /// origin, does not raise the generator: the returned id is larger, but later ids follow the clock. So no sequence of
    /// floors moves the generator more than a day away from the clock.
    pub fn next_after(&mut self, floor: Id, now_ms: u64) -> Result<Id, IdGenerationError> {
        let ms = floor.millis();
        if !floor.can_be_followed() {
            return Err(IdGenerationError::Exhausted(floor));
        }
        if self.compose(self.last.0, self.last.1) < floor {
            if ms > now_ms + MAX_FLOOR_LEAD_MS {
                self.distant_sequence = (self.distant_sequence + 1) & MAX_SEQUENCE;
                return Ok(self.compose(ms + 1, self.distant_sequence));
            }
            // The generator is not raised above its ceiling: it could not make ids until a larger range is reserved.
            if ms >= self.ceiling_ms {
                return Err(IdGenerationError::CeilingReached { ceiling_ms: self.ceiling_ms });
            }
            // The rest of that millisecond is skipped: a smaller machine id could not exceed `floor` within it.
            self.last = (ms, MAX_SEQUENCE);
        }
        self.next(now_ms)
    }

    fn compose(&self, ms: u64, sequence: u64) -> Id {
        let offset = (u64::from(self.machine_id) << SEQUENCE_BITS) + sequence;
        Id(Id::first_of(ms).0 + offset.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn layout_is_41_10_12() {
        let id = Snowflakes::new(5, 0, MAX_MS).next(1_000).unwrap();
        assert_eq!(id.get(), (1_000 << 22) | (5 << 12));
        assert_eq!(id.millis(), 1_000);
        assert_eq!(id.time().to_rfc3339(), "2024-01-01T00:00:01+00:00");
    }

    #[test]
    fn ids_of_a_full_millisecond_continue_in_the_next() {
        let mut ids = Snowflakes::new(1, 0, MAX_MS);
        let made: Vec<Id> = (0..5_000).map(|_| ids.next(7).unwrap()).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(made[4_999].millis(), 8);
    }

    #[test]
    fn no_id_is_made_above_the_ceiling() {
        let mut ids = Snowflakes::new(1, 0, 10);
        let made: Vec<Id> = std::iter::from_fn(|| ids.next(11).ok()).collect();
        assert_eq!((made.len(), made.last().unwrap().millis()), (4096, 10));
        assert_eq!(ids.next(11), Err(IdGenerationError::CeilingReached { ceiling_ms: 10 }));
        ids.raise_ceiling(11);
        assert_eq!(ids.next(11).unwrap().millis(), 11);
    }

    #[test]
    fn a_floor_above_the_ceiling_does_not_raise_the_generator() {
        let mut ids = Snowflakes::new(1, 0, 10);
        assert_eq!(ids.next_after(Id::first_of(20), 5), Err(IdGenerationError::CeilingReached { ceiling_ms: 10 }));
        assert_eq!(ids.next(5).unwrap().millis(), 5);
        ids.raise_ceiling(30);
        assert!(ids.next_after(Id::first_of(20), 5).unwrap() > Id::first_of(20));
    }

    #[test]
    fn the_largest_id_cannot_be_followed() {
        let mut ids = Snowflakes::new(1, 0, MAX_MS);
        assert_eq!(ids.next_after(Id::new(i64::MAX), 1), Err(IdGenerationError::Exhausted(Id::new(i64::MAX))));
    }

    #[test]
    fn a_log_far_in_the_future_keeps_its_order_and_does_not_raise_the_generator() {
        let mut ids = Snowflakes::new(7, 0, MAX_MS);
        let far = Id::first_of(MAX_FLOOR_LEAD_MS * 400);
        let above = ids.next_after(far, 1_000).unwrap();
        assert!(above > far);
        assert!(ids.next_after(above, 1_000).unwrap() > above);
        assert_eq!(ids.next(1_000).unwrap().millis(), 1_000);
    }

    #[test]
    fn a_floor_of_at_most_one_day_after_the_clock_raises_the_generator() {
        let now_ms = 1_000;
        for (lead_ms, later_ms) in [(DAY_MS, now_ms + DAY_MS + 1), (DAY_MS + 1, now_ms)] {
            let mut ids = Snowflakes::new(7, 0, MAX_MS);
            let floor = Id::first_of(now_ms + lead_ms);
            assert!(ids.next_after(floor, now_ms).unwrap() > floor);
            assert_eq!(ids.next(now_ms).unwrap().millis(), later_ms, "{lead_ms}");
        }
    }

    #[test]
    fn floors_that_follow_each_other_do_not_move_the_generator_away_from_the_clock() {
        let (mut ids, now_ms) = (Snowflakes::new(7, 0, MAX_MS), 1_000);
        let mut last = ids.next(now_ms).unwrap();
        for _ in 0..1_000 {
            let floor = Id::first_of(last.millis() + DAY_MS);
            let next = ids.next_after(floor, now_ms).unwrap();
            assert!(next > floor);
            last = next;
        }
        assert!(ids.next(now_ms).unwrap().millis() <= now_ms + DAY_MS + 1);
    }

    #[test]
    fn a_floor_below_the_last_id_is_followed_also_after_the_clock_was_set_back() {
        let mut ids = Snowflakes::new(7, 0, MAX_MS);
        let made = ids.next(400 * DAY_MS).unwrap();
        let next = ids.next_after(Id::first_of(300 * DAY_MS), 1_000).unwrap();
        assert!(next > made, "an id that the generator made before could be made again");
    }

    #[test]
    fn a_generator_at_the_end_of_time_says_so() {
        let mut ids = Snowflakes::new(7, MAX_MS - 1, u64::MAX);
        let last = (0..4096).map(|_| ids.next(1).unwrap()).last().unwrap();
        assert_eq!(ids.next(1), Err(IdGenerationError::Exhausted(last)));
    }

    #[test]
    fn ids_after_one_distant_floor_are_larger_and_distinct() {
        let mut ids = Snowflakes::new(7, 0, MAX_MS);
        let last_of_its_millisecond = Id::new(Id::first_of(400 * DAY_MS).get() - 1);
        let made: BTreeSet<Id> = (0..4096).map(|_| ids.next_after(last_of_its_millisecond, 1_000).unwrap()).collect();
        assert_eq!(made.len(), 4096);
        assert!(*made.first().unwrap() > last_of_its_millisecond);
        let by_this_machine = |id: &Id| (id.get() >> 12) & 1023 == 7;
        assert!(made.iter().all(by_this_machine), "another machine id could make the same ids");
    }

    #[test]
    fn appending_to_the_same_log_does_not_run_ahead_of_the_clock() {
        let mut ids = Snowflakes::new(1, 0, MAX_MS);
        let first = ids.next(7).unwrap();
        let last = (1..4096).fold(first, |previous, _| ids.next_after(previous, 7).unwrap());
        assert_eq!(last.millis(), 7, "4096 ids fit in one millisecond");
    }

    #[test]
    fn later_ids_start_after_the_given_millisecond() {
        let mut ids = Snowflakes::new(1, 0, MAX_MS);
        assert_eq!(ids.next(10).unwrap().millis(), 10);
        for (floor_ms, next_ms) in [(9, 10), (10, 11), (20, 21), (5, 21)] {
            ids.start_above(floor_ms);
            assert_eq!(ids.next(10).unwrap().millis(), next_ms, "{floor_ms}");
        }
    }

    #[test]
    fn position_is_the_millisecond_of_the_last_id() {
        let mut ids = Snowflakes::new(1, 3, MAX_MS);
        assert_eq!(ids.position_ms(), 3);
        let id = ids.next(70).unwrap();
        assert_eq!(ids.position_ms(), id.millis());
    }

    #[test]
    fn text_of_an_id_is_its_decimal_number() {
        let id = Id::new(382_384_698_866_794_496);
        assert_eq!((id.to_string(), format!("{id:?}")), ("382384698866794496".into(), "382384698866794496".into()));
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn only_canonical_decimals_are_ids() {
        for bad in ["", "-1", "+1", "01", "1e3", "9223372036854775808", " 1", "1 ", "x", "१"] {
            assert_eq!(bad.parse::<Id>(), Err(MalformedId), "{bad:?}");
        }
        assert_eq!("9223372036854775807".parse(), Ok(Id::new(i64::MAX)));
    }

    proptest! {
        #[test]
        fn ids_increase_regardless_of_clocks_and_observed_ids(
            machine in 0u16..1024,
            steps in prop::collection::vec((0u64..10_000, prop::option::of(0i64..(10_000 << 22))), 1..200),
        ) {
            let mut ids = Snowflakes::new(machine, 0, MAX_MS);
            let mut floor = Id::new(0);
            for (now, seen) in steps {
                let seen = seen.map_or(floor, Id::new);
                let id = ids.next_after(seen, now).unwrap();
                prop_assert!(id > seen);
                prop_assert!(id > floor);
                floor = id;
            }
        }
    }
}
