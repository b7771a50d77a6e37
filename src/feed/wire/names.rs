//! Names of streams and subjects on the broker. They are NoETL's.

use noetl_domain::shard::ShardIndex;

/// Maximum bytes of an event's type in its subject; the broker closes a connection that sends a line over 4 KiB.
const MAX_TYPE_BYTES: usize = 512;

/// Returns the name of the stream that holds a shard's events.
#[must_use]
pub fn stream(shard: ShardIndex) -> String {
    if shard == 0 { "noetl_events".to_owned() } else { format!("noetl_events_{shard}") }
}

/// Returns the common prefix of the subjects of a shard's events.
fn prefix(shard: ShardIndex) -> String {
    if shard == 0 { "noetl.events".to_owned() } else { format!("noetl.events_{shard}") }
}

/// Returns the pattern of all subjects of a shard's events.
#[must_use]
pub fn subjects(shard: ShardIndex) -> String {
    format!("{}.>", prefix(shard))
}

/// Returns the subject of an event. Characters that a subject can't hold become `_`. A very long type is cut.
#[must_use]
pub fn subject(shard: ShardIndex, event_type: &str) -> String {
    let token = |part: &str| -> String {
        let plain = |c: char| if c.is_whitespace() || c.is_control() || "*>".contains(c) { '_' } else { c };
        if part.is_empty() { "_".to_owned() } else { part.chars().map(plain).collect() }
    };
    let held = &event_type[..event_type.floor_char_boundary(MAX_TYPE_BYTES)];
    let tokens: Vec<String> = held.split('.').map(token).collect();
    format!("{}.{}", prefix(shard), tokens.join("."))
}

/// Returns the subject of the wake-ups for a shard's leader.
#[must_use]
pub fn wake(shard: ShardIndex) -> String {
    format!("noetl.wake.{shard}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noetl_s_and_every_type_makes_a_valid_subject() {
        assert_eq!((stream(0), stream(2)), ("noetl_events".to_owned(), "noetl_events_2".to_owned()));
        assert_eq!(subject(0, "subscription.paused"), "noetl.events.subscription.paused");
        assert_eq!(subject(3, "call done*"), "noetl.events_3.call_done_");
        assert_eq!(subject(0, ".a..>"), "noetl.events._.a._._");
        assert_eq!(subject(0, ""), "noetl.events._");
        assert_eq!(subject(0, &"ß".repeat(5_000)), format!("noetl.events.{}", "ß".repeat(MAX_TYPE_BYTES / 2)));
    }
}
