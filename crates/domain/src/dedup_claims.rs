//! Claims of dedup keys by concurrent requests: one request claims a key, and the others with the key are duplicates.

use std::collections::btree_map::{BTreeMap, Entry};

/// Request of a call to claim a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRequest<K> {
    /// The key.
    pub key: K,
    /// Number of further requests with the same key in the call.
    pub repeated: i64,
    /// Whether the catalog entry was not read, so that the claim must confirm that it is the newest of its path.
    pub must_be_newest: bool,
}

/// The request that claims a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant {
    /// Index of the request.
    pub index: usize,
    /// Number of further requests with the same key.
    pub repeated: i64,
}

/// Returns the claimant of each key, in the order of the keys: the request of the first call that has the key. If its
/// claim must have the newest catalog entry and a later call has read the entry, the later one takes its place. It
/// can't be left out because a cache is outdated.
pub fn claimants<K: Ord>(requests: impl IntoIterator<Item = KeyRequest<K>>) -> Vec<Claimant> {
    let mut distinct: BTreeMap<K, (Claimant, bool)> = BTreeMap::new();
    for (index, KeyRequest { key, repeated, must_be_newest }) in requests.into_iter().enumerate() {
        match distinct.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert((Claimant { index, repeated }, must_be_newest))),
            Entry::Occupied(mut entry) => {
                let (kept, newest) = entry.get_mut();
                kept.repeated += repeated + 1;
                if *newest && !must_be_newest {
                    (kept.index, *newest) = (index, false);
                }
            }
        }
    }
    distinct.into_values().map(|(claimant, _)| claimant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns index and number of further requests of each claimant.
    fn claimants_of<const N: usize>(requests: [(&str, bool, i64); N]) -> Vec<(usize, i64)> {
        let request = |(key, must_be_newest, repeated)| KeyRequest { key, repeated, must_be_newest };
        claimants(requests.map(request)).into_iter().map(|claimant| (claimant.index, claimant.repeated)).collect()
    }

    #[test]
    fn the_first_call_with_a_key_claims_it_and_the_others_are_counted() {
        let requests = [("b", true, 0), ("a", true, 3), ("b", true, 2), ("b", true, 0)];
        assert_eq!(claimants_of(requests), [(1, 3), (0, 4)]);
    }

    #[test]
    fn a_claim_whose_entry_was_read_is_not_left_out_because_of_an_outdated_cache() {
        let requests = [("a", true, 0), ("a", false, 1), ("a", false, 0), ("a", true, 0)];
        assert_eq!(claimants_of(requests), [(1, 4)]);
    }
}
