//! A worker: runs the steps of an execution, and reports them to the server.
//!
//! A report is sent until the server acknowledges it. Its events have ids that the server reserved, so an event whose
//! response was lost is not stored twice. The response has the status of the execution, so a cancellation ends the run.
//! Steps that are completed or skipped in the execution's state are not run again.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::super::client::ClientError;
use super::api::{Api, Run, has_ended};
use super::script::{self, FailureMode};
use super::{Outcome, with_retries};

/// Maximum number of ids that the server reserves in one request.
const IDS: usize = 1000;
/// Interval, in executions, at which one has retried failures (`MIXED`).
const MIXED_EVERY: u64 = 4;
/// Interval, in executions, at which one fails (`BAD`).
const BAD_EVERY: u64 = 15;

/// Runs executions.
pub(super) struct Worker {
    pause: Duration,
    taken: AtomicU64,
    running: Mutex<HashSet<String>>,
}

impl Worker {
    /// Creates a worker that waits for `pause` between two reports of an execution.
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, taken: AtomicU64::new(1), running: Mutex::default() }
    }

    /// Claims a message within this process. Returns false if it is running already.
    pub(super) fn begin(&self, message: &str) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(message.to_owned())
    }

    /// Releases the claim of a message.
    pub(super) fn end(&self, message: &str) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(message);
    }

    /// Runs an execution until it ends. It may also be ended by another caller.
    pub(super) async fn run(&self, api: &Api, run: Run) -> Result<Outcome, ClientError> {
        let luck = match self.taken.fetch_add(1, Ordering::Relaxed) {
            number if number % BAD_EVERY == 0 => FailureMode::Bad,
            number if number % MIXED_EVERY == 0 => FailureMode::Mixed,
            _ => FailureMode::Good,
        };
        let mut steps = script::steps(&run.workflow, &run.workload);
        steps.retain(|step| !run.has_done(&step.name));
        let mut events = script::events(&steps, luck);
        // All ids are reserved before the first report: a later cancellation has a larger id, so it stays.
        for part in events.chunks_mut(IDS) {
            let count = part.len();
            let ids = with_retries(async || api.reserve_event_ids(count).await).await?;
            for (event, id) in part.iter_mut().zip(ids) {
                event["eventId"] = id.into();
                event["executionId"] = run.id.as_str().into();
            }
        }
        let mut status = run.status;
        for (number, report) in script::reports(&events).enumerate() {
            if number > 0 {
                sleep(self.pause).await;
            }
            status = with_retries(async || api.project(report).await).await?;
            if has_ended(&status) {
                break;
            }
        }
        Ok(match status.as_str() {
            "COMPLETED" => Outcome::Completed,
            "FAILED" => Outcome::Failed,
            _ => Outcome::Left,
        })
    }
}
