//! State of an execution: its steps, their loops, and the snapshot that a read starts from.

use std::sync::Arc;

use async_graphql::{ComplexObject, Context, Enum, ID, Result, SimpleObject};

use super::loaders::LoopResultKey;
use crate::access::READ;
use crate::connection::{Countable, PageArguments, connection, id_cursor};
use crate::errors::field_error;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{BigInt, Json, Time, seconds_between, show_id, to_graphql_int};
use noetl_domain::cursor::{BadCursor, CursorKind, key_of_name};
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::workflow::{self, StepState, WorkflowState};
use noetl_storage::snapshots::Projected;
use noetl_use_cases::error::{Rejection, ServiceError};

/// Status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "workflow::StepStatus")]
pub enum StepStatus {
    /// Known, but not entered.
    Pending,
    /// Entered.
    Entered,
    /// A command was issued to the workers.
    CommandIssued,
    /// A worker claimed the command.
    CommandClaimed,
    /// A worker started the command. The step is also in this status while it waits for a callback.
    CommandStarted,
    /// Completed. If a command completed with an error, `error` has it.
    Completed,
    /// Ended with an error.
    Failed,
    /// Skipped because of its condition.
    Skipped,
}

/// A step of an execution, in its current run. A step that is entered again starts a new run.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub struct Step {
    /// Name of the step, unique in the workflow.
    name: String,
    /// Current status.
    status: StepStatus,
    /// Number of the attempt in the current run: that of the latest event that has one, else the number of commands (1 in
    /// a loop); 0 before the first command.
    attempt: i32,
    /// Time at which the step was entered or skipped.
    entered_at: Option<Time>,
    /// Time at which a worker started the command of the step; of several commands, the last one. Null before that.
    started_at: Option<Time>,
    /// Time at which the step completed, failed or was skipped; null before that.
    completed_at: Option<Time>,
    /// Seconds from `enteredAt` to `completedAt`; null before the end.
    duration_seconds: Option<f64>,
    /// Last error of the step. It is null after a command of the step completes without error, except if its call
    /// returned an error. In a loop, only the iteration that failed can clear its error.
    #[graphql(guard = "READ")]
    error: Option<String>,
    /// Progress of the loop; null if the step is not a loop. The iterations of a cursor loop are its rows.
    iterations: Option<StepIterations>,
    #[graphql(skip)]
    frames: Option<Vec<CursorFrame>>,
    #[graphql(skip)]
    outcome: Outcome,
}

/// Result of a step.
#[derive(Debug, Clone)]
enum Outcome {
    /// Part of the state.
    Known(Option<Json>),
    /// Only in the log, up to this state.
    InLog(Arc<Projected>),
}

#[ComplexObject]
impl Step {
    /// Result of the step: that of its last call, also before the step completes, else that of its completion. For a
    /// completed loop, the result of its end event; if that has none, the list of the results of its iterations, in the
    /// order in which they ended. A cursor loop has no such list.
    #[graphql(guard = "READ")]
    async fn result(&self, ctx: &Context<'_>) -> Result<Option<Json>> {
        match &self.outcome {
            Outcome::Known(result) => Ok(result.clone()),
            Outcome::InLog(state) => {
                let key = LoopResultKey { state: Arc::clone(state), step: self.name.clone() };
                let result = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
                Ok(result.transpose().map_err(field_error)?.flatten().map(Json))
            }
        }
    }

    /// Frames of the cursor loop, ordered by index; null if the step is not a cursor loop.
    async fn frames(
        &self,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<CursorFrameConnection>> {
        let request = PageArguments { first, after, last, before }.by_id(CursorKind::Frame).map_err(field_error)?;
        Ok(self.frames.as_ref().map(|frames| {
            let all = ListInMemory(frames.len());
            let page = page_between(frames.iter().map(|frame| (i64::from(frame.index), frame)).collect(), &request);
            let cursor = |frame: &CursorFrame| id_cursor(CursorKind::Frame, frame.index.into());
            CursorFrameConnection::new(all, page, Vec::new(), CursorFrame::clone, cursor)
        }))
    }
}

/// Returns a page of items, which are ordered by their numbers.
fn page_between<T>(mut items: Vec<(i64, T)>, request: &PageRequest<i64>) -> Page<T> {
    items.retain(|(number, _)| {
        request.after.is_none_or(|after| *number > after) && request.before.is_none_or(|before| *number < before)
    });
    if request.backwards {
        items.reverse();
    }
    request.cut(items.into_iter().map(|(_, item)| item).collect())
}

/// A list whose items are in memory, with their number.
#[derive(Debug)]
pub struct ListInMemory(usize);

impl Countable for ListInMemory {
    async fn total(&self, _: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        Ok(Total::of(i64::try_from(self.0).unwrap_or(i64::MAX), limit))
    }
}

impl Plain for Step {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        Some(match field {
            "name" => (&self.name).into(),
            "status" => PlainValue::of_enum::<StepStatus>(self.status),
            "attempt" => self.attempt.into(),
            "enteredAt" => self.entered_at.into(),
            "startedAt" => self.started_at.into(),
            "completedAt" => self.completed_at.into(),
            "durationSeconds" => self.duration_seconds.into(),
            "error" if reader.may_read => self.error.as_deref().into(),
            _ => return None,
        })
    }
}

impl Plain for CursorFrame {
    fn plain(&self, field: &str, _: &Reader<'_>) -> Option<PlainValue<'_>> {
        Some(match field {
            "index" => self.index.into(),
            "claimCompleted" => self.claim_completed.into(),
            "bodyIssued" => self.body_issued.into(),
            "bodyCompleted" => self.body_completed.into(),
            _ => return None,
        })
    }
}

connection!(CursorFrameConnection, CursorFrameEdge, CursorFrame, ListInMemory);
connection!(StepConnection, StepEdge, Step, ListInMemory);

/// Progress of a loop.
#[derive(Debug, Clone, SimpleObject)]
pub struct StepIterations {
    /// Expected number of iterations; if unknown, `dispatched`.
    expected: i32,
    /// Number of iterations with an event.
    dispatched: i32,
    /// Number of completed iterations.
    completed: i32,
    /// Number of iterations that ended with an error, and that no other command has completed without one. Those with a
    /// completion are in `completed` too.
    failed: i32,
}

/// Progress of one frame of a cursor loop. A frame is the set of rows that one claim took.
#[derive(Debug, Clone, SimpleObject)]
pub struct CursorFrame {
    /// Index of the frame, counted from 0.
    index: i32,
    /// Whether the claim of the rows is completed.
    claim_completed: bool,
    /// Number of rows issued to the workers.
    body_issued: i32,
    /// Number of completed rows.
    body_completed: i32,
}

/// A stored state of an execution. A read starts from it and folds only the events that are not in it.
#[derive(Debug, Clone, SimpleObject)]
pub struct ProjectionSnapshot {
    /// Highest event id in the snapshot.
    version: ID,
    /// Number of events in the snapshot.
    applied_count: BigInt,
    /// SHA-256 of the canonical JSON of the state and its watermark, in hexadecimal.
    checksum: String,
    /// Version of the format in which the state is stored.
    schema_version: i32,
    /// Time at which the snapshot was stored.
    updated_at: Time,
    /// Number of events of the log that are not in the snapshot.
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
            updated_at: Time(snapshot.updated_at),
            behind_by: BigInt(projected.folded),
        })
    }
}

/// Progress of an execution.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub struct ExecutionProgress {
    /// Number of steps that completed or were skipped.
    steps_completed: i32,
    /// Number of steps that the log names. It grows while the execution reaches further steps.
    steps_known: i32,
}

impl ExecutionProgress {
    pub(super) fn of(state: &WorkflowState) -> Self {
        let steps = state.steps();
        let is_done =
            |step: &StepState| matches!(step.status(), workflow::StepStatus::Completed | workflow::StepStatus::Skipped);
        let completed = steps.iter().filter(|(_, step)| is_done(step)).count();
        let int = |count: usize| to_graphql_int(i64::try_from(count).unwrap_or(i64::MAX));
        Self { steps_completed: int(completed), steps_known: int(steps.len()) }
    }
}

impl StepConnection {
    /// Returns a page of the steps of a state. The cursor of a step contains a key of its name, so it stays valid when
    /// other steps begin.
    pub(super) fn page(
        projected: Option<&Arc<Projected>>,
        arguments: PageArguments,
    ) -> std::result::Result<Self, Rejection> {
        let empty = WorkflowState::default();
        let state = projected.map_or(&empty, |projected| &projected.projection.state);
        let request = arguments.by_id(CursorKind::Step)?;
        let steps = state.steps();
        let index = |field: &str, key: Option<i64>| {
            let Some(key) = key else { return Ok(None) };
            let index = (0_i64..).zip(&steps).find(|(_, (name, _))| key_of_name(name) == key).map(|(index, _)| index);
            index.map(Some).ok_or_else(|| Rejection::invalid(field, BadCursor.to_string()))
        };
        let request = request.between(index("after", request.after)?, index("before", request.before)?);
        let all = ListInMemory(steps.len());
        let page = page_between((0..).zip(steps).collect(), &request);
        let cursor = |step: &Step| id_cursor(CursorKind::Step, key_of_name(&step.name));
        Ok(Self::new(all, page, Vec::new(), |(name, step)| Step::of_state(name, step, projected), cursor))
    }
}

impl Step {
    fn of_state(name: &str, step: &StepState, projected: Option<&Arc<Projected>>) -> Self {
        let in_log = projected.filter(|_| step.has_result_in_log()).cloned().map(Outcome::InLog);
        let known = Self::new(name, step);
        Self { outcome: in_log.unwrap_or(known.outcome), ..known }
    }

    /// Returns a step of a state, with its name. It lacks a result that is only in the log.
    #[must_use]
    pub fn new(name: &str, step: &StepState) -> Self {
        let frames = step.frames().map(|frames| frames.into_iter().map(CursorFrame::from).collect());
        Self {
            name: name.to_owned(),
            status: step.status().into(),
            attempt: to_graphql_int(step.attempt()),
            entered_at: step.entered_at().map(Time),
            started_at: step.started_at().map(Time),
            completed_at: step.ended_at().map(Time),
            duration_seconds: seconds_between(step.entered_at(), step.ended_at()),
            error: step.error().map(str::to_owned),
            iterations: StepIterations::of(step),
            frames,
            outcome: Outcome::Known(step.result().map(Json)),
        }
    }
}

impl StepIterations {
    fn of(step: &StepState) -> Option<Self> {
        let workflow::Iterations { expected, dispatched, completed } = step.iterations()?;
        Some(Self {
            expected: to_graphql_int(expected),
            dispatched: to_graphql_int(dispatched),
            completed: to_graphql_int(completed),
            failed: to_graphql_int(step.failed_iterations()?),
        })
    }
}

impl From<workflow::Frame> for CursorFrame {
    fn from(frame: workflow::Frame) -> Self {
        let workflow::Frame { index, claim_completed, body_issued, body_completed } = frame;
        Self {
            index: to_graphql_int(index),
            claim_completed,
            body_issued: to_graphql_int(body_issued),
            body_completed: to_graphql_int(body_completed),
        }
    }
}
