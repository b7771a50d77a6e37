//! A folded log with its watermark, and the stored form of it (SPEC, "Projection and snapshots").

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::event::Event;
use super::ids::Id;
use super::workflow::WorkflowState;

/// The version of the state's stored shape. To be raised when [`WorkflowState`] changes: snapshots of another version are
/// rebuilt from the log.
pub const SHAPE: i32 = 1;

/// An execution's state and what went into it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Projection {
    /// The fold of its events.
    pub state: WorkflowState,
    /// The highest event id folded; `None` before the first.
    pub version: Option<Id>,
    /// How many events were folded.
    pub applied_count: i64,
}

impl Projection {
    /// Takes one more event into account, which must not be in yet.
    pub fn fold(&mut self, event: &Event) {
        self.state.fold(event);
        self.version = self.version.max(Some(event.event_id));
        self.applied_count += 1;
    }

    /// Whether this is the log of an execution, rather than of a source subscription.
    #[must_use]
    pub fn is_execution(&self) -> bool {
        let state = &self.state;
        !(state.started.is_empty() && state.ended.is_empty() && state.steps().is_empty())
    }
}

/// What a checksum covers beside the state: where a flipped byte would make a delta inexact.
#[derive(Debug, Clone, Copy)]
pub struct Watermark<'a> {
    /// The text of the `pg_snapshot` that the state was folded at.
    pub as_of: &'a str,
    /// The database cluster whose transactions that counts.
    pub system: &'a str,
    /// The highest event id folded.
    pub version: i64,
    /// How many events were folded.
    pub applied_count: i64,
}

/// SHA-256, in hexadecimal, of the canonical JSON (sorted keys, no spaces) of the state and its watermark.
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
