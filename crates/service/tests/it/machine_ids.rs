//! Two replicas never generate the same id: each has its own machine id and generates ids only while it holds the
//! lease.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardMap;
use noetl_runtime::clock;
use noetl_service::ids::Ids;
use noetl_storage::error::DatabaseName;
use noetl_storage::machines::Holder;
use noetl_storage::pools::{Database, Databases};
use noetl_testkit::{Deployment, Server, WAIT_TIMEOUT, eventually};
use serde_json::json;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

async fn machine_id(server: &Server) -> u16 {
    let data = server.data("{ server { machineId } }", json!({})).await;
    data["server"]["machineId"].as_u64().unwrap().try_into().unwrap()
}

/// Returns the machine id in an id.
fn made_by(id: &str) -> u16 {
    u16::try_from(id.parse::<i64>().unwrap() >> 12 & 1023).unwrap()
}

const EXECUTE: &str =
    "mutation { execute(input: {entry: {path: \"process\"}}) { execution { id } userErrors { code retryable } } }";

async fn execute(server: &Server) -> String {
    let data = server.data(EXECUTE, json!({})).await;
    data["execute"]["execution"]["id"].as_str().unwrap_or_else(|| panic!("{data}")).to_owned()
}

#[tokio::test]
async fn replicas_never_share_a_machine_id() {
    let deployment = Deployment::start(1).await;
    // Every machine id was in use until recently, so that none is preferred.
    let used =
        "UPDATE noetl.machine_lease SET ceiling_ms = 1000 * extract(epoch FROM now() - '2023-12-31T23:59Z')::bigint";
    sqlx::query(used).execute(&mut deployment.cluster().await).await.unwrap();
    let small = [("NOETL_POOL_SIZE", "4")];
    let mut replicas = join_all((0..6).map(|_| deployment.replica_with(&small))).await;
    replicas[0].register_entry("process", &json!({ "kind": "playbook" })).await;
    let ids: BTreeSet<u16> = join_all(replicas.iter().map(machine_id)).await.into_iter().collect();
    assert_eq!(ids.len(), 6, "{ids:?}");

    let made = join_all((0..120).map(|n| execute(&replicas[n % 6]))).await;
    let unique: HashSet<&String> = made.iter().collect();
    assert_eq!(unique.len(), made.len());
    let used: BTreeSet<u16> = made.iter().map(|id| made_by(id)).collect();
    assert_eq!(used, ids, "ids must contain the machine ids of their replicas");

    // A replica that stops gives its machine id back immediately. A killed replica does not.
    let (stopped, mut killed) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    let (free, held) = (machine_id(&stopped).await, machine_id(&killed).await);
    assert!(stopped.stop().await.success());
    killed.kill_9().await;
    replicas.extend(join_all((0..2).map(|_| deployment.replica_with(&small))).await);
    let ids: Vec<u16> = join_all(replicas.iter().map(machine_id)).await;
    assert!(ids.contains(&free), "{free} was not reused: {ids:?}");
    assert!(!ids.contains(&held), "{held} may still be held: {ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6, "{ids:?}");
}

/// The state of an established connection (`proc_pid_net(5)`).
const ESTABLISHED: &str = "01";

/// Returns the number of connections to the server with bytes that the server has not read.
fn waiting_requests(server: &Server) -> usize {
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let waiting = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns[3] == ESTABLISHED && columns[1].ends_with(&format!(":{port:04X}")) && !columns[4].ends_with(":00000000")
    };
    sockets.lines().skip(1).filter(waiting).count()
}

#[tokio::test]
async fn a_replica_that_lost_its_lease_generates_no_id_with_its_machine_id() {
    let deployment = Deployment::start(1).await;
    let frozen = deployment.replica().await;
    frozen.register_entry("process", &json!({ "kind": "playbook" })).await;
    let lost = machine_id(&frozen).await;
    let mut before = Vec::new();
    for _ in 0..20 {
        before.push(execute(&frozen).await);
    }
    frozen.signal(Signal::SIGSTOP);
    // The second replica waits until the lease has expired, and then takes the machine id.
    let heir = deployment.replica_with(&[("NOETL_SERVER_MACHINE_ID", &lost.to_string())]).await;
    let of_heir = join_all((0..50).map(|_| execute(&heir))).await;
    assert!(of_heir.iter().all(|id| made_by(id) == lost));

    // These requests wait in the sockets. They are the first work of the replica after SIGCONT.
    let waiting: Vec<_> = (0..20).map(|_| frozen.send(EXECUTE, json!({}))).collect();
    let thaw = async {
        eventually("the requests wait in the sockets", async || (waiting_requests(&frozen) == 20).then_some(())).await;
        frozen.signal(Signal::SIGCONT);
    };
    let (answers, ()) = tokio::join!(join_all(waiting), thaw);
    let mut after = Vec::new();
    for answer in answers {
        let payload = answer.unwrap()["data"]["execute"].clone();
        if let Some(id) = payload["execution"]["id"].as_str() {
            after.push(id.to_owned());
        } else {
            let error = &payload["userErrors"][0];
            assert_eq!((&error["code"], &error["retryable"]), (&json!("SHARD_UNAVAILABLE"), &json!(true)), "{payload}");
        }
    }
    eventually("the replica generates ids under another machine id", async || {
        let answer = frozen.send(EXECUTE, json!({})).await.unwrap();
        after.push(answer["data"]["execute"]["execution"]["id"].as_str()?.to_owned());
        Some(())
    })
    .await;
    let taken = machine_id(&frozen).await;
    assert_ne!(taken, lost);
    assert!(
        after.iter().all(|id| made_by(id) == taken),
        "an id was generated under the lost machine id {lost}: {after:?}"
    );
    let all: Vec<&String> = before.iter().chain(&of_heir).chain(&after).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "an id was generated twice");
}

#[tokio::test]
async fn a_replica_stops_using_a_lease_that_another_owner_holds() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let lost = machine_id(&server).await;
    let give_away = "UPDATE noetl.machine_lease
                     SET owner = gen_random_uuid(), expires_at = now() + interval '1 hour' WHERE machine_id = $1";
    let mut cluster = deployment.cluster().await;
    let given = sqlx::query(give_away).bind(lost.cast_signed()).execute(&mut cluster).await.unwrap();
    assert_eq!(given.rows_affected(), 1);
    let taken = eventually("the replica has another machine id", async || {
        Some(machine_id(&server).await).filter(|id| *id != lost)
    });
    let taken = taken.await;
    let made: BTreeSet<u16> = join_all((0..20).map(|_| execute(&server))).await.iter().map(|id| made_by(id)).collect();
    assert_eq!(made, BTreeSet::from([taken]));
}

#[tokio::test]
async fn a_fixed_machine_id_is_held_by_one_replica_at_a_time() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[("NOETL_SERVER_MACHINE_ID", "7")]).await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    assert_eq!(machine_id(&server).await, 7);
    assert_eq!(made_by(&execute(&server).await), 7);

    let mut second = deployment.command("serve");
    second
        .env("NOETL_SERVER_MACHINE_ID", "7")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut second = second.spawn().unwrap();
    let status = tokio::time::timeout(WAIT_TIMEOUT, second.wait()).await.unwrap().unwrap();
    assert!(!status.success());
    let mut said = String::new();
    second.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    let clear = said.contains("NOETL_SERVER_MACHINE_ID") && said.contains('7') && said.contains("another replica");
    assert!(clear, "the message does not say what to do: {said}");
    let mut printed = String::new();
    second.stdout.take().unwrap().read_to_string(&mut printed).await.unwrap();
    assert_eq!(printed, "", "the second replica serves");
    assert_eq!(made_by(&execute(&server).await), 7);
}

#[tokio::test]
async fn a_restarted_replica_never_repeats_an_id() {
    let deployment = Deployment::start(1).await;
    let pinned = [("NOETL_SERVER_MACHINE_ID", "7")];
    let mut lives: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for life in 0..4_usize {
        // The clock of the second run is one hour slow.
        let mut server = match life {
            1 => deployment.replica_an_hour_behind(&pinned).await,
            _ => deployment.replica_with(&pinned).await,
        };
        if life == 0 {
            server.register_entry("process", &json!({ "kind": "playbook" })).await;
        }
        let made = join_all((0..50).map(|_| execute(&server))).await;
        assert!(made.iter().all(|id| made_by(id) == 7), "{made:?}");
        let ids: Vec<i64> = made.iter().map(|id| id.parse().unwrap()).collect();
        if let Some(previous) = life.checked_sub(1) {
            let (last, first) = (lives[&previous].iter().max().unwrap(), ids.iter().min().unwrap());
            assert!(first > last, "life {life} begins with {first}, before {last} of the one before");
        }
        lives.insert(life, ids);
        if life == 2 {
            server.kill_9().await;
        } else {
            assert!(server.stop().await.success());
        }
    }
    let all: HashSet<i64> = lives.values().flatten().copied().collect();
    assert_eq!(all.len(), 200);
}

#[tokio::test]
async fn ids_stay_increasing_after_a_log_entry_with_an_id_from_the_future() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let inbox = server.subscribe("inbox").await;
    server.transition("activate", &inbox, None).await;
    let mut shard = deployment.shard(0).await;
    let mut ahead: i64 = inbox.parse().unwrap();
    for round in 0..10 {
        // A replica whose clock is one hour fast wrote to the log; each round adds an hour.
        ahead += 3_600_000 << 22;
        let event = "INSERT INTO noetl.event (execution_id, event_id, event_type)
                     VALUES ($1, $2, 'subscription.message.deduplicated')";
        sqlx::query(event).bind(inbox.parse::<i64>().unwrap()).bind(ahead).execute(&mut shard).await.unwrap();
        let pause = server.transition("pause", &inbox, None);
        let executes = join_all((0..40).map(|_| server.send(EXECUTE, json!({}))));
        let (paused, executed) = tokio::join!(pause, executes);
        let last: i64 = paused["subscription"]["lastEventId"].as_str().unwrap().parse().unwrap();
        assert!(last > ahead, "round {round}: {last} does not follow {ahead}");
        for answer in executed {
            let answer = answer.unwrap();
            assert!(answer["data"]["execute"]["execution"]["id"].is_string(), "round {round}: {answer}");
        }
    }
}

#[tokio::test]
async fn ids_at_the_ceiling_of_the_lease_are_generated_after_a_renewal() {
    let deployment = Deployment::start(1).await;
    let options = deployment.cluster_dsn.parse().unwrap();
    let cluster = Arc::new(Database::new(DatabaseName::Cluster, options, 2));
    let databases = Databases::new(Arc::clone(&cluster), vec![cluster], ShardMap::even(1), clock::now());
    let ids =
        Ids::lease(databases, Holder { owner: Uuid::new_v4(), description: None }, Some(9)).await.unwrap().unwrap();
    let ceiling = deployment.in_cluster("SELECT ceiling_ms FROM noetl.machine_lease WHERE machine_id = 9").await;
    // A log whose last id is at the end of the reserved range.
    let mut made = vec![ids.next_after(Id::first_of(ceiling.cast_unsigned() - 1)).await.unwrap()];
    for _ in 0..5_000 {
        made.push(ids.next().await.unwrap());
    }
    assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(made[5_000].millis() > ceiling.cast_unsigned());
}
