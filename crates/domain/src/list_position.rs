//! Positions in lists that are ordered by time, then by id.
//!
//! Ids alone do not order such a list. The function `noetl.snowflake_id()` of NoETL's databases counts time from the same
//! start as [`Id`](super::ids::Id), but shifts it by one more bit. So its ids are about twice as large as other ids of the
//! same time.

use chrono::{DateTime, Utc};

use super::page::{KeyRange, PageRequest};

/// 0001-01-01T00:00:00Z in seconds since the Unix epoch: the time of items without a time, which are the oldest ones.
pub(super) const EARLIEST: i64 = -62_135_596_800;
/// End of the year 9999 in seconds since the Unix epoch. No item has a later time.
pub(super) const LATEST: i64 = 253_402_300_799;

/// Position of an item in a list: its time, then its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListPosition {
    /// Time of the item, in microseconds.
    pub at: DateTime<Utc>,
    /// Id of the item.
    pub id: i64,
}

impl ListPosition {
    /// Creates the position of an item. An item without a time is older than all others.
    #[must_use]
    pub fn new(at: Option<DateTime<Utc>>, id: i64) -> Self {
        Self { at: at.unwrap_or_else(|| time(EARLIEST)), id }
    }

    /// Position before the oldest item.
    fn oldest() -> Self {
        Self { at: time(EARLIEST), id: i64::MIN }
    }

    /// Position after the newest item.
    fn newest() -> Self {
        Self { at: time(LATEST), id: i64::MAX }
    }

    /// Returns the position as a cursor contains it.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        [self.at.timestamp_micros().to_be_bytes(), self.id.to_be_bytes()].concat()
    }

    /// Reads the position in a cursor. Returns `None` if the bytes are not a position.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (at, id) = bytes.split_first_chunk()?;
        let at = DateTime::from_timestamp_micros(i64::from_be_bytes(*at))?;
        Some(Self { at, id: i64::from_be_bytes(id.try_into().ok()?) })
    }
}

/// Range of a page. It is descending if it is read from the newest item to the oldest.
pub type PositionRange = KeyRange<ListPosition>;

impl PositionRange {
    /// Returns the range of the newest items.
    #[must_use]
    pub fn newest(limit: i64) -> Self {
        Self { above: ListPosition::oldest(), below: ListPosition::newest(), descending: true, limit }
    }

    /// Returns the part of the range from one time until before another one. Items have positive ids.
    #[must_use]
    pub fn between(self, from: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> Self {
        let bound = |at| ListPosition { at, id: i64::MIN };
        Self {
            above: from.map_or(self.above, |at| bound(at).max(self.above)),
            below: until.map_or(self.below, |at| bound(at).min(self.below)),
            ..self
        }
    }
}

impl PageRequest<ListPosition> {
    /// Returns the range for a list with the newest item first.
    #[must_use]
    pub fn newest_first(&self) -> PositionRange {
        let all = PositionRange::newest(self.rows_to_read());
        PositionRange {
            above: self.before.unwrap_or(all.above),
            below: self.after.unwrap_or(all.below),
            descending: !self.backwards,
            ..all
        }
    }

    /// Returns the range for a list with the oldest item first.
    #[must_use]
    pub fn earliest_first(&self) -> PositionRange {
        let all = PositionRange::newest(self.rows_to_read());
        PositionRange {
            above: self.after.unwrap_or(all.above),
            below: self.before.unwrap_or(all.below),
            descending: self.backwards,
            ..all
        }
    }
}

pub(super) fn time(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn items() -> impl Strategy<Value = Vec<ListPosition>> {
        // Few times, so that many items share one. Ids of two sizes, as NoETL's and this server's.
        let item = (prop::option::of(0..5i64), prop_oneof![0..50i64, (1i64 << 62)..(1i64 << 62) + 50]);
        let position = |(second, id): (Option<i64>, i64)| ListPosition::new(second.map(time), id);
        prop::collection::btree_set(item.prop_map(position), 0..40).prop_map(|items| items.into_iter().rev().collect())
    }

    fn read(list: &[ListPosition], range: PositionRange) -> Vec<ListPosition> {
        let within = |item: &&ListPosition| **item > range.above && **item < range.below;
        let mut found: Vec<ListPosition> = list.iter().filter(within).copied().collect();
        if !range.descending {
            found.reverse();
        }
        found.truncate(usize::try_from(range.limit).unwrap());
        found
    }

    proptest! {
        #[test]
        fn pages_in_either_direction_cover_the_list_once_while_items_are_added(
            list in items(), limit in 1u32..7, backwards: bool, grows: bool, oldest: bool,
        ) {
            let mut seen = Vec::new();
            let mut list_now = list.clone();
            let mut request = PageRequest { limit, backwards, after: None, before: None };
            loop {
                let range = if oldest { request.earliest_first() } else { request.newest_first() };
                let page = request.cut(read(&list_now, range));
                let more = if backwards { page.has_previous } else { page.has_next };
                if backwards {
                    seen.splice(0..0, page.items.iter().copied());
                    request.before = page.items.first().copied();
                } else {
                    seen.extend(page.items.iter().copied());
                    request.after = page.items.last().copied();
                }
                if !more { break; }
                if grows && !backwards && !oldest {
                    list_now.insert(0, ListPosition::new(Some(time(9)), i64::try_from(list_now.len()).unwrap()));
                }
            }
            if oldest {
                seen.reverse();
            }
            prop_assert_eq!(seen, list);
        }

        #[test]
        fn cursors_contain_the_exact_position(micros in -62_135_596_800_000_000i64..253_402_300_799_000_000, id: i64) {
            let position = ListPosition { at: DateTime::from_timestamp_micros(micros).unwrap(), id };
            prop_assert_eq!(ListPosition::read(&position.to_bytes()), Some(position));
        }
    }

    #[test]
    fn bytes_that_are_no_position_are_refused() {
        for length in [0, 7, 8, 9, 15, 17] {
            assert_eq!(ListPosition::read(&vec![1; length]), None, "{length}");
        }
        assert_eq!(ListPosition::read(&[0x7f; 16]), None, "a time that no item can have");
    }

    #[test]
    fn a_range_between_times_has_the_first_one_and_keeps_its_own_bounds_within_them() {
        let position = |seconds, id| ListPosition { at: time(seconds), id };
        let between = |above, below| {
            let range = PositionRange { above, below, ..PositionRange::newest(5) };
            let part = range.between(Some(time(10)), Some(time(20)));
            (part.above, part.below)
        };
        let whole = (position(10, i64::MIN), position(20, i64::MIN));
        assert_eq!(between(position(9, 7), position(20, 7)), whole);
        assert!(whole.0 < position(10, 1) && whole.1 < position(20, 1));
        let own = (position(10, 7), position(19, 7));
        assert_eq!(between(own.0, own.1), own);
    }

    #[test]
    fn an_item_without_a_time_is_older_than_all_others() {
        let without = ListPosition::new(None, i64::MAX);
        assert!(without < ListPosition::new(Some(time(0)), 0));
        assert!(ListPosition::oldest() < ListPosition::new(None, i64::MIN + 1));
        assert!(without < ListPosition::newest());
    }
}
