//! The state that the databases must have after whole messages.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection};

use super::{PLAYBOOK, Traffic, worker};
use crate::feed::Key;
use crate::{Deployment, eventually};

/// DSNs of a deployment.
#[derive(Debug, Clone)]
pub struct Databases {
    /// DSN of the cluster database.
    pub cluster: String,
    /// DSNs of the shards, in the order of the shards.
    pub shards: Vec<String>,
}

/// Work that must be done before the deployment is at rest: a description, and the query that counts it on each shard.
const SHARD_WORK: [(&str, &str); 4] = [
    ("outbox rows that are not settled", "SELECT count(*) FROM noetl.outbox WHERE status <> 'PUBLISHED'"),
    (
        "executions that the list does not show as completed",
        "SELECT count(*) FROM noetl.execution WHERE path = 'traffic/message' AND status <> 'COMPLETED'",
    ),
    (
        "events that the tail cursor does not cover",
        "SELECT count(*) FROM noetl.event, noetl.tail_cursor WHERE NOT pg_visible_in_snapshot(tx_id, done)",
    ),
    ("batches of the tailer that are open", "SELECT count(target) FROM noetl.tail_cursor"),
];
/// The same for the cluster database.
const CLUSTER_WORK: [(&str, &str); 2] = [
    ("dedup claims that are only reserved", "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0"),
    (
        "intents of registrations that are open",
        "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL",
    ),
];

/// Rows that name a missing row, or that differ from their log, in the same shard: a description, and the query that
/// counts them.
const WRONG_ON_SHARD: [(&str, &str); 5] = [
    (
        "outbox rows without an event",
        "SELECT count(*) FROM noetl.outbox LEFT JOIN noetl.event USING (execution_id, event_id)
         WHERE event.event_id IS NULL",
    ),
    (
        "list rows without a log",
        "SELECT count(*) FROM noetl.execution
         WHERE NOT EXISTS (SELECT FROM noetl.event WHERE execution_id = execution.execution_id)",
    ),
    (
        "logs without a list row",
        "SELECT count(*) FROM noetl.event LEFT JOIN noetl.execution USING (execution_id)
         WHERE event_type = 'playbook_started' AND execution.execution_id IS NULL",
    ),
    (
        "list rows after the end of their log",
        "SELECT count(*) FROM noetl.execution
         WHERE last_event_id > (SELECT max(event_id) FROM noetl.event WHERE execution_id = execution.execution_id)",
    ),
    (
        "snapshots of this server that include an event of their log twice",
        "SELECT count(*) FROM noetl.projection_snapshot, pg_control_system() AS control
         WHERE meta ->> 'system' = control.system_identifier::text
           AND (meta ->> 'applied_count')::bigint
               > (SELECT count(*) FROM noetl.event WHERE execution_id = aggregate_id::bigint)",
    ),
];

impl Databases {
    /// Returns the DSNs of a deployment.
    pub fn of(deployment: &Deployment) -> Self {
        Self { cluster: deployment.cluster_dsn.clone(), shards: deployment.shard_dsns.clone() }
    }

    /// Panics unless each dedup claim names an execution, each execution with a dedup key has its claim, and the tables
    /// of each shard fit its logs. Claims whose window has passed do not count, and neither do those that are
    /// reserved for an execution that does not exist yet.
    pub async fn assert_consistent(&self) {
        let (mut listed, mut keyed) = (BTreeSet::new(), BTreeMap::new());
        for dsn in &self.shards {
            for (what, query) in WRONG_ON_SHARD {
                assert_eq!(rows::<(i64,)>(dsn, query).await.unwrap(), [(0,)], "{what}");
            }
            let list = "SELECT execution_id FROM noetl.execution";
            listed.extend(rows::<(i64,)>(dsn, list).await.unwrap().into_iter().map(|row| row.0));
            let keys = "SELECT execution_id, meta #>> '{dedup,key}' FROM noetl.event
                        WHERE event_type = 'playbook_started' AND meta ? 'dedup'";
            keyed.extend(rows::<(i64, String)>(dsn, keys).await.unwrap());
        }
        let claims = "SELECT execution_id, dedup_key, state = 0 FROM noetl.subscription_dedup
                      WHERE state = 0 OR expires_at > now()";
        let claims: Vec<(i64, String, bool)> = rows(&self.cluster, claims).await.unwrap();
        let counts = |(execution, _, is_reserved): &(i64, String, bool)| !is_reserved || keyed.contains_key(execution);
        let claims = claims.into_iter().filter(counts).map(|(execution, key, _)| (execution, key));
        let claims: BTreeMap<i64, String> = claims.collect();
        let lost: Vec<_> = claims.keys().filter(|execution| !listed.contains(execution)).collect();
        assert!(lost.is_empty(), "claims without an execution: {lost:?}");
        assert_eq!(claims, keyed, "the claims differ from the dedup keys of the executions");
    }

    /// Returns the executions whose outbox row is settled.
    pub(super) async fn settled(&self) -> BTreeSet<i64> {
        let mut all = BTreeSet::new();
        for dsn in &self.shards {
            let settled = "SELECT execution_id FROM noetl.outbox WHERE status = 'PUBLISHED'";
            all.extend(rows::<(i64,)>(dsn, settled).await.unwrap().into_iter().map(|row| row.0));
        }
        all
    }

    /// Waits until nothing is left to do.
    pub async fn until_at_rest(&self) {
        for (what, query) in SHARD_WORK {
            eventually(&format!("no {what}"), async || {
                let mut left = 0;
                for dsn in &self.shards {
                    left += rows::<(i64,)>(dsn, query).await.ok()?[0].0;
                }
                (left == 0).then_some(())
            })
            .await;
        }
        for (what, query) in CLUSTER_WORK {
            eventually(&format!("no {what}"), async || {
                (rows::<(i64,)>(&self.cluster, query).await.ok()?[0].0 == 0).then_some(())
            })
            .await;
        }
    }

    /// Returns all committed events.
    pub async fn committed(&self) -> BTreeSet<Key> {
        let mut all = BTreeSet::new();
        for dsn in &self.shards {
            all.extend(rows::<Key>(dsn, "SELECT execution_id, event_id FROM noetl.event").await.unwrap());
        }
        all
    }

    /// Returns the number of open epochs: one for each shard, unless the tailer found that events were lost.
    pub async fn epochs(&self) -> Vec<i32> {
        let mut epochs = Vec::new();
        for dsn in &self.shards {
            epochs.push(rows::<(i32,)>(dsn, "SELECT feed_epoch FROM noetl.tail_cursor").await.unwrap()[0].0);
        }
        epochs
    }
}

impl Traffic {
    /// Panics unless each message has one execution, in one claim and one list row, whose log has each event once.
    /// Returns the ids of the executions.
    pub async fn check(&self, databases: &Databases) -> BTreeSet<i64> {
        let started = self.started.lock().unwrap().clone();
        let executions: BTreeSet<i64> = started.values().copied().collect();
        assert_eq!(executions.len(), started.len(), "two messages have the same execution");
        assert_eq!(*self.finished.lock().unwrap(), executions, "not every started execution was run to its end");

        let claims = "SELECT dedup_key, execution_id FROM noetl.subscription_dedup WHERE dedup_key LIKE 'message-%'";
        let claims = rows::<(String, i64)>(&databases.cluster, claims).await.unwrap();
        let wanted: BTreeMap<String, i64> =
            started.iter().map(|(message, execution)| (format!("message-{message}"), *execution)).collect();
        assert_eq!(claims.into_iter().collect::<BTreeMap<_, _>>(), wanted, "the claims differ from the responses");

        let (mut listed, mut logs) = (BTreeSet::new(), BTreeMap::new());
        for dsn in &databases.shards {
            let list = format!("SELECT execution_id FROM noetl.execution WHERE path = '{PLAYBOOK}'");
            listed.extend(rows::<(i64,)>(dsn, &list).await.unwrap().into_iter().map(|row| row.0));
            let log = "SELECT execution_id, array_agg(event_type::text ORDER BY event_id) FROM noetl.event
                       WHERE event_type NOT LIKE 'subscription.%' GROUP BY execution_id";
            logs.extend(rows::<(i64, Vec<String>)>(dsn, log).await.unwrap());
        }
        assert_eq!(listed, executions, "the executions differ from the responses");
        let whole = worker::whole_log();
        let wrong: Vec<_> = logs.iter().filter(|(_, types)| **types != whole).collect();
        assert!(wrong.is_empty(), "executions that did not run exactly once: {wrong:?}");
        assert_eq!(logs.into_keys().collect::<BTreeSet<_>>(), executions, "logs without an execution, or the reverse");
        executions
    }
}

/// Returns the rows of a query.
async fn rows<T>(dsn: &str, query: &str) -> sqlx::Result<Vec<T>>
where
    T: for<'row> FromRow<'row, PgRow> + Send + Unpin,
{
    let mut connection = PgConnection::connect(dsn).await?;
    let found = sqlx::query_as(sqlx::AssertSqlSafe(query)).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(found)
}
