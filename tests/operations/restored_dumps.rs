//! A whole deployment is restored from dumps of its databases, which were made at different moments under load, by the
//! commands of docs/operations/backup.md. After `check --repair`, the databases agree, each message that is sent again
//! has exactly one execution, and readers have exactly the events of the databases.

use std::collections::BTreeSet;

use noetl_local::Postgres;
use noetl_testkit::copies::own_server;
use noetl_testkit::dumps::Dumps;
use noetl_testkit::feed::{Reader, run};
use noetl_testkit::projections::NO_PROJECTOR_NO_STREAM;
use noetl_testkit::recorder::Addresses;
use noetl_testkit::traffic::{Databases, SETTINGS, Size, Traffic};
use noetl_testkit::{Deployment, NOT_DURABLE, Server, eventually, own_postgres, worker};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

const SEED: u64 = 7;
const SIZE: Size = Size { sources: 4, workers: 2, in_flight: 8 };
/// Number of messages that run to their end between two dumps.
const MESSAGES_BETWEEN: usize = 12;

/// Starts a replica, which replaces the others.
async fn only_replica(deployment: &Deployment, addresses: &Addresses) -> Server {
    let server = deployment.replica_with(&SETTINGS).await;
    *addresses.lock().unwrap() = vec![server.url.clone()];
    server
}

async fn until_more_are_completed(traffic: &Traffic) {
    let wanted = traffic.counts().1 + MESSAGES_BETWEEN;
    eventually("more messages are completed", async || (traffic.counts().1 >= wanted).then_some(())).await;
}

/// Runs messages and dumps shard 0, the cluster database and shard 1 one after the other. So the cluster database has
/// claims whose executions shard 0 lacks, and lacks claims of executions that shard 1 has.
async fn dump_under_load(deployment: &Deployment, traffic: &Traffic) -> Dumps {
    let mut dumps = Dumps::new();
    let dumping = async {
        for dsn in [&deployment.shard_dsns[0], &deployment.cluster_dsn, &deployment.shard_dsns[1]] {
            until_more_are_completed(traffic).await;
            dumps.dump(dsn).await;
        }
        until_more_are_completed(traffic).await;
        traffic.stop();
    };
    tokio::join!(traffic.run(), dumping);
    dumps
}

/// Checks the promises after a restore. `lose_broker` deletes the streams.
async fn restored(lose_broker: bool) {
    let ((fresh, _folder), mut deployment) = tokio::join!(own_server(), Deployment::start(2));
    let addresses = Addresses::default();
    let server = only_replica(&deployment, &addresses).await;
    deployment.feeds_begun().await;
    let traffic = Traffic::new(&server, &addresses, SEED, SIZE).await;
    let dumps = dump_under_load(&deployment, &traffic).await;
    let before = deployment.committed().await;
    let mut reader = Reader::from_beginning(&server).await;
    reader.until_kept(&before).await;
    let issued: BTreeSet<i64> = before.iter().flat_map(|(execution, event)| [*execution, *event]).collect();
    let known = traffic.started();
    assert!(server.stop().await.success());

    // The documented steps.
    dumps.restore(&mut deployment, &fresh).await;
    if lose_broker {
        deployment.kill_broker_and_delete_store().await;
        deployment.nats.restart().await.unwrap();
    }
    assert!(deployment.command("check-config").status().await.unwrap().success());
    deployment.migrate().await;
    let repaired = deployment.repair().await;
    let kinds: Vec<&str> =
        repaired["differences"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    for expected in ["claim without execution", "execution without claim", "restored database"] {
        assert!(kinds.contains(&expected), "{repaired:#}");
    }
    Databases::of(&deployment).assert_consistent().await;
    let restored = deployment.committed().await;
    assert!(restored.is_subset(&before) && restored.len() < before.len(), "the repair wrote events");
    let survived: BTreeSet<i64> = restored.iter().map(|(execution, _)| *execution).collect();

    let server = only_replica(&deployment, &addresses).await;
    let mut readers = [Reader::from_beginning(&server).await, reader];
    readers[1].reconnect(&server).await;
    if lose_broker {
        for reader in &mut readers {
            reader.until_kept(&restored).await;
        }
        readers[0].assert_saw_exactly(&restored);
    }

    server.until_feed_epoch(2).await;
    // The servers do this each minute: executions whose last states the dumps lack are listed with them.
    deployment.maintain(&[]).await;
    traffic.repeat(&Databases::of(&deployment)).await;
    Databases::of(&deployment).until_at_rest().await;
    let executions = traffic.check(&Databases::of(&deployment)).await;
    Databases::of(&deployment).assert_consistent().await;
    for (message, execution) in traffic.started() {
        let same = known[&message] == execution;
        assert_eq!(same, survived.contains(&known[&message]), "message {message} runs as {execution}");
        assert!(same || !issued.contains(&execution), "the id {execution} was issued twice");
    }
    assert!(executions.len() > survived.len(), "no message ran again");
    let committed = deployment.committed().await;
    for reader in &mut readers {
        reader.until_kept(&committed).await;
    }
    eventually("nothing differs", async || (deployment.check(&[]).await.0 == 0).then_some(())).await;
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_deployment_restored_from_dumps_of_different_times_runs_each_message_once_with_the_same_broker() {
    Box::pin(restored(false)).await;
}

#[tokio::test]
async fn a_deployment_restored_from_dumps_of_different_times_runs_each_message_once_with_an_empty_broker() {
    Box::pin(restored(true)).await;
}

/// The rows of a dump have transaction ids of the old server until the feed begins again. A state that is stored before
/// must not be the start of a later fold.
async fn state_has_each_event_once(old: &Postgres, new: &Postgres) {
    let mut deployment = Deployment::on(&old.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let execution = server.start_execution().await;
    deployment.until_all_published().await;
    assert!(server.stop().await.success());
    deployment.commit(execution, execution + 11..=execution + 15).await;
    let mut dumps = Dumps::new();
    dumps.dump(&deployment.cluster_dsn).await;
    dumps.restore(&mut deployment, new).await;

    let server = deployment.replica_with(&NO_PROJECTOR_NO_STREAM).await;
    for _ in 0..2 {
        advance(&server, execution).await;
        assert_eq!(event_count(&server, execution).await, "6");
    }
    assert!(server.stop().await.success());
    let server = deployment.replica().await;
    deployment.until_published(6).await;
    for event in 21..=22 {
        server.project(&[worker::event(execution, execution + event)]).await;
        advance(&server, execution).await;
        assert_eq!(event_count(&server, execution).await, (event - 14).to_string());
    }
    Databases::of(&deployment).assert_consistent().await;
}

#[tokio::test]
async fn a_state_has_each_event_once_if_it_was_stored_before_the_feed_of_a_dump_began() {
    let servers = tokio::join!(own_postgres(&[NOT_DURABLE]), own_postgres(&[NOT_DURABLE]));
    let ((_folder, used), (_other_folder, fresh)) = &servers;
    use_transactions(&used.dsn("postgres")).await;
    eprintln!("the old server has used more transaction ids");
    state_has_each_event_once(used, fresh).await;
    eprintln!("the new server has used more transaction ids");
    state_has_each_event_once(fresh, used).await;
}

/// Uses many transaction ids of a server.
async fn use_transactions(dsn: &str) {
    let mut database = PgConnection::connect(dsn).await.unwrap();
    run(&mut database, "DO $$ BEGIN FOR n IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        .await;
}

async fn advance(server: &Server, execution: i64) {
    let advanced = server.advance_projections(&[execution]).await;
    assert_eq!(advanced["failed"], json!([]), "{advanced}");
}

/// Returns the number of events in the state of an execution.
async fn event_count(server: &Server, execution: i64) -> Value {
    let query = "query($id: ID!) { execution(id: $id) { eventCount } }";
    let mut data = server.data(query, json!({ "id": execution.to_string() })).await;
    data["execution"]["eventCount"].take()
}
