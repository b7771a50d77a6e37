//! A worker: claims entries of a pool, runs their executions step by step, and follows all events live.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::api::{Api, ApiError};
use crate::journal::Journal;
use crate::operations::{
    Claim, Delivered, Failed, Follow, Project, Renew, ReserveIds, Run, claim, delivered, failed, follow, project,
    renew, reserve_ids, run,
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

    /// Runs the steps that are not done yet, in the order of the document, completes the execution, and settles the
    /// entry.
    async fn run(&self, entry: &claim::ClaimClaimOutboxClaims) -> Result<(), ApiError> {
        let (entry_id, lease) = (entry.entry_id.clone(), entry.lease.clone());
        let execution = entry.execution_id.as_deref().ok_or_else(|| refused("the entry has no execution"))?;
        let mut state = self.state(execution).await?;
        let workflow = state.catalog_entry.take().and_then(|entry| entry.workflow);
        for step in workflow.into_iter().flat_map(|workflow| workflow.steps) {
            // The execution can be cancelled at any time. If the lease is lost, another worker continues it.
            let claims = vec![renew::OutboxClaimRef { entry_id: entry_id.clone(), lease: lease.clone() }];
            let input = renew::RenewOutboxLeasesInput { claims, lease_seconds: Some(self.lease_seconds) };
            self.api.send::<Renew>(renew::Variables { input }).await?;
            state = self.state(execution).await?;
            if has_ended(&state) {
                break;
            }
            if has_done(&state, &step.name) {
                continue;
            }
            let meta = Some(json!({ "command_id": format!("{}:1", step.name), "attempt": 1 }));
            let data = self.step(&step.name, state.workload.as_ref()).await;
            let name = Some(step.name);
            let entered = event("step.enter", "ENTERED");
            let done = project::EventInput {
                meta: meta.clone(),
                result: Some(json!({ "data": data })),
                ..event("call.done", "COMPLETED")
            };
            let completed = project::EventInput { meta, ..event("command.completed", "success") };
            let events = [entered, done, completed];
            let events = events.map(|event| project::EventInput { node_name: name.clone(), ..event });
            self.report(execution, entry, events, false).await?;
        }
        if has_ended(&state) {
            let claims = vec![delivered::OutboxClaimRef { entry_id, lease }];
            let input = delivered::MarkOutboxPublishedInput { claims };
            self.api.send::<Delivered>(delivered::Variables { input }).await?;
        } else {
            self.report(execution, entry, [event("playbook.completed", "COMPLETED")], true).await?;
            eprintln!("execution {execution} is completed");
        }
        Ok(())
    }

    async fn state(&self, id: &str) -> Result<run::RunExecution, ApiError> {
        let data = self.api.send::<Run>(run::Variables { id: id.to_owned() }).await?;
        data.execution.ok_or_else(|| refused("the execution does not exist"))
    }

    /// Does the work of a step. A real worker calls the step's tool.
    async fn step(&self, name: &str, workload: Option<&Value>) -> Value {
        sleep(self.step_time).await;
        json!({ "step": name, "fields": workload.and_then(Value::as_object).map_or(0, serde_json::Map::len) })
    }

    /// Stores events of an execution, unless another worker has claimed its entry. A repeat has the same ids, so no event
    /// is stored twice. With `settle`, the entry is settled too.
    async fn report<const N: usize>(
        &self,
        execution: &str,
        entry: &claim::ClaimClaimOutboxClaims,
        events: [project::EventInput; N],
        settle: bool,
    ) -> Result<(), ApiError> {
        let variables = reserve_ids::Variables { count: i64::try_from(N).unwrap_or(i64::MAX) };
        let reserved = self.api.send::<ReserveIds>(variables).await?.reserve_event_ids;
        let ids = reserved.map(|payload| payload.event_ids).unwrap_or_default();
        let named = ids.into_iter().zip(events).map(|(id, event)| project::EventInput {
            event_id: id,
            execution_id: execution.to_owned(),
            ..event
        });
        let claim = project::OutboxClaimRef { entry_id: entry.entry_id.clone(), lease: entry.lease.clone() };
        self.api.send::<Project>(project::Variables { events: named.collect(), claim, settle }).await?;
        Ok(())
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

fn event(event_type: &str, status: &str) -> project::EventInput {
    project::EventInput {
        type_: event_type.to_owned(),
        status: Some(status.to_owned()),
        ..project::EventInput::default()
    }
}

fn has_ended(state: &run::RunExecution) -> bool {
    matches!(
        state.status,
        run::ExecutionStatus::COMPLETED | run::ExecutionStatus::FAILED | run::ExecutionStatus::CANCELLED
    )
}

fn has_done(state: &run::RunExecution, name: &str) -> bool {
    let mut steps = state.steps.iter().flat_map(|steps| &steps.nodes);
    steps.any(|step| step.name == name && matches!(step.status, run::StepStatus::COMPLETED | run::StepStatus::SKIPPED))
}
