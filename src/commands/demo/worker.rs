//! A worker: reads the steps of an execution, runs them, and reports each to the server.
//!
//! A report is sent until the server acknowledges it. Its events keep their keys, so an event whose response was lost is
//! not stored twice. Steps that are completed or skipped in the execution's state are not run again.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::client::ClientError;
use super::api::{Api, Run};
use super::script::{self, Draft, FailureMode};
use super::{Outcome, with_retries};
use noetl_runtime::clock;

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
    /// Creates a worker that waits for `pause` after each report.
    pub(super) fn new(pause: Duration) -> Self {
        Self { pause, taken: AtomicU64::new(1), running: Mutex::default() }
    }

    /// Claims an execution within this process. Returns false if it is running already.
    pub(super) fn begin(&self, id: &str) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned())
    }

    /// Releases the claim of an execution.
    pub(super) fn end(&self, id: &str) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Returns whether the execution has ended.
    pub(super) async fn has_ended(&self, api: &Api, id: &str) -> Result<bool, ClientError> {
        Ok(with_retries(async || api.run(id).await).await?.has_ended())
    }

    /// Runs an execution until it ends. It may also be ended by another caller.
    pub(super) async fn run(&self, api: &Api, id: &str) -> Result<Outcome, ClientError> {
        let luck = match self.taken.fetch_add(1, Ordering::Relaxed) {
            number if number % BAD_EVERY == 0 => FailureMode::Bad,
            number if number % MIXED_EVERY == 0 => FailureMode::Mixed,
            _ => FailureMode::Good,
        };
        let run = with_retries(async || api.run(id).await).await?;
        let mut failed_at = None;
        for step in script::steps(&run.workflow, &run.workload) {
            let now = with_retries(async || api.run(id).await).await?;
            if now.has_ended() {
                return Ok(Outcome::EndedElsewhere);
            }
            if now.has_done(&step.name) {
                continue;
            }
            let (reports, well) = script::play(&step, luck);
            for report in reports {
                self.report(api, &run, report).await?;
                sleep(self.pause).await;
            }
            if !well {
                failed_at = Some(step.name);
                break;
            }
        }
        self.report(api, &run, script::ending(failed_at.as_deref())).await?;
        Ok(if failed_at.is_some() { Outcome::Failed } else { Outcome::Completed })
    }

    async fn report(&self, api: &Api, run: &Run, drafts: Vec<Draft>) -> Result<(), ClientError> {
        let at = clock::now().to_rfc3339();
        let mut events = Vec::with_capacity(drafts.len());
        for (number, Draft(mut event)) in drafts.into_iter().enumerate() {
            event.insert("idempotencyKey".to_owned(), json!(format!("{at} {number}")));
            event.insert("executionId".to_owned(), json!(run.id));
            event.insert("createdAt".to_owned(), json!(at));
            events.push(Value::Object(event));
        }
        with_retries(async || api.project(&events).await).await
    }
}
