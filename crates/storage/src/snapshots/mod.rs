//! Projections of executions: a stored snapshot plus a fold of exactly the events that are not in it.
//!
//! A snapshot carries the `pg_snapshot` at which it was folded; the delta is the set of the log's events that this does
//! not see. So each event is folded once, for any id and any commit time. A read is one statement, or one repeatable-read
//! transaction if there are many events, so the snapshots, the deltas and the transaction snapshot of the result belong to
//! the same point in time.
//!
//! A stored state is sealed: it has no records of a loop's iterations that are completed without an error, and so not
//! their results, which are read from the log. If a later event contradicts such an iteration, the log is folded again
//! from its start.
//!
//! Transaction ids are valid only within one database cluster, so a snapshot from another one (a restored dump) is not
//! used, and none that was folded before the events of the dump got ids of this one. A promoted physical copy has a
//! prefix of the same history, so its snapshots are valid. A state that was read before a crash is not stored after it:
//! the server may assign transaction ids again that the crash has lost (`migrations/0004_execution.sql`).

mod load;
mod loop_results;
mod outdated;
mod rows;
mod save;

use chrono::{DateTime, Utc};

use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::projection::{Moment, Projection};
use noetl_domain::tenant::Tenancy;
use noetl_domain::workflow::Start;

pub use load::{read, read_at, read_within};
pub use loop_results::{LoopOfState, loop_results};
pub use outdated::outdated;
pub use save::{begin_life, save};

/// Aggregate type under which the states of executions are stored. It differs from that of NoETL's own snapshots,
/// `orchestrator_workflow_state`, which have another shape and stay unchanged.
pub(crate) const AGGREGATE: &str = "noetl_graphql_workflow_state";

/// A valid stored snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotInfo {
    /// Highest event id in the snapshot.
    pub version: Id,
    /// Number of events in the snapshot.
    pub applied_count: i64,
    /// SHA-256 checksum in hexadecimal.
    pub checksum: String,
    /// Version of the state's shape.
    pub schema: i32,
    /// Time at which it was stored.
    pub updated_at: DateTime<Utc>,
}

/// State of an execution at one point in time.
#[derive(Debug, Clone)]
pub struct Projected {
    /// Execution of the state.
    pub execution_id: Id,
    /// Tenant and organization of the execution.
    pub tenancy: Tenancy,
    /// Fold of all committed events of its log, or of those up to a moment.
    pub projection: Projection,
    /// Stored snapshot at which the fold started; `None` if the fold started at the beginning.
    pub snapshot: Option<SnapshotInfo>,
    /// Number of events that were not in the snapshot.
    pub folded: i64,
    /// Reason that a stored snapshot was not used.
    pub defect: Option<Defect>,
    /// Whether the stored snapshot has the started event. Then the row of the list was stored with the labels.
    pub start_is_stored: bool,
    /// Labels of the catalog document, for an execution whose started event names none. They are not part of the state.
    pub document_labels: Labels,
    /// Transaction snapshot of the stored snapshot, in text form.
    base: String,
    /// Transaction snapshot of the projection, in text form.
    as_of: String,
    system: String,
    /// Life of the server that it was read from; `None`: unknown.
    life: Option<String>,
    /// Checksum of a stored snapshot that was not used.
    unusable: Option<String>,
    /// Moment in the history up to which the log is folded; `None`: the whole log.
    until: Option<Moment>,
}

impl Projected {
    /// Returns whether the state can be stored: the life of its server is known. See [`begin_life`].
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.life.is_some()
    }

    /// Returns the start of an execution whose started event names no labels.
    #[must_use]
    pub fn unlabelled_start(&self) -> Option<&Start> {
        self.projection.state.started.get().filter(|start| start.labels.is_empty())
    }

    /// Returns the labels of the execution: those of its started event, or if it names none, those of its document.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        let named = self.projection.state.started.get().map(|start| &start.labels);
        named.filter(|labels| !labels.is_empty()).unwrap_or(&self.document_labels)
    }

    /// Returns whether both are the same state: of one execution, and of the same events of its log.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.execution_id, one.until);
        key(self) == key(other) && self.as_of == other.as_of
    }

    /// Returns the approximate size of the stored state in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let mut written = Written(0);
        serde_json::to_writer(&mut written, &self.projection.state).map_or(usize::MAX, |()| written.0)
    }
}

/// Number of bytes that were written, and are not kept.
struct Written(usize);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reason that a stored snapshot can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Its state has another or unknown shape.
    Shape,
    /// It was changed after it was stored.
    Checksum,
    /// Its transaction ids belong to another database cluster.
    OtherDatabase,
    /// A later event contradicts a completed iteration whose record the snapshot lacks.
    Contradicted,
}

impl Defect {
    /// Returns the name for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Checksum => "checksum",
            Self::OtherDatabase => "other_database",
            Self::Contradicted => "contradicted",
        }
    }
}
