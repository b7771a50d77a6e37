//! The database gets another history at random, under load: a failover to a standby that lacks commits, a restore of a
//! dump, a copy beside the original. The test compares PostgreSQL, the streams, the notifications that a worker received and a live
//! reader. After each message was sent again, each has run once, and the reader was told about everything that was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_local::Postgres;
use noetl_testkit::copies::{copy_beside, own_server, restore, standby, switch_server, until_replayed};
use noetl_testkit::feed::{Reader, run};
use noetl_testkit::random::{Random, below, index, moment, seeded};
use noetl_testkit::{Deployment, Server, eventually, execute_input, size, sleep_in_scenario};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Clients that send messages in `make test` and in `make soak`, and the pause of each after a message.
const SENDERS: [(usize, Duration); 2] = [(2, Duration::from_millis(10)), (4, Duration::ZERO)];
const EXECUTE: &str = "mutation($input: ExecuteInput!) {
    execute(input: $input) { executionId outcome userErrors { code } } }";

/// What gives the database another history.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The primary is lost, and the standby that is promoted lacks its last commits.
    Failover,
    /// A dump replaces the database. What was committed since is lost.
    Restore,
    /// A copy on the same server runs beside the original for a while.
    Copy,
    /// The same, and the original's server is frozen while the copy's starts.
    CopyOfFrozen,
}

const CHANGES: [Change; 4] = [Change::Failover, Change::Restore, Change::Copy, Change::CopyOfFrozen];

pub struct Site {
    deployment: Deployment,
    server: Server,
    postgres: Postgres,
    folder: TempDir,
    random: Random,
    reader: Reader,
    /// Reasons of the gaps that the reader got.
    gaps: Vec<String>,
    /// The keys of all messages; true: acknowledged.
    sent: BTreeMap<String, bool>,
}

impl Site {
    pub async fn start(seed: u64) -> Self {
        let (postgres, folder) = own_server().await;
        let deployment = Deployment::on(&postgres.dsn("postgres"), 0).await;
        let server = deployment.replica().await;
        deployment.feeds_begun().await;
        server.register_entry("process", &json!({ "kind": "playbook" })).await;
        let reader = Reader::from_beginning(&server).await;
        let random = seeded(seed, 0);
        Self { deployment, server, postgres, folder, random, reader, gaps: Vec::new(), sent: BTreeMap::new() }
    }

    /// Changes the history until the time is over, with each kind of change at least once.
    pub async fn run(&mut self, lasting: Duration, mut progress: impl FnMut(String)) {
        let (start, mut left, mut round) = (Instant::now(), Vec::new(), 0);
        while round < CHANGES.len() || start.elapsed() < lasting {
            if left.is_empty() {
                left = CHANGES.to_vec();
            }
            let change = left.swap_remove(index(&mut self.random, left.len()));
            progress(format!("{:7.1} s, round {round}: {change:?}", start.elapsed().as_secs_f64()));
            match change {
                Change::Failover => self.fail_over(round).await,
                Change::Restore => self.restore(round).await,
                Change::Copy => self.copy(round, false).await,
                Change::CopyOfFrozen => self.copy(round, true).await,
            }
            self.note_gaps();
            self.reader.reconnect(&self.server).await;
            round += 1;
        }
    }

    /// Sends messages and reads events until `work` has ended.
    async fn under_load<T>(&mut self, phase: &str, work: impl AsyncFnOnce(&mut Deployment, &mut Postgres) -> T) -> T {
        let Self { deployment, server, postgres, reader, sent, .. } = self;
        let enough = CancellationToken::new();
        let (senders, pause) = size(SENDERS[0], SENDERS[1]);
        let send = async |sender: usize| {
            let mut sent = Vec::new();
            for n in 0.. {
                if enough.is_cancelled() {
                    break;
                }
                let key = format!("{phase}-{sender}-{n}");
                let acknowledged = started(server, &key).await.is_some();
                sent.push((key, acknowledged));
                sleep_in_scenario(if acknowledged { pause } else { Duration::from_millis(50) }).await;
            }
            sent
        };
        let read =
            async { while enough.run_until_cancelled(reader.step_allowing_unavailable()).await.flatten().is_some() {} };
        let work = async {
            let result = work(deployment, postgres).await;
            enough.cancel();
            result
        };
        let (all, (), result) = tokio::join!(join_all((0..senders).map(send)), read, work);
        sent.extend(all.into_iter().flatten());
        result
    }

    async fn some_time(&mut self, phase: &str) {
        let time = Duration::from_millis(500) + moment(&mut self.random, 1500);
        self.under_load(phase, async |_, _| sleep_in_scenario(time).await).await;
    }

    async fn fail_over(&mut self, round: usize) {
        let folder = self.folder.path().join(format!("standby-{round}"));
        let mut other = self
            .under_load(&format!("{round}-copied"), async |deployment, postgres| {
                let mut other = standby(postgres, &folder).await;
                until_replayed(deployment, &other).await;
                // It receives no later commit.
                other.stop().await;
                other
            })
            .await;
        self.some_time(&format!("{round}-unreplicated")).await;
        let phase = format!("{round}-failing");
        self.under_load(&phase, async |_, postgres| postgres.kill_9().await).await;
        other.restart().await.unwrap();
        switch_server(&mut self.deployment, &other);
        run(&mut self.deployment.shard(0).await, "SELECT pg_promote()").await;
        self.postgres = other;
        self.begin_again().await;
    }

    async fn restore(&mut self, round: usize) {
        let (other, folder) = own_server().await;
        let phase = format!("{round}-dumped");
        self.under_load(&phase, async |deployment, postgres| restore(deployment, postgres, &other).await).await;
        self.some_time(&format!("{round}-lost")).await;
        self.server.kill_9().await;
        self.postgres.stop().await;
        (self.postgres, self.folder) = (other, folder);
        self.begin_again().await;
    }

    /// Repairs the databases and starts a server, as the documentation of a failover and of a restore says.
    async fn begin_again(&mut self) {
        self.server.kill_9().await;
        self.deployment.repair().await;
        self.server = self.deployment.replica().await;
    }

    async fn copy(&mut self, round: usize, frozen: bool) {
        let name = format!("beside_{round}");
        let phase = format!("{round}-copied");
        let copy =
            self.under_load(&phase, async |deployment, postgres| copy_beside(deployment, postgres, &name).await).await;
        if frozen {
            self.deployment.until_batch_finished().await;
            self.server.signal(Signal::SIGSTOP);
        }
        let before = self.last_sequence().await;
        let beside = self.deployment.replica_with(&[("NOETL_CLUSTER_DSN", &copy)]).await;
        // After one message, the number of the copy's last batch is that of the original's next one.
        let messages = if frozen { 1 } else { 1 + below(&mut self.random, 50) };
        for n in 0..messages {
            started(&beside, &format!("beside-{round}-{n}")).await;
        }
        if frozen {
            eventually("the copy publishes", async || (self.last_sequence().await > before).then_some(())).await;
            self.server.signal(Signal::SIGCONT);
        }
        self.some_time(&format!("{round}-beside")).await;
        for n in 0..10 {
            started(&beside, &format!("beside-{round}-later-{n}")).await;
        }
        assert!(beside.stop().await.success());
        self.some_time(&format!("{round}-alone")).await;
    }

    async fn last_sequence(&self) -> u64 {
        let (_, stream) = self.deployment.stream(0).await;
        stream.get_info().await.unwrap().state.last_sequence
    }

    fn note_gaps(&mut self) {
        let gaps = self.reader.gaps().into_iter().map(|(_, _, _, reason)| reason.to_owned());
        self.gaps.extend(gaps);
    }

    /// Returns the executions by dedup key, according to the logs.
    async fn executions(&self) -> BTreeMap<String, Vec<i64>> {
        let query =
            "SELECT meta #>> '{dedup,key}', execution_id FROM noetl.event WHERE event_type = 'playbook_started'";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(query).fetch_all(&mut self.deployment.shard(0).await).await.unwrap();
        let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (key, id) in rows {
            found.entry(key).or_default().push(id);
        }
        found
    }

    /// Returns the executions of which a worker was notified.
    async fn notified(&self) -> BTreeSet<i64> {
        let notifications = self.deployment.relayed("noetl_executions").await;
        let ids = notifications.iter().map(|(_, _, payload)| {
            let id = payload["execution_id"].as_str().and_then(|id| id.parse::<i64>().ok());
            id.unwrap_or_else(|| panic!("{payload}"))
        });
        ids.collect()
    }

    /// Sends each message again, and compares everything.
    pub async fn check(mut self) {
        let survived = self.executions().await;
        let acknowledged = self.sent.iter().filter(|(_, acknowledged)| **acknowledged).map(|(key, _)| key);
        let lost = acknowledged.filter(|key| !survived.contains_key(*key)).count();
        assert!(lost > 0, "no change lost a commit");
        for key in self.sent.keys() {
            let outcome = started(&self.server, key).await.unwrap_or_else(|| panic!("{key} is refused"));
            // The claim of a lost execution may have survived. Then its repetition is a duplicate too.
            assert!(outcome == "DUPLICATE" || !survived.contains_key(key), "{key} runs twice");
        }
        let executions = self.executions().await;
        for key in self.sent.keys() {
            assert_eq!(executions.get(key).map(Vec::len), Some(1), "{key}");
        }
        let ids: BTreeSet<i64> = executions.values().flatten().copied().collect();
        eventually("a worker was notified of each execution", async || {
            self.notified().await.is_superset(&ids).then_some(())
        })
        .await;
        // The server ends the subscription of a reader that did not read meanwhile.
        self.note_gaps();
        self.reader.reconnect(&self.server).await;
        self.reader.until_kept(&self.deployment.committed().await).await;
        self.note_gaps();
        assert!(self.gaps.iter().any(|reason| reason == "EPOCH_CHANGED"), "the reader was not told of the loss");
        eventually("nothing differs", async || (self.deployment.check(&[]).await.0 == 0).then_some(())).await;
        eprintln!("{} messages, {lost} of them acknowledged and lost; gaps {:?}", self.sent.len(), self.gaps);
        assert!(self.server.stop().await.success());
    }
}

/// Runs a message. Returns the outcome if it is acknowledged.
async fn started(server: &Server, key: &str) -> Option<String> {
    let message = json!({ "path": "process", "dedup": { "key": key, "windowSeconds": 86_400 } });
    let response = server.send(EXECUTE, json!({ "input": execute_input(message) })).await.ok()?;
    response["data"]["execute"]["outcome"].as_str().map(str::to_owned)
}
