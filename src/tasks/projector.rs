//! Keeps executions' snapshots and the list of executions current: finds the executions whose logs have grown since the
//! stored position, advances them, and stores the new position.
//!
//! The events are read from the shard, and their order does not matter. So it does no harm if an execution is advanced
//! twice, late or by two replicas, or if the process crashes before it stores the position.
//!
//! While a database is unavailable, the projector tries the same executions again every second. So snapshots and lists are
//! current soon after its return, however long it was away. An execution that could not be advanced for another reason is
//! deferred, each time for a longer pause. Deferred executions are stored with the position.
//!
//! Source subscriptions have logs too, but no state that is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_domain::tx_spans::Spans;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::crash_point;
use noetl_service::projections::Projections;
use noetl_storage::pools::Database;
use noetl_storage::projection_cursor::ProjectionCursor;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::projections::AdvanceProjections;

/// Time from the start of a pass with new events to the start of the next pass, or to another attempt to take the lock. So the state of an execution whose events arrive one by one is not
/// stored for each event, and lists lag less than a second behind the events.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time from one pass to the next while there are no new events.
const IDLE: Duration = Duration::from_millis(100);
/// Number of transaction ids whose events one statement finds.
const TRANSACTIONS: u64 = 10_000;
/// Number of executions after which the lag is reported.
const AT_ONCE: usize = 1000;
/// Pause after a failure, and before a deferred execution is tried again; the latter doubles up to [`MAX_RETRY`].
const RETRY: Duration = Duration::from_secs(1);
/// Longest pause before a deferred execution is tried again.
const MAX_RETRY: Duration = Duration::from_mins(1);
/// Number of attempts after which an execution is given up, unless the last one took too long.
const MAX_ATTEMPTS: u32 = 8;
/// Maximum number of deferred executions. With more, the list is filled from the logs.
const MAX_DEFERRED: usize = 1000;

/// Projector of one shard.
#[derive(Debug, Clone)]
pub struct Projector {
    /// Shard whose logs the projector reads.
    pub shard: ShardIndex,
    /// Its database.
    pub database: Arc<Database>,
    /// Service that advances executions.
    pub projections: Projections,
}

/// An execution that could not be advanced.
#[derive(Debug, Clone, Copy)]
struct Deferred {
    attempts: u32,
    /// Time of the next attempt.
    at: Instant,
}

impl Projector {
    /// Projects until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut logged = None;
        while let Some(Err(error)) = stop.run_until_cancelled(Box::pin(self.project())).await {
            let reason = Some(error.to_string());
            if reason != logged {
                tracing::info!(shard = self.shard, reason, "the projector can't read its shard now");
            }
            logged = reason;
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Projects until the database fails. Waits while another replica projects the shard.
    async fn project(&self) -> Result<Infallible, ServiceError> {
        let mut cursor = loop {
            match ProjectionCursor::take(&self.database).await? {
                Some(cursor) => break cursor,
                None => sleep(INTERVAL).await,
            }
        };
        let position = cursor.position().await?;
        let again = |id| (id, Deferred { attempts: 0, at: Instant::now() });
        let mut deferred: BTreeMap<Id, Deferred> = position.deferred.into_iter().map(again).collect();
        let (mut done, mut since) = (position.done, position.since);
        loop {
            let begun = Instant::now();
            let target = cursor.now().await?;
            let mut has_changed = false;
            for part in Spans::between(&done, &target).parts(TRANSACTIONS) {
                let grown = match cursor.grown(&part).await {
                    // A transaction wrote very many events.
                    Err(error) if error.timed_out().is_some() => {
                        tracing::warn!(shard = self.shard, %error, "the list of executions is filled from the logs");
                        self.projections.request_fill(self.shard).await?;
                        Vec::new()
                    }
                    grown => grown?,
                };
                has_changed |= !grown.is_empty();
                for ids in grown.chunks(AT_ONCE) {
                    self.advance(ids.iter().copied().collect(), &mut deferred, since).await;
                }
            }
            let due = deferred.iter().filter(|(_, one)| one.at <= begun).map(|(id, _)| *id).collect::<BTreeSet<_>>();
            has_changed |= !due.is_empty();
            self.advance(due, &mut deferred, since).await;
            if deferred.len() > MAX_DEFERRED {
                let reason = "too many executions can't be advanced now";
                tracing::warn!(shard = self.shard, reason, "the list of executions is filled from the logs");
                self.projections.request_fill(self.shard).await?;
                deferred.clear();
            }
            (done, since) = (target, begun);
            if has_changed {
                cursor.store(&done, &deferred.keys().copied().collect::<Vec<_>>()).await?;
                sleep_until(begun + INTERVAL).await;
            } else {
                self.report(Duration::ZERO);
                sleep_until(begun + IDLE).await;
            }
        }
    }

    /// Advances executions, and notes those that are to be tried again later. Tries again while a database is unavailable.
    /// All earlier events than `since` are projected.
    async fn advance(&self, mut ids: BTreeSet<Id>, deferred: &mut BTreeMap<Id, Deferred>, since: Instant) {
        while !ids.is_empty() {
            crash_point::reach("projector.taken");
            let advances = self.projections.advance(std::mem::take(&mut ids), &Scope::Unrestricted).await;
            crash_point::reach("projector.advanced");
            for (id, outcome) in advances {
                match outcome {
                    Err(error) if error.unavailable().is_some() => drop(ids.insert(id)),
                    Err(error) if !error.is_rejection() => defer(id, &error, deferred),
                    _ => {
                        metrics::counter!("noetl_projector_executions_total").increment(1);
                        deferred.remove(&id);
                    }
                }
            }
            self.report(since.elapsed());
            if !ids.is_empty() {
                metrics::counter!("noetl_projector_deferred_total").increment(ids.len() as u64);
                tracing::debug!(shard = self.shard, executions = ids.len(), "a database is unavailable; tries again");
                sleep(RETRY).await;
            }
        }
    }

    /// Sets the metric of the time for which events wait.
    fn report(&self, lag: Duration) {
        metrics::gauge!("noetl_projector_lag_seconds", "shard" => self.shard.to_string()).set(lag.as_secs_f64());
    }
}

/// Notes an execution that could not be advanced, or gives it up. Reads still return the exact state, from the log.
fn defer(execution: Id, error: &ServiceError, deferred: &mut BTreeMap<Id, Deferred>) {
    let attempts = deferred.get(&execution).map_or(0, |former| former.attempts) + 1;
    let is_last = attempts >= MAX_ATTEMPTS && error.timed_out().is_none();
    let error = WithCauses(error);
    if is_last {
        metrics::counter!("noetl_projector_given_up_total").increment(1);
        tracing::warn!(%execution, %error, attempts, "the projector gave up an execution until its next event");
        deferred.remove(&execution);
    } else {
        metrics::counter!("noetl_projector_deferred_total").increment(1);
        tracing::warn!(%execution, %error, attempts, "an execution can't be advanced now");
        let pause = RETRY.saturating_mul(1 << (attempts.min(16) - 1)).min(MAX_RETRY);
        deferred.insert(execution, Deferred { attempts, at: Instant::now() + pause });
    }
}
