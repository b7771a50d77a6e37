//! Housekeeping tasks: one table, which servers run at intervals and `maintain` runs once.
//!
//! Each task is idempotent and may run on every replica at the same time, so a run can be cancelled at any point. A task
//! that fails does not stop the others.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::Turns;
use super::partitions::{self, Partitions};
use noetl_domain::shard::ShardIndex;
use noetl_service::catalog::Catalog;
use noetl_service::executions::Executions;
use noetl_service::history;
use noetl_service::moves;
use noetl_service::outbox::Outbox;
use noetl_service::projections::Projections;
use noetl_service::retention::Retention;
use noetl_service::subscriptions::Subscriptions;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Every housekeeping task.
pub const TASKS: [Task; 11] = [
    Task {
        name: "partitions",
        period: Duration::from_hours(6),
        run: Run::OnEachShard(|services, shard| services.create_partitions(shard).boxed()),
    },
    Task {
        name: "retention",
        period: Duration::from_hours(1),
        run: Run::OnEachShard(|services, shard| services.enforce_retention(shard).boxed()),
    },
    Task {
        name: "execution list",
        period: Duration::from_mins(1),
        run: Run::OnEachShard(|services, shard| services.fill_execution_list(shard).boxed()),
    },
    Task {
        name: "execution history",
        period: Duration::from_mins(1),
        run: Run::OnEachShard(|services, shard| services.close_history(shard).boxed()),
    },
    Task {
        name: "outbox purge",
        period: Duration::from_mins(1),
        run: Run::OnEachShard(|services, shard| services.purge_outbox(shard).boxed()),
    },
    Task {
        name: "outbox counts",
        period: Duration::from_mins(1),
        run: Run::OnEachShard(|services, shard| services.count_outbox(shard).boxed()),
    },
    Task {
        name: "dedup claims",
        period: Duration::from_secs(2),
        run: Run::OnCluster(|services| services.finish_dedup_claims().boxed()),
    },
    Task {
        name: "registrations",
        period: Duration::from_secs(2),
        run: Run::OnCluster(|services| services.finish_registrations().boxed()),
    },
    Task {
        name: "dedup purge",
        period: Duration::from_mins(1),
        run: Run::OnCluster(|services| services.purge_dedup_claims().boxed()),
    },
    Task {
        name: "catalog names",
        period: Duration::from_secs(5),
        run: Run::OnCluster(|services| services.name_catalog_entries().boxed()),
    },
    Task {
        name: "bucket moves",
        period: Duration::from_secs(2),
        run: Run::OnCluster(|services| services.complete_moves().boxed()),
    },
];

/// A housekeeping task.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Name, which `maintain` and the log show.
    pub name: &'static str,
    /// Time between two runs on a server.
    pub period: Duration,
    run: Run,
}

/// Function of a task, and the databases on which it runs. It returns a summary of the work that was done.
#[derive(Debug, Clone, Copy)]
enum Run {
    OnEachShard(for<'a> fn(&'a Housekeeping, ShardIndex) -> BoxFuture<'a, Result<String, HousekeepingError>>),
    OnCluster(for<'a> fn(&'a Housekeeping) -> BoxFuture<'a, Result<String, HousekeepingError>>),
}

/// Failure of a housekeeping task.
#[derive(Debug, thiserror::Error)]
pub enum HousekeepingError {
    /// The task met a fault.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// An operator must first move rows out of the default partition.
    #[error(
        "can't create {blocked}, because the default partition of noetl.event holds events of their time (made {made}). \
         Such ids often come from a clock that was far ahead. The section NoetlEventPartitionsBlocked of docs/runbook.md \
         has the statements that move these events to the partition"
    )]
    Blocked {
        /// Partitions that can't be created, with their bounds.
        blocked: String,
        /// Names of the partitions that were created.
        made: String,
    },
    /// The role of the process may not create partitions.
    #[error(
        "can't create {0}, because the role of this process does not own noetl.event; run `noetl-graphql maintain` with \
         the role that owns it"
    )]
    Denied(String),
    /// A long transaction holds a lock on the event table.
    #[error("can't create {0} now, because the event table is in use by a long transaction")]
    Busy(String),
}

/// Result of a housekeeping task on one database.
#[derive(Debug)]
pub struct Done {
    /// Name of the task.
    pub task: &'static str,
    /// Database on which the task ran.
    pub database: DatabaseName,
    /// Summary of the work that was done, or the failure.
    pub outcome: Result<String, HousekeepingError>,
}

/// The databases and services that housekeeping tasks use.
#[derive(Debug, Clone)]
pub struct Housekeeping {
    /// All databases.
    pub databases: Databases,
    /// The catalog.
    pub catalog: Catalog,
    /// Executions, with their dedup claims.
    pub executions: Executions,
    /// Source subscriptions, with their registrations.
    pub subscriptions: Subscriptions,
    /// The outbox.
    pub outbox: Outbox,
    /// Retention of events.
    pub retention: Retention,
    /// Projections, with the fill of the executions' list.
    pub projections: Projections,
}

impl Housekeeping {
    /// Runs every task once, and passes each result to `report` at once.
    pub async fn run_all(&self, mut report: impl FnMut(Done)) {
        for task in TASKS {
            self.run(task, &mut report).await;
        }
    }

    /// Runs one task at its period until `stop`, which also cancels a run.
    pub async fn repeat(self, task: Task, stop: CancellationToken) {
        let mut turns = Turns::every(task.period, stop.clone());
        while turns.next().await && stop.run_until_cancelled(self.run(task, log)).await.is_some() {}
    }

    /// Runs a task on each of its databases, and passes each result to `report` at once.
    async fn run(&self, task: Task, mut report: impl FnMut(Done)) {
        let mut done = |database: DatabaseName, outcome| report(Done { task: task.name, database, outcome });
        match task.run {
            Run::OnEachShard(run) => {
                for (database, shard) in self.databases.shards().iter().zip(0..) {
                    done(database.name(), run(self, shard).await);
                }
            }
            Run::OnCluster(run) => done(self.databases.cluster().name(), run(self).await),
        }
    }

    async fn create_partitions(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        let ensured = partitions::ensure(&self.databases.shards()[usize::from(shard)]).await;
        let Partitions { made, blocked, in_default, busy, denied, left_to_owner } =
            ensured.map_err(ServiceError::from)?;
        if !blocked.is_empty() {
            return Err(HousekeepingError::Blocked { blocked: list(&blocked), made: list(&made) });
        }
        if !denied.is_empty() {
            return Err(HousekeepingError::Denied(list(&denied)));
        }
        if !busy.is_empty() {
            return Err(HousekeepingError::Busy(list(&busy)));
        }
        let mut parts = vec![format!("made {}", list(&made))];
        if !in_default.is_empty() {
            parts.push(format!("the events of {} stay in the default partition", list(&in_default)));
        }
        if !left_to_owner.is_empty() {
            parts.push(format!("left {} to the role that owns noetl.event", list(&left_to_owner)));
        }
        let all_exist = made.is_empty() && parts.len() == 1;
        Ok(if all_exist { "made none, because all exist".to_owned() } else { parts.join("; ") })
    }

    async fn complete_moves(&self) -> Result<String, HousekeepingError> {
        Ok(moves::complete(&self.databases).await?)
    }

    async fn enforce_retention(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        Ok(self.retention.enforce(&self.databases, shard).await?)
    }

    async fn fill_execution_list(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        Ok(self.projections.fill(shard).await?)
    }

    async fn close_history(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        Ok(history::close(&self.databases, shard).await?)
    }

    async fn purge_outbox(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        Ok(self.outbox.purge(shard).await?)
    }

    async fn count_outbox(&self, shard: ShardIndex) -> Result<String, HousekeepingError> {
        let pending = self.outbox.report_backlog(shard).await?;
        Ok(format!("counted {pending} claimable and {} DEAD", self.outbox.report_dead(shard).await?))
    }

    async fn finish_dedup_claims(&self) -> Result<String, HousekeepingError> {
        Ok(self.executions.sweep().await?.to_string())
    }

    async fn finish_registrations(&self) -> Result<String, HousekeepingError> {
        Ok(self.subscriptions.sweep().await?.to_string())
    }

    async fn purge_dedup_claims(&self) -> Result<String, HousekeepingError> {
        Ok(format!("purged {} expired", self.executions.purge_claims().await?))
    }

    async fn name_catalog_entries(&self) -> Result<String, HousekeepingError> {
        Ok(format!("named {}", self.catalog.fill_names().await?))
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn log(Done { task, database, outcome }: Done) {
    match outcome {
        Ok(summary) => tracing::debug!(task, %database, summary, "a housekeeping task ran"),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(task, %database, error, "a housekeeping task failed and will run again");
        }
    }
}
