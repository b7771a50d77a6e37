//! Two feeds on one broker, and two copies of one database: no feed takes the messages of another one for its own
//! progress, and of two copies at most one publishes.

use nix::sys::signal::Signal;
use noetl_local::Postgres;
use noetl_testkit::copies::{
    back_up, copy_on_shared_server, own_server, restore, server_in, standby, switch_server, until_replayed,
};
use noetl_testkit::feed::{Reader, assert_exactly, run};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

const PREFIX: &str = "NOETL_EVENT_STREAM_PREFIX";

async fn on_broker_of(other: &Deployment, deployment: &Deployment, settings: &[(&str, &str)]) -> Server {
    let broker = other.nats.url();
    deployment.replica_with(&[&[("NOETL_NATS_URL", broker.as_str())], settings].concat()).await
}

async fn until_error_contains(deployment: &Deployment, text: &str) {
    eventually(text, async || deployment.last_error().await?.contains(text).then_some(())).await;
}

#[tokio::test]
async fn a_stream_of_another_feed_is_refused_and_a_prefix_separates_the_feeds() {
    let (one, other) = tokio::join!(Deployment::start(1), Deployment::start(1));
    let _server = one.replica().await;
    one.feeds_begun().await;
    one.commit(7, 1..=10).await;
    one.until_published(10).await;

    let refused = on_broker_of(&one, &other, &[]).await;
    until_error_contains(&other, PREFIX).await;
    other.commit(8, 101..=110).await;
    one.commit(7, 11..=20).await;
    one.until_published(20).await;
    assert_eq!(one.messages().await.len(), 20, "only the feed that owns the stream publishes to it");
    let status = refused.data("{ eventStream { shards { lastError } } }", Value::Null).await;
    let error = status["eventStream"]["shards"][0]["lastError"].as_str().unwrap().to_owned();
    assert!(error.contains("noetl_events") && error.contains(PREFIX), "{error}");
    let metrics = refused.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_tailer_stood_back_total{shard=\"0\",because=\"other_feed\"}"), "{metrics}");
    assert!(refused.stop().await.success());

    let separate = on_broker_of(&one, &other, &[(PREFIX, "staging")]).await;
    let mut reader = Reader::from_beginning(&separate).await;
    assert!(reader.until_seen((101..=110).map(|id| (8, id))).await);
    other.commit(8, 111..=120).await;
    let committed = other.committed().await;
    reader.read_exactly(&committed).await;
    assert_eq!(one.messages().await.len(), 20);
    let status = separate.data("{ eventStream { shards { stream lastError } } }", Value::Null).await;
    assert_eq!(status["eventStream"]["shards"][0], json!({ "stream": "staging_events", "lastError": null }));
}

/// Both feeds began before the stream had a message, so neither can know that the other one uses it.
#[tokio::test]
async fn messages_of_another_feed_never_count_as_progress_and_no_reader_receives_them() {
    let (one, other) = tokio::join!(Deployment::start(1), Deployment::start(1));
    let first = one.replica().await;
    one.feeds_begun().await;
    let second = on_broker_of(&one, &other, &[]).await;
    // A lease is not enough: the second leader must have seen the empty stream.
    eventually("the second feed publishes", async || {
        let metrics = second.get("/metrics").await.ok()?.text().await.ok()?;
        metrics.contains("noetl_tailer_takeovers_total{shard=\"0\"} 1").then_some(())
    })
    .await;
    let open = async |server| Reader::from_beginning(server).await;
    let mut readers = [open(&first).await, open(&second).await];
    for round in 0..3 {
        for (deployment, reader, execution) in [(&one, 0, 7), (&other, 1, 8)] {
            let ids = execution * 1000 + round * 10..=execution * 1000 + round * 10 + 9;
            deployment.commit(execution, ids.clone()).await;
            assert!(readers[reader].until_seen(ids.map(|id| (execution, id))).await);
        }
    }
    for (deployment, reader) in [(&one, &readers[0]), (&other, &readers[1])] {
        reader.assert_saw_exactly(&deployment.committed().await);
        assert_eq!((deployment.epoch().await, reader.gaps()), (1, vec![]));
    }
    until_error_contains(&other, PREFIX).await;
    let metrics = second.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_tailer_other_feed_messages_total{shard=\"0\"} "), "{metrics}");
}

/// A deployment whose database runs on two servers: the primary, and a promoted standby.
struct Split {
    deployment: Deployment,
    primary: String,
    _servers: [Postgres; 2],
    _folder: tempfile::TempDir,
}

/// Promotes the standby although the primary still runs. The deployment is then that of the standby.
async fn split() -> (Split, Server) {
    let (primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let standby = standby(&primary, &folder.path().join("standby")).await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    deployment.until_batch_finished().await;
    until_replayed(&deployment, &standby).await;
    let dsn = deployment.cluster_dsn.clone();
    switch_server(&mut deployment, &standby);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    (Split { deployment, primary: dsn, _servers: [primary, standby], _folder: folder }, server)
}

impl Split {
    async fn commit_on_primary(&self, first: i64, last: i64) {
        commit_on(&self.primary, first, last).await;
    }
}

/// Commits events of the execution 8 on a copy of the deployment's database.
async fn commit_on(copy: &str, first: i64, last: i64) {
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type)
         SELECT 8, n, 'call.done' FROM generate_series({first}, {last}) AS n"
    );
    run(&mut PgConnection::connect(copy).await.unwrap(), &rows).await;
}

async fn until_error_on_copy_contains(copy: &str, text: &str) {
    eventually(text, async || {
        let error = sqlx::query_scalar::<_, Option<String>>("SELECT last_error FROM noetl.tail_cursor");
        let error = error.fetch_one(&mut PgConnection::connect(copy).await.ok()?).await.ok()?;
        error?.contains(text).then_some(())
    })
    .await;
}

#[tokio::test]
async fn of_two_tailers_on_a_split_database_only_the_one_of_the_promoted_server_publishes() {
    let (split, old) = split().await;
    let deployment = &split.deployment;
    let new = deployment.feed_replica().await;
    deployment.commit(9, 101..=120).await;
    deployment.until_published(30).await;
    split.commit_on_primary(201, 220).await;
    until_error_on_copy_contains(&split.primary, "timeline").await;
    for round in 0..5 {
        split.commit_on_primary(300 + round * 10, 309 + round * 10).await;
        deployment.commit(9, 400 + round * 10..=409 + round * 10).await;
    }
    let committed = deployment.committed().await;
    deployment.assert_published_once().await;
    assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
    let metrics = old.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("noetl_tailer_stood_back_total{shard=\"0\",because=\"rival\"}"), "{metrics}");
    let mut reader = Reader::from_beginning(&new).await;
    reader.read_exactly(&committed).await;
}

/// The old primary publishes events that the promoted server does not have, until the promoted one's tailer starts.
#[tokio::test]
async fn events_that_only_the_old_primary_published_are_in_a_gap_that_tells_readers_to_discard_them() {
    let (split, _old) = split().await;
    let deployment = &split.deployment;
    split.commit_on_primary(201, 220).await;
    deployment.until_published(30).await;
    let new = deployment.feed_replica().await;
    let mut reader = Reader::from_beginning(&new).await;
    deployment.commit(9, 101..=120).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await);
    assert_eq!(reader.gaps(), [(0, 11, 30, "EPOCH_CHANGED")]);
    reader.assert_kept_exactly(&committed);
    split.commit_on_primary(301, 310).await;
    deployment.commit(9, 121..=130).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await);
    reader.assert_kept_exactly(&committed);
    assert_eq!(deployment.epoch().await, 2);
}

#[tokio::test]
async fn a_restored_dump_publishes_only_after_the_original_has_stopped() {
    let ((old, _folder), (new, _other_folder)) = tokio::join!(own_server(), own_server());
    let mut deployment = Deployment::on(&old.dsn("postgres"), 0).await;
    let original = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    deployment.until_batch_finished().await;
    restore(&mut deployment, &old, &new).await;

    let _copy = deployment.replica().await;
    until_error_contains(&deployment, PREFIX).await;
    deployment.commit(8, 101..=110).await;
    until_error_contains(&deployment, "system identifier").await;
    assert_eq!(deployment.published().await.len(), 10);
    assert!(original.stop().await.success());
    deployment.assert_published_once().await;
}

/// Starts a replica and publishes ten events.
async fn ten_published(deployment: &Deployment) -> Server {
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    deployment.until_batch_finished().await;
    server
}

#[tokio::test]
async fn a_copy_on_the_server_of_the_original_does_not_publish() {
    let deployment = Deployment::start(0).await;
    let server = ten_published(&deployment).await;
    let copied = copy_on_shared_server(&deployment).await;
    let copy = &copied.cluster_dsn;
    let _beside = deployment.feed_replica_with(&[("NOETL_CLUSTER_DSN", copy)]).await;
    until_error_on_copy_contains(copy, "database OID").await;
    let mut reader = Reader::from_beginning(&server).await;
    for round in 1..=5 {
        commit_on(copy, round * 100, round * 100 + 9).await;
        deployment.commit(9, round * 100..=round * 100 + 9).await;
    }
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;
    assert_exactly(&deployment.published().await, &committed);
    assert_eq!((deployment.epoch().await, deployment.last_error().await), (1, None));
}

/// The copy asks for other leaders while the original's is frozen, so nothing says that there is one. Both publish a batch
/// with the same number.
///
/// What the original has published since the copy was made is unknown to the copy, which tells readers to discard it.
async fn copy_publishes_while_the_original_is_frozen(deployment: &Deployment, server: Server, copy: &str) {
    deployment.commit(7, 11..=15).await;
    deployment.until_published(15).await;
    deployment.until_batch_finished().await;
    server.signal(Signal::SIGSTOP);
    let beside = deployment.feed_replica_with(&[("NOETL_CLUSTER_DSN", copy)]).await;
    commit_on(copy, 101, 120).await;
    deployment.until_published(35).await;
    deployment.commit(9, 201..=220).await;
    server.signal(Signal::SIGCONT);
    until_error_contains(deployment, "another copy of this database").await;
    assert!(beside.stop().await.success());

    let mut reader = Reader::from_beginning(&server).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await);
    reader.until_kept(&committed).await;
    assert!(reader.gaps().iter().all(|(_, from, _, reason)| (*from, *reason) == (11, "EPOCH_CHANGED")));
}

#[tokio::test]
async fn events_of_a_copy_on_the_same_server_never_count_as_published_by_the_original() {
    let deployment = Deployment::start(0).await;
    let server = ten_published(&deployment).await;
    let copied = copy_on_shared_server(&deployment).await;
    copy_publishes_while_the_original_is_frozen(&deployment, server, &copied.cluster_dsn).await;
}

#[tokio::test]
async fn events_of_a_copy_of_the_files_never_count_as_published_by_the_original() {
    let (postgres, folder) = own_server().await;
    let deployment = Deployment::on(&postgres.dsn("postgres"), 0).await;
    let server = ten_published(&deployment).await;
    let copied = folder.path().join("copy");
    std::fs::create_dir(&copied).unwrap();
    back_up(&postgres, &folder.path().join("postgres/data"), &copied.join("data")).await;
    let copied = server_in(&copied).await;
    let name = deployment.cluster_dsn.rsplit('/').next().unwrap();
    copy_publishes_while_the_original_is_frozen(&deployment, server, &copied.dsn(name)).await;
}
