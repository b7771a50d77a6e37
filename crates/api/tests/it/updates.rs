//! State of a reader that follows a list: the objects that it has received, and the shards that it must list again.

use std::collections::BTreeSet;

use noetl_api::updates::Place;
use noetl_api::updates::known::{Known, MAX_FOLLOWED};
use noetl_api::updates::outdated::{Outdated, RETRY};
use noetl_domain::ids::Id;
use noetl_feed::wire::cursor::Position;
use tokio::time::Instant;

#[test]
fn the_number_of_objects_is_bounded_and_the_error_names_the_limit() {
    let mut known = Known::default();
    let last = i64::try_from(MAX_FOLLOWED).unwrap();
    (1..=last).for_each(|id| known.insert(Id::new(id), Id::new(1)).unwrap());
    known.insert(Id::new(1), Id::new(2)).unwrap();
    assert_eq!(known.version(Id::new(1)), Some(Id::new(2)));
    let error = known.insert(Id::new(last + 1), Id::new(1)).unwrap_err();
    let extensions = error.extensions.unwrap();
    assert_eq!(extensions.get("code"), Some(&"LIMIT_EXCEEDED".into()));
    assert_eq!(extensions.get("allowed"), Some(&MAX_FOLLOWED.into()));
    assert!(known.remove(Id::new(7)) && !known.remove(Id::new(7)));
    known.insert(Id::new(last + 1), Id::new(1)).unwrap();
}

#[test]
fn a_shard_that_cannot_be_read_is_reported_once_and_read_again_when_it_can_be_reached() {
    let start = Instant::now();
    let at = |retries: u32| start + retries * RETRY;
    let mut outdated = Outdated::all(2, start);
    assert_eq!(outdated.due(start, |_| false), [0, 1].into());
    outdated.remove(0);
    assert!(outdated.add_unavailable(1, start) && !outdated.add_unavailable(1, start));
    assert_eq!(outdated.due(start, |_| true), BTreeSet::new());
    assert_eq!(outdated.due(at(1), |_| false), BTreeSet::new());
    assert_eq!(outdated.next(), Some(at(2)));
    assert_eq!(outdated.due(at(2), |_| true), [1].into());
    outdated.remove(1);
    assert!(outdated.next().is_none());
}

#[test]
fn the_gap_of_a_single_shard_is_known_so_that_its_readers_share_the_pages() {
    let start = Instant::now();
    let mut outdated = Outdated::all(0, start);
    let gap = Place { shard: 1, position: Position { epoch: 1, sequence: 7 } };
    outdated.add_gap(gap, start);
    let due = outdated.due(start, |_| true);
    assert_eq!(outdated.gap(&due), Some(gap));
    outdated.add_unavailable(0, start);
    assert_eq!(outdated.gap(&[0, 1].into()), None);
}
