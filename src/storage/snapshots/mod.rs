//! Executions' projections: the stored snapshot, and exactly what is not in it yet.
//!
//! A snapshot notes the `pg_snapshot` that it was folded at; the delta is what that does not see of the log. So each event
//! is folded once, whatever its id and however late its transaction committed. Reading takes one repeatable-read
//! transaction: the snapshots, the deltas and the transaction snapshot that the result is as of are of one moment.
//!
//! Transaction ids mean something only within one database cluster: a snapshot of another one (a dump that was restored)
//! is not used. A physical copy that took over has a prefix of the same history, so its snapshots hold.

mod load;
mod save;

use chrono::{DateTime, Utc};

use crate::domain::ids::Id;
use crate::domain::projection::Projection;

pub use load::read;
pub use save::save;

/// The aggregate that executions' states are stored as.
const AGGREGATE: &str = "orchestrator_workflow_state";

/// A stored snapshot that was found good.
#[derive(Debug, Clone)]
pub struct SnapshotInfo {
    /// The highest event id in it.
    pub version: Id,
    /// How many events are in it.
    pub applied_count: i64,
    /// SHA-256 in hexadecimal.
    pub checksum: String,
    /// The version of the state's shape.
    pub schema: i32,
    /// When it was stored.
    pub updated_at: DateTime<Utc>,
}

/// An execution's state at one moment.
#[derive(Debug, Clone)]
pub struct Projected {
    /// Whose.
    pub execution_id: Id,
    /// All committed events of its log, folded.
    pub projection: Projection,
    /// The snapshot that it began with; `None`: all of the log was read.
    pub snapshot: Option<SnapshotInfo>,
    /// How many events were not in the snapshot.
    pub folded: i64,
    /// Why a stored snapshot was not used.
    pub defect: Option<Defect>,
    /// What is in the snapshot.
    base: String,
    /// What is in the projection.
    as_of: String,
    system: String,
    /// The checksum of a stored snapshot that was not used.
    unusable: Option<String>,
}

impl Projected {
    /// Roughly how many bytes storing it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        serde_json::to_vec(&self.projection.state).map_or(usize::MAX, |text| text.len())
    }
}

/// Why a stored snapshot can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// Its state has another shape, or none that this server knows.
    Shape,
    /// It was changed since it was stored.
    Checksum,
    /// Its transaction ids are those of another database.
    OtherDatabase,
}

impl Defect {
    /// A name for metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Checksum => "checksum",
            Self::OtherDatabase => "other_database",
        }
    }
}
