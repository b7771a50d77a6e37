//! Storing events of workers: 1 to 5000 per batch, of any executions.

mod document;
mod draft;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::{Rejection, ServiceError};
use crate::outbox::ClaimRef;
use noetl_domain::tenant::Caller;

pub use draft::{EventDraft, MAX_EVENT_BYTES};

/// Maximum number of events in one batch.
pub const MAX_EVENTS: usize = 5000;

/// An event of a batch, or the reason why it could not be read.
pub type Draft = Result<EventDraft, Rejection>;

/// Result of a batch. Every event is counted once.
#[derive(Debug, Default)]
pub struct IngestOutcome {
    /// Number of events stored.
    pub projected: usize,
    /// Number of duplicates skipped.
    pub duplicates: usize,
    /// Errors of the events that were not stored, by index in the batch.
    pub rejected: BTreeMap<usize, ServiceError>,
    /// Types of events that are in their log and that the fold does not know.
    pub unknown_types: BTreeSet<String>,
}

/// Events of workers, and the claim under which they were made.
#[derive(Debug)]
pub struct Batch {
    /// The events.
    pub events: Vec<Draft>,
    /// The claim. Its events are stored only while no other claim has taken its outbox row, and must be of the row's
    /// execution.
    pub claim: Option<ClaimRef>,
    /// Whether events of types that the fold does not know are rejected.
    pub strict: bool,
}

/// Storing events of workers.
///
/// A batch is idempotent: an event that is in the log, or earlier in the batch, with the same id or key and the same
/// content is skipped and counted. An event with a key gets an id when it is stored, larger than those of its log; the
/// ids of a batch increase in its order. An event whose id or key is stored with other content, that is malformed, that a
/// database refuses or whose shard is down is reported by its index, and the other events are stored. Events are not
/// checked against their log, because workers can report them in any order. Lifecycle events of source subscriptions are
/// refused: only transitions write them.
#[async_trait]
pub trait ProjectEvents: Debug + Send + Sync {
    /// Stores a batch. The stored events name the caller if it is identified. An event that is not in the caller's
    /// scope is rejected. A batch whose claim does not hold its row is refused.
    async fn project(&self, batch: Batch, caller: &Caller) -> Result<IngestOutcome, ServiceError>;
}
