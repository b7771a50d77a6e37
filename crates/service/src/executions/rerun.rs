//! Running executions again, one or several. A rerun is a request to execute, made from its origin (see
//! [`super::origins`]).
//!
//! Several reruns are started in batches whose workloads are bounded in bytes. A failure of one does not hide the results
//! of the others.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use plain_json::RawJson;

use super::Executions;
use super::origins::Origins;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Caller;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::executions::{Execute, ExecuteRequest, Executed, MAX_BATCH, Outcome, Rerun, RerunOne, Rerunning};

/// Size in bytes of the workloads of a batch as JSON, from which the batch is carried out.
const BATCH_BYTES: usize = 16 << 20;
/// Number of origins whose workloads are read together.
const WORKLOADS: usize = 16;

/// Outcome of a rerun, as [`RerunOne`] has it.
type RerunOutcome = Result<Option<Executed>, ServiceError>;
/// Outcomes by origin.
type Outcomes = BTreeMap<Id, RerunOutcome>;

/// Reruns that are started together.
#[derive(Default)]
struct Batch {
    origins: Vec<Id>,
    requests: Vec<ExecuteRequest>,
    bytes: usize,
}

#[async_trait]
impl Rerun for Executions {
    #[tracing::instrument(level = "debug", name = "executions.rerun", skip_all, fields(%origin))]
    async fn rerun(&self, origin: Id, rerunning: Rerunning, caller: &Caller) -> Result<Executed, ServiceError> {
        let mut origins = self.load_origins(&[origin], &rerunning, &caller.scope).await?;
        self.load_workloads(&mut origins, &[origin], &caller.scope).await;
        self.execute(origins.request(origin, &rerunning)?, caller).await.map_err(of_origin)
    }

    #[tracing::instrument(
        level = "debug", name = "executions.rerun_all", skip_all,
        fields(count = origins.len(), first = origins.first().map(tracing::field::display), dry_run)
    )]
    async fn rerun_all(
        &self,
        origins: Vec<Id>,
        rerunning: Rerunning,
        dry_run: bool,
        caller: &Caller,
    ) -> Result<Vec<RerunOne>, ServiceError> {
        rerunning.check()?;
        let distinct: Vec<Id> = origins.iter().copied().collect::<BTreeSet<Id>>().into_iter().collect();
        let mut loaded = self.load_origins(&distinct, &rerunning, &caller.scope).await?;
        let changes = rerunning.workload.as_ref().map_or(0, |changes| RawJson::from(changes).len());
        let (mut outcomes, mut batch) = (Outcomes::new(), Batch::default());
        let mut wanted = Vec::new();
        for id in distinct {
            match started(&loaded, id, &rerunning, dry_run) {
                Some(started) => drop(outcomes.insert(id, Ok(Some(started)))),
                None => wanted.push(id),
            }
        }
        for ids in wanted.chunks(WORKLOADS) {
            self.load_workloads(&mut loaded, ids, &caller.scope).await;
            for id in ids.iter().copied() {
                match loaded.request(id, &rerunning) {
                    Ok(request) => batch.add(id, request, loaded.workload_bytes(id) + changes),
                    Err(error) => drop(outcomes.insert(id, Err(error))),
                }
                if batch.bytes >= BATCH_BYTES || batch.requests.len() == MAX_BATCH {
                    outcomes.extend(self.start_batch(std::mem::take(&mut batch), dry_run, caller).await);
                }
            }
        }
        outcomes.extend(self.start_batch(batch, dry_run, caller).await);
        let result = |origin: Id| Some(RerunOne { origin, outcome: outcomes.get(&origin)?.clone() });
        Ok(origins.into_iter().filter_map(result).collect())
    }
}

impl Executions {
    /// Starts the reruns of a batch, or checks in a dry run whether they would be started.
    async fn start_batch(&self, batch: Batch, dry_run: bool, caller: &Caller) -> Outcomes {
        let Batch { origins, requests, .. } = batch;
        if requests.is_empty() {
            return Outcomes::new();
        }
        let started: Result<Vec<RerunOutcome>, ServiceError> = if dry_run {
            let checked = self.check_batch(&requests, caller).await;
            checked.map(|checked| checked.into_iter().map(|one| one.map(|()| None)).collect())
        } else {
            let started = self.execute_batch(requests.into_iter().map(Ok).collect(), caller).await;
            started.map(|started| started.into_iter().map(|one| one.map(Some)).collect())
        };
        match started {
            Ok(started) => {
                let outcomes = started.into_iter().map(|outcome| outcome.map_err(of_origin));
                origins.into_iter().zip(outcomes).collect()
            }
            Err(error) => origins.into_iter().map(|origin| (origin, Err(error.clone()))).collect(),
        }
    }
}

impl Batch {
    fn add(&mut self, origin: Id, request: ExecuteRequest, bytes: usize) {
        self.origins.push(origin);
        self.requests.push(request);
        self.bytes += bytes;
    }
}

/// Returns the result for an execution for which nothing is started: it is itself a rerun that a request with the same
/// dedup key has started, or this is a dry run and such a request has run it again.
fn started(origins: &Origins, id: Id, rerunning: &Rerunning, dry_run: bool) -> Option<Executed> {
    let execution_id = if origins.is_rerun_of_request(id, rerunning) {
        id
    } else {
        origins.owner(id, rerunning).filter(|_| dry_run)?
    };
    Some(Executed { execution_id, outcome: Outcome::Duplicate, differs: None, created: None })
}

/// Returns an error with the field that stands for the catalog entry in a request to run an execution again.
fn of_origin(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::Rejected(rejection) if rejection.field.first().is_some_and(|field| field == "entry") => {
            Rejection::new(rejection.code, "executionId", rejection.message).into()
        }
        other => other,
    }
}
