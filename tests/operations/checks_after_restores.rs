//! The cluster database and the shards of a deployment are restored to three different times. After `check --repair`,
//! they agree: each message that is sent again runs exactly once, no path has two live subscriptions, no id is issued
//! twice, and readers continue.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_local::Postgres;
use noetl_testkit::copies::{back_up, own_server, restore_back_up};
use noetl_testkit::feed::Reader;
use noetl_testkit::{Deployment, Server, eventually, repeated, sleep_in_scenario};
use serde_json::{Value, json};
use tempfile::TempDir;

const SENDERS: usize = 4;
const PATHS: usize = 3;
/// Number of messages between two backups.
const MESSAGES_BETWEEN: usize = 12;

/// Cluster database, shard 0 and shard 1, each on a server of its own.
struct Servers([(Postgres, TempDir); 3]);

impl Servers {
    async fn start() -> Self {
        let (cluster, first, second) = tokio::join!(own_server(), own_server(), own_server());
        Self([cluster, first, second])
    }

    fn data(&self, index: usize) -> PathBuf {
        self.0[index].1.path().join("postgres/data")
    }

    fn copy(&self, index: usize) -> PathBuf {
        self.0[index].1.path().join("copy")
    }

    async fn back_up(&self, index: usize) {
        back_up(&self.0[index].0, &self.data(index), &self.copy(index)).await;
    }

    async fn restore(&mut self) {
        for index in 0..3 {
            let (data, copy) = (self.data(index), self.copy(index));
            restore_back_up(&mut self.0[index].0, &data, &copy).await;
        }
    }
}

/// The messages that were sent, with the execution of each response.
#[derive(Default)]
struct Sent(Mutex<BTreeMap<String, Option<String>>>);

impl Sent {
    fn note(&self, key: &str, execution: Option<String>) {
        self.0.lock().unwrap().insert(key.to_owned(), execution);
    }

    fn acknowledged(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().values().flatten().cloned().collect()
    }

    fn keys(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

fn message(inbox: &str, key: &str) -> Value {
    json!({ "path": "process", "parentExecutionId": inbox, "dedup": { "key": key, "windowSeconds": 3600 } })
}

/// Runs messages and registrations until `backing_up` has ended.
async fn under_load(
    server: &Server,
    inbox: &str,
    sent: &Sent,
    backing_up: impl Future<Output = ()>,
    count: &AtomicUsize,
) {
    let enough = AtomicBool::new(false);
    let send = async |sender: usize| {
        for n in 0.. {
            if enough.load(Ordering::Relaxed) {
                break;
            }
            let key = format!("m-{sender}-{n}");
            sent.note(&key, None);
            let (payload, _) = repeated(async || server.execute(message(inbox, &key)).await).await;
            sent.note(&key, payload["executionId"].as_str().map(str::to_owned));
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let churn = async |n: usize| {
        let path = format!("busy/{n}");
        while !enough.load(Ordering::Relaxed) {
            let (payload, _) = repeated(async || server.register(&path).await).await;
            let id = payload["subscription"]["id"].as_str().unwrap_or_else(|| panic!("{payload}"));
            for action in ["activate", "deactivate"] {
                let (payload, _) = repeated(async || server.transition(action, id, None).await).await;
                assert_eq!(payload["userErrors"], json!([]), "{action} of {path}");
            }
        }
    };
    let backing_up = async {
        backing_up.await;
        enough.store(true, Ordering::Relaxed);
    };
    tokio::join!(backing_up, join_all((0..SENDERS).map(send)), join_all((0..PATHS).map(churn)));
}

/// Returns the executions by dedup key, according to the logs.
async fn executions(deployment: &Deployment) -> BTreeMap<String, Vec<i64>> {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for shard in 0..deployment.shard_dsns.len() {
        let query = "SELECT meta #>> '{dedup,key}', execution_id FROM noetl.event
                     WHERE event_type = 'playbook_started' ORDER BY execution_id";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(query).fetch_all(&mut deployment.shard(shard).await).await.unwrap();
        for (key, id) in rows {
            found.entry(key).or_default().push(id);
        }
    }
    found
}

/// Kills `check --repair` after these times in milliseconds, and then completes it.
async fn repair_through_kills(deployment: &Deployment, kills: [u64; 6]) {
    for milliseconds in kills {
        let mut command = deployment.command("check");
        let mut child = command.arg("--repair").stdout(std::process::Stdio::null()).spawn().unwrap();
        sleep_in_scenario(Duration::from_millis(milliseconds)).await;
        child.start_kill().unwrap();
        child.wait().await.unwrap();
    }
    deployment.repair().await;
}

/// Returns the dedup keys of the claims.
async fn claimed_keys(deployment: &Deployment) -> BTreeSet<String> {
    let keys = "SELECT dedup_key FROM noetl.subscription_dedup";
    let keys: Vec<String> = sqlx::query_scalar(keys).fetch_all(&mut deployment.cluster().await).await.unwrap();
    keys.into_iter().collect()
}

/// Backs up the databases in this order under load, restores them, and checks all promises. `kills` has the times in
/// milliseconds after which a repair is killed.
async fn restored_in_order(order: [usize; 3], kills: [u64; 6]) {
    let mut servers = Box::pin(Servers::start()).await;
    let dsn = |index: usize| servers.0[index].0.dsn("postgres");
    let deployment = Deployment::on_servers(&dsn(0), &[&dsn(1), &dsn(2)]).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    for n in 0..PATHS {
        server.register_entry(&format!("busy/{n}"), &json!({ "kind": "subscription" })).await;
    }
    let inbox = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    server.transition("activate", &inbox, None).await;
    let mut reader = Reader::from_beginning(&server).await;
    let (sent, count) = (Sent::default(), AtomicUsize::new(0));
    let backing_up = async {
        for index in order {
            let start = count.load(Ordering::Relaxed);
            eventually("more messages ran", async || {
                (count.load(Ordering::Relaxed) >= start + MESSAGES_BETWEEN).then_some(())
            })
            .await;
            servers.back_up(index).await;
        }
        let start = count.load(Ordering::Relaxed);
        eventually("more messages ran", async || {
            (count.load(Ordering::Relaxed) >= start + MESSAGES_BETWEEN).then_some(())
        })
        .await;
    };
    under_load(&server, &inbox, &sent, backing_up, &count).await;
    deployment.until_all_published().await;
    assert!(reader.until_seen(deployment.committed().await).await);
    let before: BTreeSet<i64> =
        deployment.committed().await.into_iter().flat_map(|(log, event)| [log, event]).collect();
    assert!(server.stop().await.success());

    servers.restore().await;
    deployment.migrate().await;
    let survived = executions(&deployment).await;
    assert!(survived.len() < sent.acknowledged().len(), "nothing was lost");
    assert!(!claimed_keys(&deployment).await.iter().eq(survived.keys()), "the claims agree with the shards");
    repair_through_kills(&deployment, kills).await;
    let repaired = executions(&deployment).await;
    for (key, ids) in &survived {
        assert_eq!(repaired.get(key), Some(ids), "the repair changed the executions of {key}");
    }

    let server = deployment.replica().await;
    let keys = sent.keys();
    let responses = keys.chunks(50).map(async |keys| {
        let mut outcomes = Vec::new();
        for key in keys {
            let (payload, times) = repeated(async || server.execute(message(&inbox, key)).await).await;
            outcomes.push((key.clone(), payload, times));
        }
        outcomes
    });
    for (key, payload, times) in join_all(responses).await.into_iter().flatten() {
        let id: i64 = payload["executionId"].as_str().unwrap_or_else(|| panic!("{payload}")).parse().unwrap();
        if let Some(ids) = repaired.get(&key) {
            assert_eq!((&payload["outcome"], &vec![id]), (&json!("DUPLICATE"), ids), "{key}");
        } else {
            // A request that got an error from a busy server may have started the execution.
            assert!(payload["outcome"] == "STARTED" || times > 1, "{key}: {payload}");
            assert!(!before.contains(&id), "the id {id} was issued twice");
        }
    }
    let after = executions(&deployment).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
    for (key, ids) in &after {
        assert_eq!(ids.len(), 1, "{key} ran {ids:?}");
    }
    let twice = "SELECT count(*) - count(DISTINCT path) FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";
    assert_eq!(deployment.sum_over_shards(twice).await, 0);
    for n in 0..PATHS {
        let path = format!("busy/{n}");
        let (payload, _) = repeated(async || server.register(&path).await).await;
        assert_eq!(payload["userErrors"], json!([]), "{path}");
    }
    assert_one_live_per_path(&deployment).await;
    reader.reconnect(&server).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await, "the feed ended");
    reader.assert_kept_exactly(&committed);
    eventually("nothing differs", async || (deployment.check(&[]).await.0 == 0).then_some(())).await;
}

async fn assert_one_live_per_path(deployment: &Deployment) {
    let mut live: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for shard in 0..deployment.shard_dsns.len() {
        let query = "SELECT path, id FROM noetl.source_subscription WHERE state <> 'DEACTIVATED'";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(query).fetch_all(&mut deployment.shard(shard).await).await.unwrap();
        for (path, id) in rows {
            live.entry(path).or_default().push(id);
        }
    }
    for (path, ids) in live {
        assert_eq!(ids.len(), 1, "{path} has the live subscriptions {ids:?}");
    }
}

/// The cluster database is restored to a later time than shard 0 and to an earlier one than shard 1: it has claims and
/// registrations that shard 0 lacks, and lacks some that shard 1 has.
#[tokio::test]
async fn messages_run_once_after_the_cluster_database_and_the_shards_were_restored_to_different_times() {
    Box::pin(restored_in_order([1, 0, 2], [150, 700, 2300, 2900, 3700, 5100])).await;
}
