//! Buckets move between shards while replicas serve. No write is lost or doubled, no event is published again, and a killed
//! command is continued, completed by the replicas, or aborted.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use nix::sys::signal::Signal;
use noetl_testkit::feed::{Key, assert_exactly, run, try_insert};
use noetl_testkit::mover::{
    bucket, buckets, events, kill_at, moved, mover, owners, started, until_line, with_executions, with_executions_from,
};
use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::pages::texts;
use noetl_testkit::random::seeded;
use noetl_testkit::recorder::Recorder;
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, QUIET, Server, eventually};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};

/// Runs `shards move` for these buckets, which must fail. Returns its standard error.
async fn refused(deployment: &Deployment, buckets: &BTreeSet<u16>, to: u16, options: &[&str]) -> String {
    let output: Output = mover(deployment, buckets, to, options).output().await.unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the number of rows of these executions on a shard: events, rows in the list, and open outbox rows.
async fn residue(deployment: &Deployment, shard: usize, executions: &[i64]) -> i64 {
    let query = "SELECT (SELECT count(*) FROM noetl.event WHERE execution_id = ANY($1))
                      + (SELECT count(*) FROM noetl.execution WHERE execution_id = ANY($1))
                      + (SELECT count(*) FROM noetl.outbox WHERE execution_id = ANY($1) AND status <> 'PUBLISHED')";
    sqlx::query_scalar(query).bind(executions).fetch_one(&mut deployment.shard(shard).await).await.unwrap()
}

/// Sends an event until it is stored, as a client does. Returns the time until then.
async fn send(server: &Server, key: Key) -> Duration {
    let begun = Instant::now();
    loop {
        let payload = server.project(&[event(key.0, key.1)]).await;
        if payload["rejected"][0]["code"] != "SHARD_UNAVAILABLE" {
            assert_eq!((&payload["projected"], &payload["rejected"]), (&json!(1), &json!([])), "{key:?}: {payload}");
            return begun.elapsed();
        }
    }
}

#[tokio::test]
async fn buckets_move_under_load_and_every_write_is_there_once() {
    let deployment = Deployment::start(2).await;
    let (one, other) = tokio::join!(deployment.replica_with(&[NO_RELAY]), deployment.replica_with(&[NO_RELAY]));
    deployment.feeds_begun().await;
    let executions = with_executions(&deployment, &one, 40).await;
    let moving = buckets(&executions);

    // Workers write to all executions through both replicas while the buckets move.
    let (stopped, next, longest) = (AtomicBool::new(false), AtomicI64::new(100), AtomicI64::new(0));
    let workers = (0..8).map(async |worker: usize| {
        let (server, mut written) = ([&one, &other][worker % 2], Vec::new());
        while !stopped.load(Ordering::Relaxed) {
            let event = next.fetch_add(1, Ordering::Relaxed);
            let key = (executions[usize::try_from(event).unwrap() % executions.len()], event);
            let took = send(server, key).await;
            longest.fetch_max(i64::try_from(took.as_millis()).unwrap(), Ordering::Relaxed);
            written.push(key);
        }
        written
    });
    let moves = async {
        moved(&deployment, &moving, 1, &[]).await;
        stopped.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(join_all(workers), moves);

    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([1]));
    let mut expected: BTreeSet<Key> = written.into_iter().flatten().collect();
    assert!(expected.len() > 100, "only {} events were written", expected.len());
    expected.extend(executions.iter().map(|id| (*id, 1)));
    let on_target: BTreeSet<Key> = events(&deployment, 1, &executions).await.into_keys().collect();
    assert_eq!(on_target, expected);
    // No event is published again.
    deployment_published(&deployment, &expected).await;
    // The open outbox rows are on the target alone, in their order.
    assert!(deployment.outbox(0).await.is_empty());
    let order: Vec<(i64, i64)> = sqlx::query_as("SELECT execution_id, event_id FROM noetl.outbox ORDER BY outbox_id")
        .fetch_all(&mut deployment.shard(1).await)
        .await
        .unwrap();
    for id in &executions {
        let of: Vec<i64> = order.iter().filter(|(execution, _)| execution == id).map(|(_, event)| *event).collect();
        assert_eq!(of, [1, 2], "{id}");
    }
    let longest = longest.load(Ordering::Relaxed);
    assert!(longest < 5000, "a writer waited for {longest} ms");
}

/// Waits until all events are in the streams, and checks that each is there once.
async fn deployment_published(deployment: &Deployment, expected: &BTreeSet<Key>) {
    eventually("everything is published", async || {
        let stored = deployment.stored_everywhere().await;
        (stored.len() >= expected.len()).then_some(())
    })
    .await;
    assert_exactly(&deployment.stored_everywhere().await, expected);
}

#[tokio::test]
async fn writers_from_before_the_fence_are_awaited_and_a_stopped_replica_can_t_write_to_the_source() {
    let deployment = Deployment::start(2).await;
    let (one, frozen) = tokio::join!(deployment.replica_with(&[NO_RELAY]), deployment.replica_with(&[NO_RELAY]));
    deployment.feeds_begun().await;
    let executions = with_executions(&deployment, &one, 4).await;
    // The triggers exist since the first move.
    moved(&deployment, &buckets(&executions[3..]), 1, &[]).await;
    let moving = buckets(&executions[..3]);

    // A transaction has written to a bucket. The fence waits for it, and is lifted each time.
    let mut writer = deployment.shard(0).await;
    let mut open = writer.begin().await.unwrap();
    try_insert(&mut *open, (executions[0], 7), "call.done").await.unwrap();
    let (mut command, mut lines) = started(&deployment, &moving, 1);
    until_line(&mut lines, "did not end in time").await;
    // Between the attempts, the buckets can be written.
    send(&one, (executions[1], 8)).await;
    // The replica is stopped before the switch.
    frozen.signal(Signal::SIGSTOP);
    open.commit().await.unwrap();
    until_line(&mut lines, "buckets have moved").await;
    assert!(command.wait().await.unwrap().success());
    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([1]));
    let on_target = events(&deployment, 1, &executions).await;
    assert!(on_target.contains_key(&(executions[0], 7)), "the row of the open transaction is lost: {on_target:?}");

    // The source refuses rows of the buckets, and the replica that continues writes to the target.
    let refused = try_insert(&mut writer, (executions[0], 9), "call.done").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "NB001");
    frozen.signal(Signal::SIGCONT);
    send(&frozen, (executions[2], 10)).await;
    let (source, target) = tokio::join!(events(&deployment, 0, &executions), events(&deployment, 1, &executions));
    assert!(!source.contains_key(&(executions[2], 10)) && target.contains_key(&(executions[2], 10)));
}

#[tokio::test]
async fn nothing_is_switched_while_events_are_not_published() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let executions = with_executions(&deployment, &server, 2).await;
    let moving = buckets(&executions);
    deployment.until_all_published().await;
    deployment.nats.pause().await;
    send(&server, (executions[0], 2)).await;
    let (mut command, mut lines) = started(&deployment, &moving, 1);
    until_line(&mut lines, "events are not published").await;
    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([0]));
    send(&server, (executions[0], 3)).await;
    deployment.nats.resume();
    until_line(&mut lines, "buckets have moved").await;
    assert!(command.wait().await.unwrap().success());
    assert_eq!(events(&deployment, 1, &executions).await.len(), 4);
    let expected = deployment.committed().await;
    deployment_published(&deployment, &expected).await;
}

#[tokio::test]
async fn a_move_ends_after_its_broker_was_killed_and_readers_get_each_event_once() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let all = with_executions(&deployment, &server, 12).await;
    let (earlier, held, written) = (all[0], all[1], &all[2..]);
    // Several pages of the streams.
    let many = "INSERT INTO noetl.event (execution_id, event_id, event_type)
                SELECT id, n, 'call.done' FROM unnest($1::bigint[]) AS id, generate_series(2, 100) AS n";
    sqlx::query(many).bind(&all).execute(&mut deployment.shard(0).await).await.unwrap();
    deployment.until_all_published().await;
    // The triggers exist since the first move.
    moved(&deployment, &buckets(&[earlier]), 1, &[]).await;
    let addresses = Arc::new(Mutex::new(vec![server.url.clone()]));
    let mut recorder = Recorder::open(&addresses, seeded(0, 0)).await;

    let (stopped, writes) = (AtomicBool::new(false), AtomicI64::new(0));
    let writing = async {
        let mut keys: Vec<Key> = Vec::new();
        for event in 1000_i64.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let key = (written[usize::try_from(event).unwrap() % written.len()], event);
            send(&server, key).await;
            keys.push(key);
            writes.fetch_add(1, Ordering::Relaxed);
        }
        keys
    };
    let moving = buckets(&all[1..]);
    let moves = async {
        // Nothing is switched while this transaction is open.
        let mut writer = deployment.shard(0).await;
        let mut open = writer.begin().await.unwrap();
        try_insert(&mut *open, (held, 300), "call.done").await.unwrap();
        let (mut command, mut lines) = started(&deployment, &moving, 1);
        until_line(&mut lines, "the replicas know of the move").await;
        deployment.nats.kill_9().await;
        let before = writes.load(Ordering::Relaxed);
        let continues = async || (writes.load(Ordering::Relaxed) > before).then_some(());
        eventually("the writer continues without the broker", continues).await;
        open.commit().await.unwrap();
        until_line(&mut lines, "the source's events are not published").await;
        deployment.nats.restart().await.unwrap();
        until_line(&mut lines, &format!("{0} of {0} buckets have moved", moving.len())).await;
        assert!(command.wait().await.unwrap().success());
        stopped.store(true, Ordering::Relaxed);
    };
    let work = async { tokio::join!(writing, moves) };
    let (keys, ()) = tokio::select! {
        () = recorder.record() => unreachable!("a recorder does not end"),
        done = work => done,
    };

    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([1]));
    let mut expected: BTreeSet<Key> = keys.into_iter().chain([(held, 300)]).collect();
    expected.extend(all.iter().flat_map(|id| (1..=100).map(|event| (*id, event))));
    let on_target: Vec<Key> = events(&deployment, 1, &all).await.into_keys().collect();
    assert_exactly(&on_target, &expected);
    // A reader that has the last event of each stream would also have seen a repetition of an earlier one.
    for shard in 0..2 {
        let last = (deployment.ids_on(shard, 1, 1)[0], 1);
        try_insert(&mut deployment.shard(shard).await, last, "call.done").await.unwrap();
        expected.insert(last);
    }
    deployment_published(&deployment, &expected).await;
    recorder.record_until(&expected).await;
    recorder.check(&expected, &all.into_iter().collect());
}

#[tokio::test]
async fn a_bucket_moves_away_and_back() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    let id = loop {
        let id = server.start_execution().await;
        if deployment.ids_on(0, id, 1) == [id] {
            break id;
        }
    };
    let moving = BTreeSet::from([bucket(id)]);
    let step = |event: i64, name: &str| {
        event_with(id, event, &json!({ "type": "step.enter", "nodeName": name, "status": "RUNNING" }))
    };
    // An advance stores a snapshot on shard 0, whose transaction ids are those of shard 0.
    assert_eq!(server.project(&[step(id + 1_000_001, "first")]).await["projected"], 1);
    server.advance_projections(&[id]).await;
    let claimed = server.claim(json!({ "limit": 10, "leaseSeconds": 600 })).await;
    assert!(!references(&claimed).is_empty());

    moved(&deployment, &moving, 1, &[]).await;
    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([1]));
    assert_eq!(server.project(&[step(id + 1_000_002, "second")]).await["projected"], 1);
    // The fence holds for rows that logical replication applies, also if a restore has changed that.
    let insert = "SET session_replication_role = replica;
                  INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ($id, 1000003, 'call.done')";
    let insert = insert.replace("$id", &id.to_string());
    let replicated = async || sqlx::raw_sql(AssertSqlSafe(&*insert)).execute(&mut deployment.shard(0).await).await;
    assert!(replicated().await.unwrap_err().to_string().contains("has moved to another shard"));
    deployment.on_shard(0, "ALTER TABLE noetl.event ENABLE TRIGGER ALL").await;
    let other = deployment.replica_with(&[NO_RELAY]).await;
    let enabled = async || {
        let disabled = "SELECT count(*) FROM pg_trigger WHERE tgname = 'bucket_fence' AND tgenabled <> 'A'";
        let disabled: i64 = sqlx::query_scalar(disabled).fetch_one(&mut deployment.shard(0).await).await.unwrap();
        (disabled == 0).then_some(())
    };
    eventually("the triggers act for every writer", enabled).await;
    assert!(replicated().await.unwrap_err().to_string().contains("has moved to another shard"));
    assert!(other.stop().await.success());
    // The events and the row of the list stay, and the open outbox row has left.
    let stayed = i64::try_from(events(&deployment, 0, &[id]).await.len()).unwrap() + 1;
    assert_eq!(residue(&deployment, 0, &[id]).await, stayed);
    server.advance_projections(&[id]).await;

    // A state of shard 0 that was read until now is not used for a fold if it is stored later.
    let anchor = "SELECT tx_id::text, xmin::text::bigint = (tx_id::text::bigint & 4294967295) FROM noetl.tail_anchor";
    let anchor =
        async || -> (String, bool) { sqlx::query_as(anchor).fetch_one(&mut deployment.shard(0).await).await.unwrap() };
    let (before, _) = anchor().await;
    moved(&deployment, &moving, 0, &[]).await;
    let (after, is_bound) = anchor().await;
    assert!(before != after && is_bound, "{before} {after} {is_bound}");
    assert_eq!(owners(&deployment, &moving).await, BTreeSet::from([0]));
    assert_eq!(server.project(&[step(id + 1_000_003, "third")]).await["projected"], 1);
    let state = server.execution_state(id).await;
    let steps = texts(&state["steps"]["nodes"], "name");
    assert_eq!(steps, ["first", "second", "third"], "{state}");
    // The lease is still that of the claim.
    let rows: Vec<(String, Option<i64>)> =
        sqlx::query_as("SELECT status, lease_token FROM noetl.outbox WHERE execution_id = $1")
            .bind(id)
            .fetch_all(&mut deployment.shard(0).await)
            .await
            .unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((rows[0].0.as_str(), rows[0].1.is_some()), ("IN_FLIGHT", true));
    let expected: BTreeSet<Key> = deployment.committed().await;
    deployment_published(&deployment, &expected).await;
    // Shard 0 has no fence any more; shard 1 has.
    let fence = "SELECT count(*) FROM noetl.bucket_fence WHERE bucket >= 0";
    let mut counts = Vec::new();
    for shard in 0..2 {
        let count: i64 = sqlx::query_scalar(fence).fetch_one(&mut deployment.shard(shard).await).await.unwrap();
        counts.push(count);
    }
    assert_eq!(counts, [0, 1]);
    // Shard 0 hides no rows of the bucket any more.
    let states = "SELECT state FROM noetl.bucket_move ORDER BY move_id";
    let states: Vec<String> = sqlx::query_scalar(states).fetch_all(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(states, ["cleaned", "settled"]);
}

/// Points at which the command is killed before the switch, in their order.
const BEFORE_SWITCH: [&str; 10] = [
    "shards_move.begun",
    "shards_move.announced",
    "shards_move.prepared",
    "shards_move.copied",
    "shards_move.caught_up",
    "shards_move.fencing",
    "shards_move.fenced",
    "shards_move.last_rows",
    "shards_move.compared",
    "shards_move.sealed",
];
/// Points at which the command is killed after the switch.
const AFTER_SWITCH: [&str; 3] = ["shards_move.switched", "shards_move.opened", "shards_move.closed"];

/// Number of deployments among which the points are distributed. The first move of a deployment creates the triggers of
/// the fences, so each of the points up to `shards_move.prepared` comes before other moves of a deployment.
const DEPLOYMENTS: usize = 3;
/// Distance of the first ids of the executions of two points. No two points have executions of the same bucket.
const IDS: i64 = 1000;

/// Kills a move at each point. The next command continues it, or aborts it if it is not switched.
#[tokio::test]
async fn a_killed_move_is_continued_or_aborted_by_the_next_command() {
    let points = [&BEFORE_SWITCH[..], &AFTER_SWITCH].concat();
    let in_turn = (0..DEPLOYMENTS).map(async |first| {
        let deployment = Deployment::start(2).await;
        let server = deployment.replica_with(&QUIET).await;
        let mut ids = (1..).map(|number| number * IDS);
        let aborted: Vec<&str> = BEFORE_SWITCH.into_iter().skip(first).step_by(DEPLOYMENTS).collect();
        // A command that is killed before `shards_move.prepared` has created no triggers.
        let (early, late) = aborted.split_at(usize::from(aborted[0] != "shards_move.prepared"));
        for point in early {
            is_aborted(&deployment, &server, point, ids.next().unwrap()).await;
        }
        for point in points.iter().skip(first).step_by(DEPLOYMENTS) {
            is_continued(&deployment, &server, point, ids.next().unwrap()).await;
        }
        for point in late {
            is_aborted(&deployment, &server, point, ids.next().unwrap()).await;
        }
    });
    join_all(in_turn).await;
}

/// Kills a move of three executions at a point. Returns the executions, whose ids are in a range of [`IDS`].
async fn killed_at(deployment: &Deployment, server: &Server, point: &str, from: i64) -> Vec<i64> {
    let executions = with_executions_from(deployment, server, from, 3).await;
    kill_at(deployment, &executions, point).await;
    executions
}

/// Returns the number of outbox rows on both shards that meet a condition, of the executions of a point.
async fn outbox_rows_from(deployment: &Deployment, condition: &str, from: i64) -> i64 {
    deployment.outbox_rows(&format!("{condition} AND execution_id BETWEEN {from} AND {from} + {IDS} - 1")).await
}

/// Each row is there once, on the target, after a command that continues a killed one.
async fn is_continued(deployment: &Deployment, server: &Server, point: &str, from: i64) {
    let executions = killed_at(deployment, server, point, from).await;
    let moving = buckets(&executions);
    moved(deployment, &moving, 1, &[]).await;
    assert_eq!(owners(deployment, &moving).await, BTreeSet::from([1]), "{point}");
    assert_eq!(deployment.open_moves().await, 0, "{point}");
    send(server, (executions[0], 2)).await;
    let on_target = events(deployment, 1, &executions).await;
    assert_eq!(on_target.len(), 4, "{point}: {on_target:?}");
    assert_eq!(outbox_rows_from(deployment, "status <> 'PUBLISHED'", from).await, 6, "{point}");
    let on_source = deployment.outbox(0).await;
    let is_left = on_source.iter().any(|row| row.execution_id.is_some_and(|id| executions.contains(&id)));
    assert!(!is_left, "{point}: {on_source:?}");
}

/// The source has all rows and the target none after an abortion.
async fn is_aborted(deployment: &Deployment, server: &Server, point: &str, from: i64) {
    let executions = killed_at(deployment, server, point, from).await;
    let moving = buckets(&executions);
    let moves = deployment.in_cluster("SELECT count(*) FROM noetl.bucket_move").await;
    moved(deployment, &moving, 1, &["--abort"]).await;
    assert_eq!(owners(deployment, &moving).await, BTreeSet::from([0]), "{point}");
    assert_eq!(residue(deployment, 1, &executions).await, 0, "{point}");
    let left = deployment.in_cluster("SELECT count(*) FROM noetl.bucket_move").await;
    assert_eq!(usize::try_from(moves - left).unwrap(), moving.len(), "{point}");
    assert_eq!(deployment.open_moves().await, 0, "{point}");
    send(server, (executions[0], 2)).await;
    assert_eq!(events(deployment, 0, &executions).await.len(), 4, "{point}");
    assert_eq!(outbox_rows_from(deployment, "status = 'PENDING'", from).await, 6, "{point}");
}

/// Moves of other executions, by commands and by the replica, on the same two shards.
#[tokio::test]
async fn moves_are_refused_repeated_and_settled_without_a_lost_or_foreign_row() {
    let mut deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    the_bucket_in_sql_is_that_of_the_server(&deployment).await;
    // First, because it checks that there is no move.
    Box::pin(a_dry_run_changes_nothing_and_moves_that_can_t_be_made_are_refused(&deployment, &server)).await;
    a_transaction_with_an_old_snapshot_can_t_write_past_a_fence(&deployment, &server).await;
    copied_rows_that_differ_from_the_source_are_copied_again(&deployment, &server).await;
    // Before the next part, because it waits until no move is open.
    rows_of_a_bucket_that_left_are_deleted_after_a_day(&deployment, &server).await;
    a_killed_move_is_settled_by_the_replicas(&deployment, &server).await;
    // Last, because it adds a shard.
    let moving = buckets(&with_executions_from(&deployment, &server, 8 * IDS, 1).await);
    a_move_to_a_shard_that_a_replica_does_not_know_is_refused(&mut deployment, &moving).await;
}

/// The function in SQL and the one in Rust have the same result for all kinds of ids.
async fn the_bucket_in_sql_is_that_of_the_server(deployment: &Deployment) {
    let mut ids: Vec<i64> = vec![0, 1, -1, i64::MAX, i64::MIN, 1 << 32, (1 << 32) - 1];
    ids.extend((0..2_000_i64).map(|n| n.wrapping_mul(0x1234_5678_9abc_def1)));
    let rows = sqlx::query_as::<_, (i64, i32)>("SELECT id, noetl.bucket_of(id) FROM unnest($1::bigint[]) AS id");
    for (id, found) in rows.bind(&ids).fetch_all(&mut deployment.shard(0).await).await.unwrap() {
        assert_eq!(found, i32::from(bucket(id)), "{id}");
    }
}

/// A transaction that does not see the fence is refused by the database.
async fn a_transaction_with_an_old_snapshot_can_t_write_past_a_fence(deployment: &Deployment, server: &Server) {
    let executions = with_executions_from(deployment, server, 2 * IDS, 2).await;
    // The triggers exist since the first move.
    moved(deployment, &BTreeSet::from([bucket(executions[1])]), 1, &[]).await;
    let mut writer = deployment.shard(0).await;
    run(&mut writer, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM noetl.bucket_fence").await;
    moved(deployment, &BTreeSet::from([bucket(executions[0])]), 1, &[]).await;
    let refused = try_insert(&mut writer, (executions[0], 9), "call.done").await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "40001", "{refused}");
}

/// Events that were changed, added or deleted on the target are those of the source after the move.
async fn copied_rows_that_differ_from_the_source_are_copied_again(deployment: &Deployment, server: &Server) {
    let executions = killed_at(deployment, server, "shards_move.caught_up", 3 * IDS).await;
    let other = executions[1];
    let change = format!(
        "SET noetl.moves_buckets = 'on'; UPDATE noetl.event SET event_type = 'changed' WHERE execution_id = {};
         INSERT INTO noetl.event (execution_id, event_id, event_type, tx_id) VALUES ({other}, 99, 'added', '4');
         DELETE FROM noetl.event WHERE execution_id = {}",
        executions[0], executions[2],
    );
    run(&mut deployment.shard(1).await, &change).await;
    moved(deployment, &buckets(&executions), 1, &[]).await;
    let rows = "SELECT execution_id, event_id, event_type::text FROM noetl.event WHERE execution_id = ANY($1)
                ORDER BY execution_id, event_id";
    let on = async |shard: usize| -> Vec<(i64, i64, String)> {
        let mut session = deployment.shard_session(shard).await;
        sqlx::query_as(rows).bind(&executions).fetch_all(&mut *session).await.unwrap()
    };
    let (source, target) = (on(0).await, on(1).await);
    assert_eq!(source.len(), 3);
    assert_eq!(target, source);
}

/// Replicas lift the fence of a killed command, or complete its switch, so that the buckets can be written again.
async fn a_killed_move_is_settled_by_the_replicas(deployment: &Deployment, server: &Server) {
    let cases = [("shards_move.fenced", 0), ("shards_move.sealed", 0), ("shards_move.switched", 1)];
    let mut killed = Vec::new();
    for (number, (point, shard)) in (4..).zip(cases) {
        killed.push((point, shard, killed_at(deployment, server, point, number * IDS).await));
    }
    for (point, shard, executions) in killed {
        // Until then, the client gets an error that it can retry.
        eventually("the bucket can be written", async || {
            let payload = server.project(&[event(executions[0], 2)]).await;
            let refused = payload["rejected"].as_array().unwrap();
            assert!(refused.iter().all(|one| one["code"] == "SHARD_UNAVAILABLE"), "{point}: {payload}");
            refused.is_empty().then_some(())
        })
        .await;
        assert!(events(deployment, shard, &executions).await.contains_key(&(executions[0], 2)), "{point}");
    }
}

/// A dry run prints the plan. Options that exclude each other and unknown shards are refused.
async fn a_dry_run_changes_nothing_and_moves_that_can_t_be_made_are_refused(deployment: &Deployment, server: &Server) {
    let executions = with_executions_from(deployment, server, IDS, 3).await;
    let moving = buckets(&executions);
    let planned = moved(deployment, &moving, 1, &["--dry-run"]).await;
    assert!(planned.starts_with(&format!("{} buckets from shard 0 to shard 1: about ", moving.len())), "{planned}");
    assert_eq!(owners(deployment, &moving).await, BTreeSet::from([0]));
    assert_eq!(deployment.in_cluster("SELECT count(*) FROM noetl.bucket_move").await, 0);
    assert_eq!(residue(deployment, 1, &executions).await, 0);

    let message = refused(deployment, &moving, 2, &[]).await;
    assert!(message.contains("there is no shard 2"), "{message}");
    let message = refused(deployment, &moving, 1, &["--dry-run", "--abort"]).await;
    assert!(message.contains("cannot be used with"), "{message}");
    assert_eq!(deployment.in_cluster("SELECT count(*) FROM noetl.bucket_move").await, 0);
}

/// The replica that runs does not know the shard that is added.
async fn a_move_to_a_shard_that_a_replica_does_not_know_is_refused(
    deployment: &mut Deployment,
    moving: &BTreeSet<u16>,
) {
    deployment.add_database().await;
    let added = deployment.command("shards").arg("add").output().await.unwrap();
    assert!(added.status.success());
    let message = refused(deployment, moving, 2, &[]).await;
    assert!(message.contains("does not know shard 2"), "{message}");
    assert_eq!(deployment.in_cluster("SELECT count(*) FROM noetl.bucket_move WHERE target = 2").await, 0);
}

/// The source keeps the rows of a bucket for a day, and the other buckets keep theirs.
async fn rows_of_a_bucket_that_left_are_deleted_after_a_day(deployment: &Deployment, server: &Server) {
    let executions = with_executions_from(deployment, server, 7 * IDS, 3).await;
    moved(deployment, &buckets(&executions[..2]), 1, &[]).await;
    assert!(residue(deployment, 0, &executions[..2]).await > 0);
    run(&mut deployment.cluster().await, "UPDATE noetl.bucket_move SET changed_at = now() - interval '25 hours'").await;
    eventually("the rows are deleted", async || {
        let query = "SELECT count(*) FROM noetl.bucket_move WHERE state <> 'cleaned'";
        (deployment.in_cluster(query).await == 0).then_some(())
    })
    .await;
    assert_eq!(residue(deployment, 0, &executions[..2]).await, 0);
    assert!(residue(deployment, 0, &executions[2..]).await >= 3);
    assert!(residue(deployment, 1, &executions[..2]).await > 0);
}
