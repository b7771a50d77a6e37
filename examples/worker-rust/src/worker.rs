//! A worker: claims entries of a pool, runs their executions step by step, and follows all events live.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::api::{Api, ApiError};
use crate::journal::Journal;
use crate::operations::{
    Claim, Delivered, Failed, Follow, Report, ReserveIds, Run, claim, delivered, failed, follow, report, reserve_ids,
    run,
};

const POLL: Duration = Duration::from_secs(5);
const RECONNECT: Duration = Duration::from_millis(500);

pub struct Worker {
    pub api: Api,
    pub pool: String,
    pub lease_seconds: i64,
    pub step_time: Duration,
    pub wake: Notify,
}

impl Worker {
    /// Claims entries of the pool and runs their executions. A started execution wakes it; the poll finds the entries
    /// whose wake-up was lost and those whose lease expired.
    pub async fn work(&self) -> Result<(), ApiError> {
        loop {
            let filter = claim::OutboxClaimFilter { pools: Some(vec![self.pool.clone()]), subject_prefix: None };
            let input = claim::ClaimOutboxInput {
                select: claim::OutboxClaimSelector::Filter(filter),
                claimant: Some(format!("worker-rust-{}", std::process::id())),
                limit: Some(10),
                lease_seconds: Some(self.lease_seconds),
                max_attempts: None,
                shard: None,
            };
            let claimed = self.api.send::<Claim>(claim::Variables { input }).await?.claim_outbox;
            let claims = claimed.map(|payload| payload.claims).unwrap_or_default();
            let handled = join_all(claims.iter().map(|entry| self.handle(entry))).await;
            handled.into_iter().collect::<Result<(), _>>()?;
            if claims.is_empty() {
                let poll = POLL.min(Duration::from_secs(self.lease_seconds.unsigned_abs()));
                let _ = timeout(poll, self.wake.notified()).await;
            }
        }
    }

    /// Runs the execution of a claimed entry, and settles the entry.
    async fn handle(&self, entry: &claim::ClaimClaimOutboxClaims) -> Result<(), ApiError> {
        let (entry_id, lease) = (entry.entry_id.clone(), entry.lease.clone());
        match self.run(entry).await {
            Err(ApiError::Refused(error)) => {
                // The lease was lost, or the execution can't continue. If the lease was lost, this is refused too.
                eprintln!("entry {entry_id}: {error}");
                let failures = vec![failed::OutboxFailureInput { entry_id, lease, error }];
                let input = failed::MarkOutboxFailedInput { failures, max_delay_seconds: None };
                if let Err(error) = self.api.send::<Failed>(failed::Variables { input }).await {
                    eprintln!("{error}");
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Runs the steps that are not done yet, in the order of the document. The last report also completes the execution
    /// and settles the entry.
    async fn run(&self, entry: &claim::ClaimClaimOutboxClaims) -> Result<(), ApiError> {
        let id = entry.execution_id.clone().ok_or_else(|| refused("the entry has no execution"))?;
        // Read by itself: an execution that can't be read fails its own entry, and not those that were claimed with it.
        let execution = self.api.send::<Run>(run::Variables { id }).await?.execution;
        let execution = execution.ok_or_else(|| refused("the execution does not exist"))?;
        let workflow = execution.catalog_entry.as_ref().and_then(|entry| entry.workflow.as_ref());
        let names = workflow.into_iter().flat_map(|workflow| &workflow.steps).map(|step| step.name.as_str());
        let mut left: VecDeque<&str> = names.filter(|name| !has_done(&execution, name)).collect();
        // Three events for each step, and one for the end. A later cancellation has a larger id, so it stays.
        let variables = reserve_ids::Variables { count: i64::try_from(3 * left.len() + 1).unwrap_or(i64::MAX) };
        let reserved = self.api.send::<ReserveIds>(variables).await?.reserve_event_ids;
        let mut ids = reserved.map(|payload| payload.event_ids).unwrap_or_default().into_iter();
        let (mut ended, mut settled) = (has_ended(&execution.status), false);
        // The execution can be cancelled at any time. If the lease is lost, another worker continues it.
        while !ended && !settled {
            let mut events = match left.pop_front() {
                Some(name) => self.step(name, execution.workload.as_ref()).await,
                None => Vec::new(),
            };
            settled = left.is_empty();
            if settled {
                events.push(event("playbook.completed", "COMPLETED"));
            }
            let named = events.into_iter().zip(&mut ids).map(|(event, event_id)| report::EventInput {
                event_id: Some(event_id),
                execution_id: execution.id.clone(),
                ..event
            });
            ended = self.report(named.collect(), entry, settled).await?;
        }
        if settled {
            eprintln!("execution {} has ended", execution.id);
        } else {
            let claim = delivered::OutboxClaimRef { entry_id: entry.entry_id.clone(), lease: entry.lease.clone() };
            let input = delivered::MarkOutboxPublishedInput { claims: vec![claim] };
            self.api.send::<Delivered>(delivered::Variables { input }).await?;
        }
        Ok(())
    }

    /// Does the work of a step, and returns its events. A real worker calls the step's tool.
    async fn step(&self, name: &str, workload: Option<&Value>) -> Vec<report::EventInput> {
        sleep(self.step_time).await;
        let fields = workload.and_then(Value::as_object).map_or(0, serde_json::Map::len);
        let meta = Some(json!({ "command_id": format!("{name}:1"), "attempt": 1 }));
        let result = Some(json!({ "data": { "step": name, "fields": fields } }));
        let done = report::EventInput { meta: meta.clone(), result, ..event("call.done", "COMPLETED") };
        let completed = report::EventInput { meta, ..event("command.completed", "success") };
        let events = [event("step.enter", "ENTERED"), done, completed].into_iter();
        events.map(|event| report::EventInput { node_name: Some(name.to_owned()), ..event }).collect()
    }

    /// Stores events of an execution, unless another worker has claimed its entry, and settles the entry or renews its
    /// lease. Returns whether the execution has ended. A repeat has the same ids, so no event is stored twice.
    async fn report(
        &self,
        events: Vec<report::EventInput>,
        entry: &claim::ClaimClaimOutboxClaims,
        settle: bool,
    ) -> Result<bool, ApiError> {
        let claim = report::OutboxClaimRef { entry_id: entry.entry_id.clone(), lease: entry.lease.clone() };
        let variables = report::Variables { events, claim, settle, lease_seconds: self.lease_seconds };
        let payload = self.api.send::<Report>(variables).await?.project_events;
        let execution = payload.and_then(|payload| payload.executions.into_iter().next());
        Ok(has_ended(&execution.ok_or_else(|| refused("the execution does not exist"))?.status))
    }

    /// Writes every event to the journal. Continues after the last stored one when the connection returns.
    pub async fn follow(&self, mut journal: Journal) -> Result<(), ApiError> {
        loop {
            match self.follow_once(&mut journal).await {
                Err(ApiError::Unavailable(reason)) => eprintln!("the live stream broke: {reason}"),
                outcome => outcome?,
            }
            sleep(RECONNECT).await;
        }
    }

    async fn follow_once(&self, journal: &mut Journal) -> Result<(), ApiError> {
        let start = match journal.cursor() {
            Some(cursor) => follow::EventStart::After(cursor.to_owned()),
            None => follow::EventStart::Beginning(true),
        };
        let mut items = Box::pin(self.api.follow::<Follow>(follow::Variables { start }).await?);
        while let Some(item) = items.next().await {
            let item = match item?.events {
                follow::FollowEvents::EventDelivery(delivery) => json!({
                    "cursor": delivery.cursor,
                    "event": {
                        "eventId": delivery.event.event_id,
                        "executionId": delivery.event.execution_id,
                        "type": delivery.event.type_,
                        "nodeName": delivery.event.node_name,
                        "status": delivery.event.status,
                    },
                }),
                follow::FollowEvents::StreamGap(gap) => {
                    eprintln!("shard {} has a gap: {:?}", gap.shard, gap.reason);
                    json!({ "cursor": gap.cursor, "gap": { "shard": gap.shard, "from": gap.from, "to": gap.to } })
                }
                _ => continue,
            };
            let added = journal.add(&item).map_err(|error| refused(&error.to_string()))?;
            if added && item["event"]["type"] == "playbook_started" {
                self.wake.notify_one();
            }
        }
        Ok(())
    }
}

fn refused(reason: &str) -> ApiError {
    ApiError::Refused(reason.to_owned())
}

fn event(event_type: &str, status: &str) -> report::EventInput {
    report::EventInput {
        type_: event_type.to_owned(),
        status: Some(status.to_owned()),
        ..report::EventInput::default()
    }
}

/// Returns whether a status, of any operation, is that of an execution that has ended.
fn has_ended(status: &impl Serialize) -> bool {
    ["COMPLETED", "FAILED", "CANCELLED"].iter().any(|ended| json!(status) == *ended)
}

fn has_done(execution: &run::RunExecution, name: &str) -> bool {
    use run::StepStatus::{COMPLETED, SKIPPED};
    let mut steps = execution.steps.iter().flat_map(|steps| &steps.nodes);
    steps.any(|step| step.name == name && matches!(step.status, COMPLETED | SKIPPED))
}
