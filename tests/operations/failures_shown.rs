//! Failures show in the numbers that operators watch, and in few lines of the log.

#![allow(clippy::float_cmp, reason = "the values of these metrics are whole numbers")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use noetl_testkit::{Deployment, NOT_DURABLE, Server, eventually, limit_files, own_postgres, sleep_in_scenario};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tempfile::NamedTempFile;
use tokio::process::Child;

use super::dependencies::broker::broker;
use super::shard_down::{subscriptions, with_own_shard};

fn operations(operation: &str, outcome: &str) -> String {
    format!("graphql_operations_total{{transport=\"post\",operation=\"{operation}\",outcome=\"{outcome}\"}}")
}

fn user_errors(mutation: &str, code: &str) -> String {
    format!("noetl_user_errors_total{{mutation=\"{mutation}\",code=\"{code}\"}}")
}

/// Returns the value of a series, which must exist.
async fn series(server: &Server, name: &str) -> f64 {
    let text = server.get("/metrics").await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing")).parse().unwrap()
}

#[tokio::test]
async fn mutations_that_fail_by_a_shard_count_as_failed_and_new_executions_avoid_it() {
    let mut setup = with_own_shard().await;
    let server = setup.deployment.replica().await;
    let [here, there] = subscriptions(&server).await;
    setup.own.kill_9().await;
    let refused = server.transition("pause", &there, None).await;
    assert_eq!(refused["userErrors"][0]["code"], "SHARD_UNAVAILABLE", "{refused}");
    assert_eq!(server.metric(&user_errors("pauseSubscription", "SHARD_UNAVAILABLE")).await, 1.0);
    assert_eq!(server.metric(&operations("mutation", "failed")).await, 1.0);

    let bulk = "mutation($ids: [ID!]!) { transitionSubscriptions(input: {action: PAUSE, select: {ids: $ids}}) {
        results { userErrors { code } } userErrors { code } } }";
    let done = server.data(bulk, json!({ "ids": [here, there] })).await;
    let codes = done["transitionSubscriptions"].to_string();
    assert!(codes.contains("SHARD_UNAVAILABLE"), "{codes}");
    assert_eq!(server.metric(&user_errors("transitionSubscriptions", "SHARD_UNAVAILABLE")).await, 1.0);
    assert_eq!(server.metric(&operations("mutation", "failed")).await, 2.0);

    let query = "query($id: ID!) { subscription(by: {id: $id}) { status } }";
    server.send(query, json!({ "id": there })).await.unwrap();
    assert_eq!(server.metric(&operations("query", "failed")).await, 1.0);

    // What the caller can correct is no failure.
    let refused = server.transition("resume", &here, Some("1")).await;
    assert_eq!(refused["userErrors"][0]["code"], "STALE_VERSION", "{refused}");
    assert_eq!(server.metric(&user_errors("resumeSubscription", "STALE_VERSION")).await, 1.0);
    assert_eq!(server.metric(&operations("mutation", "failed")).await, 2.0);

    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    eventually("the shard shows as down", async || {
        (server.metric("noetl_database_up{database=\"shard 1\"}").await == 0.0).then_some(())
    })
    .await;
    for n in 0..30 {
        let payload = server.execute(json!({ "path": "process", "dedup": { "key": format!("{n}") } })).await;
        assert_eq!((&payload["outcome"], &payload["execution"]["shard"]), (&json!("STARTED"), &json!(0)), "{payload}");
    }
}

/// Counters begin with zero, and durations have buckets. The server has done nothing before.
async fn counters_begin_with_zero_and_durations_have_buckets(server: &Server) {
    for name in ["noetl_outbox_published_total", "noetl_outbox_dead_total{shard=\"0\"}"] {
        assert_eq!(series(server, name).await, 0.0, "{name}");
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(series(server, &format!("noetl_build_info{{version=\"{version}\"}}")).await, 1.0);
    for name in ["process_resident_memory_bytes", "process_open_fds"] {
        assert!(series(server, name).await > 0.0, "{name}");
    }
    series(server, "process_cpu_seconds_total").await;
    server.data("{ server { version } }", Value::Null).await;
    let of =
        |le| format!("graphql_operation_duration_seconds_bucket{{transport=\"post\",operation=\"query\",le=\"{le}\"}}");
    assert!(series(server, &of("+Inf")).await >= 1.0);
    assert!(series(server, &of("0.005")).await <= series(server, &of("15")).await);
}

#[tokio::test]
async fn metrics_begin_at_the_start_sighup_reads_the_filter_of_the_log_again_and_each_line_is_json() {
    let deployment = Deployment::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let (settings, log) = (folder.path().join("settings.toml"), NamedTempFile::new().unwrap());
    std::fs::write(&settings, "log = \"error\"\n").unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_CONFIG", &settings).env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    let mut server = Server::spawn(command).await;
    Box::pin(counters_begin_with_zero_and_durations_have_buckets(&server)).await;
    assert_eq!(lines(&log, ""), Vec::<String>::new());
    std::fs::write(&settings, "log = \"not a filter [\"\n").unwrap();
    server.signal(Signal::SIGHUP);
    eventually("the invalid filter is refused", async || lines(&log, "stays as it was").pop()).await;
    std::fs::write(&settings, "log = \"info,noetl=debug\"\n").unwrap();
    server.signal(Signal::SIGHUP);
    eventually("the filter is read again", async || lines(&log, "read the filter of the log again").pop()).await;
    eventually("debug lines are written", async || {
        server.data("{ executions { nodes { id } } }", Value::Null).await;
        lines(&log, "\"level\":\"DEBUG\"").pop()
    })
    .await;
    assert_eq!(server.has_ended(), None);
    for line in lines(&log, "") {
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line.get("span").is_none(), "{line}");
    }
    let mut command = deployment.command("serve");
    command.env("NOETL_LOG_FORMAT", "json").env("NOETL_POOL_SIZE", "none");
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["fields"]["message"].as_str().unwrap().contains("NOETL_POOL_SIZE"), "{line}");
    }
}

/// Returns the lines of a log with a text.
fn lines(log: &NamedTempFile, text: &str) -> Vec<String> {
    let log = std::fs::read_to_string(log.path()).unwrap();
    log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_full_disk_shows_as_a_database_that_is_not_available_for_as_long_as_it_is_full() {
    let (folder, own) = own_postgres(&[NOT_DURABLE, ("autovacuum", "off")]).await;
    let mut deployment = Deployment::unmigrated(1).await;
    deployment.configure_shards(&[own.dsn("own")]);
    deployment.migrate().await;
    // The current partition of the events has 14 MiB that can't be compressed. A deleted row keeps its place.
    let fill = "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
                SELECT (extract(epoch FROM now())::bigint * 1000 - 1704067200000) << 22, 1, 'call.done',
                       jsonb_build_object('text', string_agg(encode(sha384(n::text::bytea), 'base64'), ''))
                FROM generate_series(1, 14 * 16384) AS n;
                DELETE FROM noetl.event";
    let mut admin = PgConnection::connect(&own.dsn("own")).await.unwrap();
    sqlx::raw_sql(fill).execute(&mut admin).await.unwrap();
    let data = folder.path().join("postgres/data");
    // Files of the write-ahead log have 16 MiB.
    limit_files(&data, Some((16 << 20) + 1000)).await;
    let log = NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    assert_eq!(server.metric("noetl_database_up{database=\"shard 0\"}").await, 1.0);

    let filled = eventually("the disk is full", async || {
        // It can't be compressed.
        let text: String = (0..16_000).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
        let payload = server.execute(json!({ "path": "process", "workload": { "text": text } })).await;
        let error = payload["userErrors"].get(0)?;
        assert_eq!(error["code"], "SHARD_UNAVAILABLE", "{payload}");
        Some(text)
    })
    .await;
    eventually("the database shows as full", async || {
        (series(&server, "noetl_database_up{database=\"shard 0\"}").await == 0.0).then_some(())
    })
    .await;
    let state = server.data("{ shards { available error } executions(first: 1) { nodes { id } } }", Value::Null).await;
    assert_eq!(state["shards"][0], json!({ "available": false, "error": "the disk of shard 0 is full" }));
    assert_eq!(state["executions"]["nodes"].as_array().unwrap().len(), 1, "reads work");
    let readiness = server.get("/readyz").await.unwrap();
    assert_eq!(readiness.status(), 200);
    assert_eq!(readiness.json::<Value>().await.unwrap()["down"], json!(["shard 0"]));

    // The first of them may still fit.
    for _ in 0..40 {
        server.execute(json!({ "path": "process", "workload": { "text": &filled[..50_000] } })).await;
    }
    let said = lines(&log, "SQLSTATE 53100");
    assert!(!said.is_empty() && said.len() <= 20, "{} lines: {said:#?}", said.len());
    eventually("the number of repetitions", async || lines(&log, "a line was repeated").first().cloned()).await;

    limit_files(&data, None).await;
    let mut admin = PgConnection::connect(&own.dsn("postgres")).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'own'";
    sqlx::query(end).execute(&mut admin).await.unwrap();
    eventually("the database is available", async || {
        let payload = server.execute(json!({ "path": "process" })).await;
        (payload["outcome"] == "STARTED" && series(&server, "noetl_database_up{database=\"shard 0\"}").await == 1.0)
            .then_some(())
    })
    .await;
}

/// Returns the ages of open transactions that a server reports, once there is one.
async fn oldest_open(server: &Server) -> f64 {
    eventually("an open transaction is reported", async || {
        let age = server.metric("noetl_tailer_oldest_open_transaction_seconds{shard=\"0\"}").await;
        (age > 0.0).then_some(age)
    })
    .await
}

#[tokio::test]
async fn prepared_transactions_and_those_of_other_roles_are_reported_and_a_missing_right_is_said() {
    let (_folder, own) = own_postgres(&[NOT_DURABLE, ("max_prepared_transactions", "2")]).await;
    let mut deployment = Deployment::unmigrated(1).await;
    let mut admin = PgConnection::connect(&own.dsn("own")).await.unwrap();
    let role = "CREATE ROLE plain LOGIN; ALTER DATABASE own OWNER TO plain";
    sqlx::raw_sql(role).execute(&mut admin).await.unwrap();
    deployment.configure_shards(&[own.dsn("own").replace("//noetl@", "//plain@")]);
    deployment.migrate().await;
    let log = NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    eventually("the missing right is said", async || lines(&log, "GRANT pg_read_all_stats").first().cloned()).await;

    let prepared = "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'";
    sqlx::raw_sql(prepared).execute(&mut admin).await.unwrap();
    oldest_open(&server).await;
    sqlx::raw_sql("ROLLBACK PREPARED 'forgotten'").execute(&mut admin).await.unwrap();
    eventually("it is not open any more", async || {
        let age = server.metric("noetl_tailer_oldest_open_transaction_seconds{shard=\"0\"}").await;
        (age == 0.0).then_some(())
    })
    .await;

    sqlx::raw_sql("GRANT pg_read_all_stats TO plain").execute(&mut admin).await.unwrap();
    let mut other = admin.begin().await.unwrap();
    sqlx::raw_sql("SELECT pg_current_xact_id()").execute(&mut *other).await.unwrap();
    oldest_open(&server).await;
    other.rollback().await.unwrap();
    assert!(server.stop().await.success());
}

/// Returns the holders of the lease on shard 0's feed that are seen during a time.
async fn holders(deployment: &Deployment, time: Duration) -> BTreeSet<String> {
    let mut shard = deployment.shard(0).await;
    let begun = tokio::time::Instant::now();
    let mut seen = BTreeSet::new();
    while begun.elapsed() < time {
        let owner = "SELECT lease_owner FROM noetl.tail_cursor";
        let owner: Option<String> = sqlx::query_scalar(owner).fetch_one(&mut shard).await.unwrap();
        seen.extend(owner);
        sleep_in_scenario(Duration::from_millis(50)).await;
    }
    seen
}

async fn lag(servers: &[Server; 2]) -> f64 {
    let name = "noetl_tailer_lag_events{shard=\"0\"}";
    servers[0].metric(name).await.max(servers[1].metric(name).await)
}

/// Checks that one of two replicas stays the leader, and shows the events that wait, while the broker is broken.
async fn leaders_without_broker(breaking: impl AsyncFn(&mut Deployment), mending: impl AsyncFn(&mut Deployment)) {
    let mut deployment = Deployment::start(1).await;
    let servers = [deployment.replica().await, deployment.replica().await];
    deployment.feeds_begun().await;
    servers[0].register_entry("process", &json!({ "kind": "playbook" })).await;
    deployment.until_batch_finished().await;
    breaking(&mut deployment).await;
    for _ in 0..20 {
        let payload = servers[0].execute(json!({ "path": "process" })).await;
        assert_eq!(payload["outcome"], "STARTED", "{payload}");
    }
    eventually("the lag shows", async || (lag(&servers).await >= 20.0).then_some(())).await;
    let seen = holders(&deployment, Duration::from_secs(10)).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(lag(&servers).await >= 20.0);
    mending(&mut deployment).await;
    eventually("everything is published", async || (lag(&servers).await == 0.0).then_some(())).await;
}

#[tokio::test]
async fn one_replica_stays_the_leader_and_shows_the_lag_while_the_broker_is_gone() {
    let gone = async |deployment: &mut Deployment| deployment.nats.kill_9().await;
    leaders_without_broker(gone, async |deployment| deployment.nats.restart().await.unwrap()).await;
}

#[tokio::test]
async fn one_replica_stays_the_leader_and_shows_the_lag_while_the_broker_hangs() {
    let hangs = async |deployment: &mut Deployment| deployment.nats.pause().await;
    leaders_without_broker(hangs, async |deployment| deployment.nats.resume()).await;
}

/// Starts a broker with two users, of whom the second may not publish to `denied`. Returns its process and their addresses.
fn broker_with_limited_user(folder: &Path, denied: &str) -> (Child, String, String) {
    let users = format!(
        "authorization {{ users: [
            {{ user: free, password: x }}
            {{ user: limited, password: x, permissions: {{ publish: {{ deny: {denied:?} }} }} }} ] }}"
    );
    let (process, port) = broker(folder, &users);
    let [free, limited] = ["free", "limited"].map(|user| format!("nats://{user}:x@127.0.0.1:{port}"));
    (process, free, limited)
}

/// The leader may be hindered by its own rights at the broker, which another replica does not share.
#[tokio::test]
async fn a_leader_that_can_t_publish_gives_way_to_another_replica() {
    let deployment = Deployment::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let (_broker, free, limited) = broker_with_limited_user(folder.path(), "noetl.events.>");
    let mute = deployment.replica_with(&[("NOETL_NATS_URL", &limited)]).await;
    eventually("the replica leads", async || deployment.leader(0).await).await;
    mute.register_entry("process", &json!({ "kind": "playbook" })).await;
    let other = deployment.replica_with(&[("NOETL_NATS_URL", &free)]).await;
    mute.execute(json!({ "path": "process" })).await;
    eventually("the event is published", async || {
        (other.metric("noetl_tailer_published_total{shard=\"0\"}").await >= 1.0).then_some(())
    })
    .await;
}

/// The broker takes the replica's requests for messages and delivers none.
#[tokio::test]
async fn a_live_feed_that_gets_no_messages_of_its_stream_is_interrupted_again_and_again() {
    let mut deployment = Deployment::start(1).await;
    let folder = tempfile::tempdir().unwrap();
    let requests = "$JS.API.CONSUMER.MSG.NEXT.noetl_events.>";
    let (_broker, free, limited) = broker_with_limited_user(folder.path(), requests);
    deployment.env.push(("NOETL_NATS_URL".to_owned(), free));
    let publishes = deployment.replica().await;
    eventually("the feed has begun", async || deployment.leader(0).await).await;
    publishes.register_entry("process", &json!({ "kind": "playbook" })).await;
    publishes.execute(json!({ "path": "process" })).await;
    let published = "noetl_tailer_published_total{shard=\"0\"}";
    eventually("the stream exists", async || (publishes.metric(published).await >= 1.0).then_some(())).await;
    let deaf = deployment.replica_with(&[("NOETL_NATS_URL", &limited)]).await;
    let mut live = deaf.live("subscription { events { __typename } }", json!({})).await;
    assert_eq!(live.next().await.unwrap()["events"]["__typename"], "CaughtUp");
    publishes.execute(json!({ "path": "process" })).await;
    eventually("the live feed is interrupted", async || {
        (deaf.metric("noetl_stream_interruptions_total{shard=\"0\"}").await >= 3.0).then_some(())
    })
    .await;
}
