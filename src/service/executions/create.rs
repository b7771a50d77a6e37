//! Creating executions on their shards: those of requests, and those of claims that another call reserved.

use std::collections::HashMap;

use futures::future::join_all;

use super::Executions;
use crate::service::bisection::{Bisection, Cause, not_tried};
use crate::service::error::ServiceError;
use crate::service::shards::by_shard;
use noetl_domain::execution::Creation;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::budget::uncharged;
use noetl_storage::dedup::{self, ReservedClaim};
use noetl_storage::executions;

/// Size in bytes from which a page of reserved requests ends.
const PAGE_BYTES: i64 = 4 << 20;

/// Errors of the executions that may not exist, by their ids.
pub(super) type Failures = HashMap<Id, ServiceError>;

impl Executions {
    /// Creates executions with one statement per shard, in parallel. If a database refuses some of them, the others are
    /// created. Executions that exist are skipped.
    pub(super) async fn create(&self, creations: impl Iterator<Item = &Creation>) -> Failures {
        let mut groups = by_shard(&self.databases, creations, |creation| creation.execution_id);
        // All callers use the same order, so two calls that create the same executions can't deadlock.
        for group in groups.values_mut() {
            group.sort_by_key(|creation| creation.execution_id);
        }
        let created = groups.iter().map(|(shard, group)| self.create_on(*shard, group));
        join_all(created).await.into_iter().flatten().collect()
    }

    async fn create_on(&self, shard: ShardIndex, creations: &[&Creation]) -> Failures {
        let database = &self.databases.shards()[usize::from(shard)];
        let mut search = Bisection::of(creations.len());
        while let Some(part) = search.next_part() {
            let created = executions::create(database, &creations[part.clone()]).await;
            search.record(part, created);
        }
        self.wake_ups.wake_feed(shard);
        self.wake_ups.wake_outbox(shard);
        let mut failed = Failures::new();
        for unwritten in search.unwritten(database) {
            let error = match unwritten.cause {
                Cause::Refused(error) | Cause::Failed(error) => error.into(),
                Cause::NotTried => not_tried(database),
            };
            let ids = unwritten.positions.into_iter().map(|position| creations[position].execution_id);
            failed.extend(ids.map(|id| (id, error.clone())));
        }
        failed
    }

    /// Creates the executions of reserved claims and settles the claims, page by page, so that the requests in memory
    /// are bounded. An execution without a reserved claim is skipped: its claim was settled since.
    pub(super) async fn finish(&self, executions: &[Id]) -> Failures {
        let ids: Vec<i64> = executions.iter().map(|id| id.get()).collect();
        let (mut rest, mut failed) = (ids.as_slice(), Failures::new());
        while !rest.is_empty() {
            let page = match uncharged(dedup::reserved(self.databases.cluster(), rest, PAGE_BYTES)).await {
                Ok(page) => page,
                Err(error) => {
                    let error = ServiceError::from(error);
                    failed.extend(rest.iter().map(|id| (Id::new(*id), error.clone())));
                    break;
                }
            };
            rest = rest.get(page.looked_up.max(1)..).unwrap_or_default();
            failed.extend(self.finish_page(page.claims).await);
        }
        failed
    }

    async fn finish_page(&self, claims: Vec<ReservedClaim>) -> Failures {
        let (mut creations, mut failed) = (Vec::new(), Failures::new());
        for ReservedClaim { execution_id, creation } in claims {
            match creation {
                Ok(creation) => creations.push(creation),
                Err(error) => drop(failed.insert(execution_id, error.into())),
            }
        }
        failed.extend(self.create(creations.iter()).await);
        let created = creations.iter().map(|creation| creation.execution_id).filter(|id| !failed.contains_key(id));
        self.settle_ids(&created.map(Id::get).collect::<Vec<i64>>()).await;
        failed
    }
}
