//! The kinds of differences that `check` reports.

use std::collections::BTreeSet;

use noetl_service::check::kinds::Kind;

#[test]
fn each_kind_has_its_own_description() {
    let mut names = BTreeSet::new();
    for (position, kind) in Kind::all().enumerate() {
        assert_eq!(kind as usize, position, "{kind}");
        assert!(names.insert(kind.name()), "{kind}");
    }
}
