//! Starting executions, one or a batch. Result i belongs to request i.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::Value;

use super::Executions;
use super::answer::{Answer, Executed, Outcome};
use super::claims::Claimed;
use super::request::{ExecuteRequest, MAX_BATCH, MAX_WORKLOAD_BYTES, Ready, ValidRequest};
use super::resolve::Named;
use crate::runtime::clock;
use crate::runtime::crash_point;
use crate::service::bounds::check_json;
use crate::service::error::{Rejection, ServiceError};
use crate::service::shards::by_shard;
use crate::service::trace;
use noetl_domain::actor::Actor;
use noetl_domain::execution::{Creation, overlay};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::executions;
use plain_json::{ParsedOnce, Text};

impl Executions {
    /// Starts one execution.
    #[tracing::instrument(
        level = "debug", name = "executions.execute", skip_all,
        fields(path = request.path, parent = request.parent_execution_id.map(tracing::field::display))
    )]
    pub async fn execute(&self, request: ExecuteRequest, by: Option<&Actor>) -> Answer {
        let mut answers = self.execute_batch(vec![Ok(request)], by).await?;
        answers.pop().unwrap_or_else(|| Err(Rejection::invalid("", "there is no request").into()))
    }

    /// Starts a batch of 1 to 1000 executions. Each request succeeds or fails independently. An `Err` in the input is
    /// returned at its position.
    #[tracing::instrument(
        level = "debug", name = "executions.execute_batch", skip_all,
        fields(count = requests.len())
    )]
    pub async fn execute_batch(
        &self,
        requests: Vec<Result<ExecuteRequest, Rejection>>,
        by: Option<&Actor>,
    ) -> Result<Vec<Answer>, ServiceError> {
        if requests.is_empty() || requests.len() > MAX_BATCH {
            let message = format!("a batch has 1 to {MAX_BATCH} requests, not {}", requests.len());
            return Err(Rejection::invalid("requests", message).into());
        }
        let (mut answers, ready) = self.prepare(requests, by).await?;
        crash_point::reach("execute.validated");
        let (claimed, settled) = self.claim(ready).await;
        answers.extend(settled);
        crash_point::reach("execute.claimed");
        let failed = self.create(claimed.iter().filter_map(|one| one.creation.as_ref())).await;
        crash_point::reach("execute.created");
        self.settle(&claimed, &failed).await;
        crash_point::reach("execute.settled");
        for one in &claimed {
            let shard = self.databases.index_of(one.execution_id);
            answers.extend(one.answers(failed.get(&shard)));
        }
        self.audit_duplicates(&claimed, by).await;
        Ok(answers.into_values().collect())
    }

    /// Validates and resolves the requests. Returns the errors of the refused ones, and the ready ones with their ids.
    async fn prepare(
        &self,
        requests: Vec<Result<ExecuteRequest, Rejection>>,
        by: Option<&Actor>,
    ) -> Result<(BTreeMap<usize, Answer>, Vec<Ready>), ServiceError> {
        let mut answers = BTreeMap::new();
        let mut valid = Vec::new();
        for (position, request) in requests.into_iter().enumerate() {
            match request.and_then(ExecuteRequest::validate) {
                Ok(request) => valid.push((position, request)),
                Err(rejection) => drop(answers.insert(position, Err(rejection.into()))),
            }
        }
        let asked: Vec<&ValidRequest> = valid.iter().map(|(_, request)| request).collect();
        let resolved = self.resolve(&asked).await?;
        let mut ready = Vec::new();
        for (position, request) in valid {
            match self.named(&request, &resolved).and_then(|named| self.ready(position, request, &named, by)) {
                Ok(one) => ready.push(one),
                Err(error) => drop(answers.insert(position, Err(error))),
            }
        }
        Ok((answers, ready))
    }

    fn ready(
        &self,
        position: usize,
        request: ValidRequest,
        named: &Named,
        by: Option<&Actor>,
    ) -> Result<Ready, ServiceError> {
        let window = request.dedup.as_ref().and_then(|dedup| dedup.window_seconds);
        let of_parent = || named.parent.as_ref().and_then(|head| inherited(head.trace.as_ref()?));
        let creation = Creation {
            execution_id: self.ids.next()?,
            event_id: self.ids.next()?,
            parent_execution_id: request.parent,
            catalog_id: Id::new(named.entry.catalog_id),
            path: named.entry.path.clone(),
            workload: overlay(named.entry.payload.as_ref().map(ParsedOnce::value), request.workload),
            pool: request.pool,
            trace: request.trace.or_else(of_parent).or_else(trace::current),
            emitted_at: clock::now(),
            actor: by.cloned(),
        };
        let window_seconds = i32::try_from(window.unwrap_or(named.default_window)).unwrap_or(i32::MAX);
        Ok(Ready { position, creation, dedup: request.dedup, window_seconds, hash: request.hash })
    }

    /// Creates executions with one statement per shard, in parallel. Returns the error of each shard that failed.
    pub(super) async fn create<'a>(
        &self,
        creations: impl Iterator<Item = &'a Creation>,
    ) -> BTreeMap<ShardIndex, ServiceError> {
        let mut groups = by_shard(&self.databases, creations, |creation| creation.execution_id);
        // All callers use the same order, so two calls that create the same executions can't deadlock.
        for group in groups.values_mut() {
            group.sort_by_key(|creation| creation.execution_id);
        }
        let outcomes = groups.iter().map(async |(shard, group)| {
            let outcome = executions::create(&self.databases.shards()[usize::from(*shard)], group).await;
            self.wake_ups.wake_feed(*shard);
            self.wake_ups.wake_outbox(*shard);
            (*shard, outcome)
        });
        let failed = |(shard, outcome): (_, Result<(), StorageError>)| Some((shard, outcome.err()?.into()));
        join_all(outcomes).await.into_iter().filter_map(failed).collect()
    }
}

/// Returns the trace context of a parent, if it is a map within the bounds.
fn inherited(trace: &Text) -> Option<Value> {
    let trace = trace.read();
    (trace.is_object() && check_json("trace", &trace, MAX_WORKLOAD_BYTES).is_ok()).then_some(trace)
}

impl Claimed {
    /// Returns the results of all requests for this execution.
    fn answers(&self, failed: Option<&ServiceError>) -> impl Iterator<Item = (usize, Answer)> {
        let execution_id = self.execution_id;
        let started = self.starter.map(|position| (position, Outcome::Started));
        let duplicates = self.duplicates.iter().map(|position| (*position, Outcome::Duplicate));
        started.into_iter().chain(duplicates).map(move |(position, outcome)| {
            (position, failed.map_or(Ok(Executed { execution_id, outcome }), |error| Err(error.clone())))
        })
    }
}
