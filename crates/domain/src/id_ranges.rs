//! Ids, compared with the ranges that the holders of machine ids reserved.

use std::collections::BTreeMap;

use super::ids::Id;

/// Returns the largest id of each machine id that is after the range. Ranges are given by their last milliseconds.
#[must_use]
pub fn beyond(largest: &BTreeMap<u16, Id>, ceilings: &[(u16, u64)]) -> Vec<(u16, Id)> {
    let ceilings: BTreeMap<u16, u64> = ceilings.iter().copied().collect();
    let is_after = |machine: &u16, id: &Id| id.millis() > ceilings.get(machine).copied().unwrap_or_default();
    largest.iter().filter(|(machine, id)| is_after(machine, id)).map(|(machine, id)| (*machine, *id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_after_the_range_if_its_millisecond_was_not_reserved() {
        let id = |ms: u64, machine: i64| Id::new(Id::first_of(ms).get() | machine << 12 | 4095);
        let largest = BTreeMap::from([(0, id(100, 0)), (1, id(101, 1)), (7, id(1, 7))]);
        assert_eq!(beyond(&largest, &[(0, 100), (1, 100), (2, 5)]), [(1, id(101, 1)), (7, id(1, 7))]);
        assert_eq!((id(101, 1).machine(), id(101, 1).millis()), (1, 101));
    }
}
