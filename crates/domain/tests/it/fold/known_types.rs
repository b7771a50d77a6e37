//! The guide of events lists the types that are known, and the logs of NoETL have no other ones.

use std::collections::BTreeSet;

use noetl_domain::lifecycle::is_lifecycle;
use noetl_domain::workflow::{is_known_type, known_types};

use super::recorded::Log;

const GUIDE: &str = include_str!("../../../../../docs/guide/events.md");

fn section(heading: &str) -> &'static str {
    let (_, rest) = GUIDE.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// Returns the names in code marks.
fn marked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the types in the first column of a section's table.
fn listed(heading: &str) -> impl Iterator<Item = &'static str> {
    let rows = section(heading).lines().filter_map(|line| line.strip_prefix("| "));
    rows.flat_map(|row| marked(row.split(" | ").next().unwrap()))
}

#[test]
fn the_guide_lists_the_known_types_and_no_others() {
    let in_tables: BTreeSet<&str> = listed("Types of executions").chain(listed("Types of steps")).collect();
    assert_eq!(in_tables, known_types().collect());
    assert!(in_tables.into_iter().all(is_known_type));
    let of_outbox = marked(section("Types of executions")).filter(|name| name.starts_with("outbox."));
    assert!(of_outbox.map(is_known_type).eq([true, true]));
    // Transitions write the types of the lifecycle, and workers can't.
    let names = marked(section("Types of source subscriptions"));
    let of_subscriptions: BTreeSet<&str> = names.filter(|name| name.starts_with("subscription.")).collect();
    assert_eq!(of_subscriptions.len(), 7, "{of_subscriptions:?}");
    for name in of_subscriptions {
        assert_ne!(is_known_type(name), is_lifecycle(name), "{name}");
    }
}

#[test]
fn the_types_of_the_recorded_logs_are_known() {
    for log in Log::all() {
        let unknown: BTreeSet<&str> =
            log.events.iter().map(|event| event.event_type.as_str()).filter(|name| !is_known_type(name)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", log.name);
    }
}
