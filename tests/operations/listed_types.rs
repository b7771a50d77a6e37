//! The lists of values in the texts of statements are the domain's lists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use noetl_domain::execution::{ENDINGS, Status};
use noetl_testkit::repository;

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns the list after each occurrence of `start` in the sources.
fn lists(start: &str) -> Vec<BTreeSet<String>> {
    let files = sources(&repository().join("crates/storage/src"));
    let texts = files.into_iter().map(|path| fs::read_to_string(path).unwrap());
    let listed = |text: String| {
        let lists = text.split(start).skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
        let values = |list: &str| list.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
        lists.map(values).collect::<Vec<BTreeSet<String>>>()
    };
    texts.flat_map(listed).collect()
}

#[test]
fn statements_list_every_type_that_ends_an_execution() {
    let ending: BTreeSet<String> = ENDINGS.into_iter().map(|(name, _)| name.to_owned()).collect();
    let lists: Vec<_> = lists("event_type IN (").into_iter().filter(|list| !list.is_disjoint(&ending)).collect();
    // A statement that also selects other events lists their types too.
    assert!(lists.iter().all(|list| list.is_superset(&ending)), "{ending:?} is missing in {lists:?}");
    assert!(lists.iter().filter(|list| **list == ending).count() >= 3, "{lists:?}");
}

#[test]
fn statements_list_every_name_of_a_final_status() {
    let is_final = |status: &Status| status.is_terminal();
    let names = Status::ALL.into_iter().filter(is_final).flat_map(Status::stored_names);
    let names: BTreeSet<String> = names.map(|name| (*name).to_owned()).collect();
    let lists = lists("upper(status) NOT IN (");
    assert!(!lists.is_empty());
    assert!(lists.iter().all(|list| *list == names), "{lists:?} != {names:?}");
}
