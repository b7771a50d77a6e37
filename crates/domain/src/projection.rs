//! Projections: a folded log with its watermark, and the checksum of the stored form.

use std::io;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::event::Event;
use super::execution::{StatusSource, hexadecimal};
use super::ids::Id;
use super::workflow::{WorkflowState, shape};

/// Version of the fold's rules and of the stored form of [`WorkflowState`]. Raise it when either changes. The test
/// `a_change_of_the_rules_or_of_the_stored_form_has_a_version_of_its_own` then needs the digest of the new states.
pub const RULES: u32 = 12;

/// Version of a stored state. It is derived from [`RULES`] and from the event types that the fold knows, so it changes
/// when a type is added. Snapshots with another version are ignored, and the log is folded instead.
pub const SHAPE: i32 = shape(RULES);

/// Returns the version of a stored state whose status has this source: [`SHAPE`] by default. So states, and the rows of
/// the list that are stored with them, are computed again after a change of the source.
#[must_use]
pub const fn shape_for(source: StatusSource) -> i32 {
    match source {
        StatusSource::End => SHAPE,
        // The complement of a version is not a version.
        StatusSource::Steps => shape(!RULES),
    }
}

/// A moment in the history of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// After the event with this id, and after all events with smaller ids.
    Event(Id),
    /// After all events of this time and of earlier times.
    Time(DateTime<Utc>),
}

/// State of an execution, with its watermark.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Projection {
    /// Fold of the execution's events.
    pub state: WorkflowState,
    /// Highest event id folded; `None`: no event is folded.
    pub version: Option<Id>,
    /// Number of events folded.
    pub applied_count: i64,
}

impl Projection {
    /// Returns the projection whose status has this source.
    #[must_use]
    pub fn with_status_from(self, source: StatusSource) -> Self {
        Self { state: self.state.with_status_from(source), ..self }
    }

    /// Folds one more event, which must not be folded yet.
    pub fn fold(&mut self, event: &Event) {
        self.state.fold(event);
        self.version = self.version.max(Some(event.event_id));
        self.applied_count += 1;
    }

    /// Returns whether every folded event belongs to the state at this moment.
    #[must_use]
    pub fn is_within(&self, moment: Moment) -> bool {
        match moment {
            Moment::Event(id) => self.version <= Some(id),
            Moment::Time(time) => self.state.latest_at <= Some(time),
        }
    }

    /// Returns whether the log is an execution's, not a source subscription's.
    #[must_use]
    pub fn is_execution(&self) -> bool {
        let state = &self.state;
        !(state.started.is_empty() && state.ended.is_empty() && state.steps().is_empty())
    }
}

/// Position of a snapshot in its log. The checksum covers it, because a wrong value would lose or repeat events.
#[derive(Debug, Clone, Copy)]
pub struct Watermark<'a> {
    /// Text of the `pg_snapshot` at which the state was folded.
    pub as_of: &'a str,
    /// Identifier of the PostgreSQL cluster whose transaction ids `as_of` contains.
    pub system: &'a str,
    /// Highest event id folded.
    pub version: i64,
    /// Number of events folded.
    pub applied_count: i64,
    /// Version of the state ([`shape_for`]).
    pub schema: i32,
}

/// Content of which the checksum is made. The fields are in the order of their names, as in canonical JSON.
#[derive(Serialize)]
struct Checked<'a> {
    applied_count: i64,
    as_of: &'a str,
    schema: i32,
    state: &'a Value,
    system: &'a str,
    version: i64,
}

/// Writer that hashes what is written.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the SHA-256, in hexadecimal, of the canonical JSON (sorted keys, no spaces) of the state and its watermark.
/// The JSON is hashed while it is written, because a state may be large.
///
/// # Errors
///
/// If the state can't be written as JSON.
pub fn checksum(state: &Value, watermark: Watermark<'_>) -> serde_json::Result<String> {
    let Watermark { as_of, system, version, applied_count, schema } = watermark;
    let mut writer = HashWriter(Sha256::new());
    serde_json::to_writer(&mut writer, &Checked { applied_count, as_of, schema, state, system, version })?;
    let hash: [u8; 32] = writer.0.finalize().into();
    Ok(hexadecimal(&hash))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;
    use crate::execution::Status;

    const WATERMARK: Watermark<'_> =
        Watermark { as_of: "10:20:14", system: "cluster", version: 90, applied_count: 3, schema: SHAPE };

    fn event(event_id: i64, event_type: &str) -> Event {
        let event = Event::bare(Id::new(7), Id::new(event_id), Id::new(3), event_type, DateTime::UNIX_EPOCH);
        Event { node_name: Some("a".into()), ..event }
    }

    fn projection(events: &[Event]) -> Projection {
        let mut projection = Projection::default();
        for event in events {
            projection.fold(event);
        }
        projection
    }

    #[test]
    fn projection_counts_its_events_and_keeps_the_highest_id() {
        let events = [event(10, "playbook_started"), event(30, "playbook_completed"), event(20, "unknown")];
        let folded = projection(&events);
        assert_eq!((folded.version, folded.applied_count), (Some(Id::new(30)), 3));
        assert_eq!(folded.state.status(), Status::Completed);
        let empty = projection(&[]);
        assert_eq!((empty.version, empty.applied_count), (None, 0));
    }

    #[test]
    fn a_projection_is_within_a_moment_that_none_of_its_events_exceeds() {
        let seconds = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let late = Event { created_at: seconds(9), ..event(10, "playbook_started") };
        let folded = projection(&[late, Event { created_at: seconds(5), ..event(30, "playbook_completed") }]);
        assert!(folded.is_within(Moment::Event(Id::new(30))) && !folded.is_within(Moment::Event(Id::new(29))));
        assert!(folded.is_within(Moment::Time(seconds(9))) && !folded.is_within(Moment::Time(seconds(8))));
        let empty = projection(&[]);
        assert!(empty.is_within(Moment::Event(Id::new(1))) && empty.is_within(Moment::Time(seconds(0))));
    }

    #[test]
    fn a_log_with_a_start_an_end_or_a_step_is_an_executions() {
        for event_type in ["playbook_started", "playbook_completed", "step.enter"] {
            assert!(projection(&[event(10, event_type)]).is_execution(), "{event_type}");
        }
        let subscription = [event(10, "subscription.registered"), event(20, "subscription.message.deduplicated")];
        assert!(!projection(&subscription).is_execution());
        assert!(!projection(&[]).is_execution());
    }

    #[test]
    fn states_have_another_version_for_each_source_of_the_status() {
        let (end, steps) = (shape_for(StatusSource::End), shape_for(StatusSource::Steps));
        assert_eq!(end, SHAPE);
        assert!(steps != end && (0..1_000_000_000).contains(&steps), "{steps}");
    }

    #[test]
    fn checksum_is_the_sha_256_of_the_canonical_json() {
        let state: Value = serde_json::from_str(r#"{ "b": [1, null], "a": "ß" }"#).unwrap();
        let canonical = format!(
            r#"{{"applied_count":3,"as_of":"10:20:14","schema":{SHAPE},"state":{{"a":"ß","b":[1,null]}},"system":"cluster","version":90}}"#
        );
        let hexadecimal: Vec<String> = Sha256::digest(canonical).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(checksum(&state, WATERMARK).unwrap(), hexadecimal.concat());
    }

    #[test]
    fn checksum_covers_the_state_and_every_part_of_the_watermark() {
        let state = json!({"a": 1});
        let changed = [
            checksum(&json!({"a": 2}), WATERMARK),
            checksum(&state, Watermark { as_of: "10:20:15", ..WATERMARK }),
            checksum(&state, Watermark { system: "other", ..WATERMARK }),
            checksum(&state, Watermark { version: 91, ..WATERMARK }),
            checksum(&state, Watermark { applied_count: 4, ..WATERMARK }),
            checksum(&state, Watermark { schema: shape_for(StatusSource::Steps), ..WATERMARK }),
        ];
        for other in changed {
            assert_ne!(checksum(&state, WATERMARK).unwrap(), other.unwrap());
        }
    }
}
