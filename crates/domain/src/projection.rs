//! Projections: a folded log with its watermark, and the checksum of the stored form.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::event::Event;
use super::ids::Id;
use super::workflow::WorkflowState;

/// Version of the state's stored shape. Raise it when [`WorkflowState`] changes: snapshots with another version are
/// ignored, and the log is folded instead.
pub const SHAPE: i32 = 1;

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
    /// Folds one more event, which must not be folded yet.
    pub fn fold(&mut self, event: &Event) {
        self.state.fold(event);
        self.version = self.version.max(Some(event.event_id));
        self.applied_count += 1;
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
}

/// Returns the SHA-256, in hexadecimal, of the canonical JSON (sorted keys, no spaces) of the state and its watermark.
#[must_use]
pub fn checksum(state: &Value, watermark: Watermark<'_>) -> String {
    let Watermark { as_of, system, version, applied_count } = watermark;
    let sealed = json!({
        "applied_count": applied_count, "as_of": as_of, "schema": SHAPE, "state": state, "system": system,
        "version": version,
    });
    let nibbles = Sha256::digest(sealed.to_string()).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect()
}
