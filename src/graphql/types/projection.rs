//! An execution's state: steps, loops, and the snapshot behind it.

use async_graphql::{Enum, ID, SimpleObject};
use chrono::{DateTime, Utc};

use crate::domain::workflow::{self, StepState, WorkflowState};
use crate::graphql::access::READ;
use crate::graphql::scalars::{BigInt, Json, show_id};
use crate::storage::snapshots::Projected;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "workflow::StepStatus")]
pub enum StepStatus {
    /// Known, not entered.
    Pending,
    /// Entered.
    Entered,
    /// A command was handed out.
    CommandIssued,
    /// A worker took the command.
    CommandClaimed,
    /// A worker began the command.
    CommandStarted,
    /// Ended as intended.
    Completed,
    /// Ended by a failure.
    Failed,
    /// Left out by its condition.
    Skipped,
}

/// A step of an execution, as its current run stands: a step that the workflow comes back to begins anew.
#[derive(Debug, Clone, SimpleObject)]
pub struct Step {
    /// Its name, unique in the workflow.
    name: String,
    /// Where it stands.
    status: StepStatus,
    /// How often it was tried; 0 before its first command.
    attempt: i32,
    /// When it was entered.
    entered_at: Option<DateTime<Utc>>,
    /// When it completed, failed or was skipped.
    completed_at: Option<DateTime<Utc>>,
    /// What it gave. A loop's is what its end gave; what each iteration gave is in the log.
    #[graphql(guard = "READ")]
    result: Option<Json>,
    /// What went wrong last, until it completed.
    #[graphql(guard = "READ")]
    error: Option<String>,
    /// How far its loop is; `null` when it is none.
    iterations: Option<StepIterations>,
    /// The frames of its cursor loop, in order; `null` when it is none.
    frames: Option<Vec<CursorFrame>>,
}

/// How far a loop is.
#[derive(Debug, Clone, SimpleObject)]
pub struct StepIterations {
    /// How many there will be; of a loop that does not know, how many were handed out.
    expected: i32,
    /// How many were handed out.
    dispatched: i32,
    /// How many completed.
    completed: i32,
}

/// How far one frame of a cursor loop is: the rows that one claim took.
#[derive(Debug, Clone, SimpleObject)]
pub struct CursorFrame {
    /// Its number, from 0.
    index: i32,
    /// Whether its rows were taken.
    claim_completed: bool,
    /// Rows handed out.
    body_issued: i32,
    /// Rows done.
    body_completed: i32,
}

/// A stored state. Reading begins with it and adds what came since, so it only saves time.
#[derive(Debug, Clone, SimpleObject)]
pub struct ProjectionSnapshot {
    /// The highest event id in it.
    version: ID,
    /// How many events are in it.
    applied_count: BigInt,
    /// SHA-256 of the canonical JSON of the state and its watermark, in hexadecimal.
    checksum: String,
    /// The version of the state's stored shape.
    schema_version: i32,
    /// When it was stored.
    updated_at: DateTime<Utc>,
    /// How many events of the log are not in it.
    behind_by: BigInt,
}

impl ProjectionSnapshot {
    pub(super) fn of(projected: &Projected) -> Option<Self> {
        let snapshot = projected.snapshot.as_ref()?;
        Some(Self {
            version: show_id(snapshot.version),
            applied_count: BigInt(snapshot.applied_count),
            checksum: snapshot.checksum.clone(),
            schema_version: snapshot.schema,
            updated_at: snapshot.updated_at,
            behind_by: BigInt(projected.folded),
        })
    }
}

/// The steps of a state.
#[must_use]
pub fn steps(state: &WorkflowState) -> Vec<Step> {
    state.steps().into_iter().map(|(name, step)| Step::new(name, step)).collect()
}

impl Step {
    fn new(name: &str, step: &StepState) -> Self {
        let frames = step.frames().map(|frames| frames.into_iter().map(CursorFrame::from).collect());
        Self {
            name: name.to_owned(),
            status: step.status().into(),
            attempt: int(step.attempt()),
            entered_at: step.entered_at(),
            completed_at: step.ended_at(),
            result: step.result().cloned().map(Json),
            error: step.error().map(str::to_owned),
            iterations: step.iterations().map(StepIterations::from),
            frames,
        }
    }
}

impl From<workflow::Iterations> for StepIterations {
    fn from(workflow::Iterations { expected, dispatched, completed }: workflow::Iterations) -> Self {
        Self { expected: int(expected), dispatched: int(dispatched), completed: int(completed) }
    }
}

impl From<workflow::Frame> for CursorFrame {
    fn from(frame: workflow::Frame) -> Self {
        let workflow::Frame { index, claim_completed, body_issued, body_completed } = frame;
        Self { index: int(index), claim_completed, body_issued: int(body_issued), body_completed: int(body_completed) }
    }
}

/// A number that a worker may have made up, within what GraphQL's `Int` holds.
fn int(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}
