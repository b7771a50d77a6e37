//! A bucket that moves to another shard is shown once in each state of its move, its outbox rows keep their ids, and
//! readers of live events get its events once and in order.
//!
//! The states are made by SQL, so the tests do not depend on the mover.

use std::collections::BTreeSet;

use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;
use noetl_testkit::feed::{Key, Reader, assert_exactly, assert_in_order, insert, run};
use noetl_testkit::moves::BucketMove;
use noetl_testkit::outbox::{ids, reference, references};
use noetl_testkit::pages::{read_pages, texts};
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::{Deployment, Live, QUIET, Server, eventually};
use serde_json::{Value, json};

/// Number of executions in the lists.
const EXECUTIONS: usize = 24;
const MAINTAIN: [(&str, &str); 1] = [("NOETL_EVENT_RETENTION_DAYS", "30")];

/// Steps of a move after its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Copied,
    Switched,
    Settled,
    Cleaned,
}

const STATES: [State; 5] = [State::Begun, State::Copied, State::Switched, State::Settled, State::Cleaned];

/// Brings moves from one state to the next.
async fn advance(deployment: &Deployment, moves: &[BucketMove], state: State) {
    for moving in moves {
        match state {
            State::Begun => {}
            State::Copied => deployment.copy_bucket(*moving).await,
            State::Switched => deployment.switch_bucket(*moving).await,
            State::Settled => deployment.settle_bucket(*moving).await,
            State::Cleaned => deployment.clean_bucket(*moving).await,
        }
    }
}

/// Begins the moves of the buckets of these executions.
async fn begin(deployment: &Deployment, executions: &[i64], from: usize, to: usize) -> Vec<BucketMove> {
    let (mut moves, mut buckets) = (Vec::new(), BTreeSet::new());
    for execution in executions {
        if buckets.insert(bucket_of(Id::new(*execution))) {
            moves.push(deployment.begin_move(*execution, from, to).await);
        }
    }
    moves
}

/// Moves the buckets of these executions completely, except that the rows of the source are kept.
async fn move_all(deployment: &Deployment, executions: &[i64], from: usize, to: usize) -> Vec<BucketMove> {
    let moves = begin(deployment, executions, from, to).await;
    for state in &STATES[1..4] {
        advance(deployment, &moves, *state).await;
    }
    moves
}

/// Returns all nodes of a list in pages of `size`, in both directions. Both must agree.
async fn listed(server: &Server, field: &str, arguments: &str, node: &str, size: usize) -> Vec<Value> {
    let read = async |range: Value| {
        let range: Vec<String> =
            range.as_object().unwrap().iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let arguments = [arguments, &range.join(" ")].join(" ");
        let query = format!(
            "{{ list: {field}({arguments}) {{ nodes {{ {node} }} pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }} }}"
        );
        let query = match field.split_once('.') {
            None => query,
            Some((parent, list)) => format!("{{ parent: {parent} {} }}", query.replace(field, list)),
        };
        let data = server.data(&query, Value::Null).await;
        if data["parent"].is_object() { data["parent"]["list"].clone() } else { data["list"].clone() }
    };
    let nodes = |page: &Value| page["nodes"].as_array().unwrap().clone();
    let forwards = read_pages(size, false, &read).await;
    for page in forwards.iter().rev().skip(1) {
        assert_eq!(nodes(page).len(), size, "a page that is not the last one is full");
    }
    let forwards: Vec<Value> = forwards.iter().flat_map(nodes).collect();
    let backwards: Vec<Value> = read_pages(size, true, &read).await.iter().flat_map(nodes).collect();
    assert_eq!(forwards, backwards, "{field}");
    forwards
}

/// Returns everything that lists, counts and statistics show.
async fn shown(server: &Server, parent: &str, prefix: &str) -> Value {
    let mut shown = serde_json::Map::new();
    for (name, arguments) in [
        ("all", String::new()),
        ("of a status", "filter: { statuses: [PENDING] }".to_owned()),
        ("of a label", "filter: { labels: [{ name: \"team\", equals: \"a\" }] }".to_owned()),
        ("of a path", "filter: { pathPrefix: \"fl\" }".to_owned()),
        ("of a parent", format!("filter: {{ parentExecutionId: \"{parent}\" }}")),
        ("with a prefix", format!("filter: {{ idPrefix: \"{prefix}\" }}")),
    ] {
        let list = listed(server, "executions", &arguments, "id status path", 7).await;
        shown.insert(format!("executions {name}"), list.into());
        let call = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
        let total = format!("{{ executions{call} {{ totalCount {{ value capped }} }} }}");
        shown.insert(format!("total {name}"), server.data(&total, Value::Null).await);
    }
    let events = listed(server, "events", "", "eventId executionId type", 11).await;
    shown.insert("events".to_owned(), events.into());
    let events = listed(server, "events", "filter: { types: [\"playbook_started\"] }", "eventId", 11).await;
    shown.insert("started events".to_owned(), events.into());
    let entries = listed(server, "outbox.entries", "", "eventId executionId status", 7).await;
    shown.insert("outbox".to_owned(), entries.into());
    let subscriptions = listed(server, "subscriptions", "", "id path status", 2).await;
    shown.insert("subscriptions".to_owned(), subscriptions.into());
    for query in [
        "{ events { totalCount { value capped } } }",
        "{ executionStats { total capped byStatus { status count } byPath { path count } } }",
        "{ catalogEntry(by: { path: \"flow\" }) { executions(first: 100) { nodes { id } totalCount { value } } } }",
        "{ outbox { entries { totalCount { value } } subjects { subject pending inFlight failed dead }
            stats { pending inFlight failed } } }",
        "{ subscriptions { totalCount { value } nodes { path executions(first: 100) { nodes { id } totalCount { value } } } } }",
    ] {
        shown.insert(query.to_owned(), server.data(query, Value::Null).await);
    }
    shown.into()
}

/// Starts executions of `flow` under a subscription, and returns the subscription and the executions.
async fn with_executions(server: &Server, count: usize) -> (String, Vec<i64>) {
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    server.register_entry("other", &json!({ "kind": "subscription" })).await;
    let inbox = server.subscribe("inbox").await;
    server.register("other").await;
    let labels = json!([{ "name": "team", "value": "a" }]);
    let mut executions = Vec::new();
    for _ in 0..count {
        let started = server.execute(json!({ "path": "flow", "parentExecutionId": inbox, "labels": labels })).await;
        executions.push(started["executionId"].as_str().unwrap_or_else(|| panic!("{started}")).parse().unwrap());
    }
    (inbox, executions)
}

/// Returns those of the executions that are on a shard.
async fn on_shard(deployment: &Deployment, shard: usize, executions: &[i64]) -> Vec<i64> {
    let query = "SELECT execution_id FROM noetl.execution WHERE execution_id = ANY($1) ORDER BY execution_id";
    sqlx::query_scalar(query).bind(executions).fetch_all(&mut deployment.shard(shard).await).await.unwrap()
}

#[tokio::test]
async fn lists_counts_and_statistics_are_the_same_in_each_state_of_a_move() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let (inbox, executions) = with_executions(&server, EXECUTIONS).await;
    let prefix = executions[0].to_string()[..8].to_owned();
    let here = on_shard(&deployment, 0, &executions).await;
    let claimed = server.claim(json!({ "limit": 9, "leaseSeconds": 3600 })).await;
    server.published(&references(&claimed)[..4]).await;
    let before = shown(&server, &inbox, &prefix).await;
    let listed = before["executions all"].as_array().unwrap().len();
    assert_eq!(listed, EXECUTIONS);
    assert!(server.stop().await.success());

    // The subscriptions move too, and almost all executions of the shard, so that whole pages are hidden.
    let mut moving: Vec<i64> = here[..here.len() - 2].to_vec();
    let subscriptions = "SELECT id FROM noetl.source_subscription";
    moving.extend(sqlx::query_scalar::<_, i64>(subscriptions).fetch_all(&mut deployment.shard(0).await).await.unwrap());
    let moves = begin(&deployment, &moving, 0, 1).await;
    for state in STATES {
        advance(&deployment, &moves, state).await;
        let server = deployment.replica_with(&QUIET).await;
        let now = shown(&server, &inbox, &prefix).await;
        for (name, value) in before.as_object().unwrap() {
            assert_eq!(&now[name], value, "{name} after {state:?}");
        }
        assert!(server.stop().await.success());
        let (code, found) = deployment.check(&[]).await;
        assert_eq!((code, &found["differences"]), (0, &json!([])), "after {state:?}: {found:#}");
    }
}

/// Makes the executions of all shards 3 hours older.
async fn age(deployment: &Deployment) {
    for shard in 0..2 {
        deployment.on_shard(shard, "UPDATE noetl.execution SET start_time = start_time - interval '3 hours'").await;
    }
}

/// Returns how many executions started in the last day, by the history.
async fn started(deployment: &Deployment, server: &Server) -> u64 {
    let times = "SELECT to_char(now() AT TIME ZONE 'UTC' + days * interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
                 FROM unnest(ARRAY[-1, 1]) AS days ORDER BY days";
    let times: Vec<String> = sqlx::query_scalar(times).fetch_all(&mut deployment.cluster().await).await.unwrap();
    let query = "query($from: DateTime!, $to: DateTime!) {
        executionHistory(interval: HOUR, from: $from, to: $to) { buckets { started } } }";
    let history = server.data(query, json!({ "from": times[0], "to": times[1] })).await["executionHistory"].take();
    history["buckets"].as_array().unwrap().iter().map(|bucket| bucket["started"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn the_history_is_the_same_in_each_state_of_a_move() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let (_, executions) = with_executions(&server, EXECUTIONS).await;
    age(&deployment).await;
    let moving = on_shard(&deployment, 0, &executions).await;
    // One is of the hour of the row below.
    let old = format!(
        "UPDATE noetl.execution SET start_time = now() - interval '12 hours' WHERE execution_id = {}",
        moving[0]
    );
    deployment.on_shard(0, &old).await;
    let all = u64::try_from(executions.len()).unwrap();
    deployment.close_history(&MAINTAIN).await;
    assert_eq!(started(&deployment, &server).await, all, "before the move");
    // A row that is deleted when its hour is computed again.
    let mark = "INSERT INTO noetl.execution_history (span, at, tenant_id, organization_id, path, execution_pool, started,
                                                     completed, failed, cancelled, classes, counts)
                VALUES (3600, noetl.span_start(now() - interval '12 hours', 3600), 'default', 'default', 'marker', '', 0,
                        0, 0, 0, '{}', '{}')";
    for shard in 0..2 {
        deployment.on_shard(shard, mark).await;
    }
    let marks = "SELECT count(*) FROM noetl.execution_history WHERE path = 'marker'";
    let moves = begin(&deployment, &moving, 0, 1).await;
    for state in STATES {
        advance(&deployment, &moves, state).await;
        let noted = deployment.sum_over_shards("SELECT count(*) FROM noetl.execution_history_late").await;
        assert_eq!(noted, 0, "{state:?}: hours of rows that are not counted");
        deployment.until_map_is_known().await;
        assert_eq!(started(&deployment, &server).await, all, "{state:?}, before a run");
        deployment.close_history(&MAINTAIN).await;
        assert_eq!(started(&deployment, &server).await, all, "{state:?}, after a run");
        let kept = if matches!(state, State::Begun | State::Copied) { 2 } else { 0 };
        assert_eq!(deployment.sum_over_shards(marks).await, kept, "{state:?}: only a switch begins the rows again");
    }
}

#[tokio::test]
async fn a_run_that_began_before_a_move_counts_no_copied_rows() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let (_, executions) = with_executions(&server, EXECUTIONS).await;
    assert!(server.stop().await.success());
    age(&deployment).await;
    deployment.close_history(&MAINTAIN).await;
    let moving = on_shard(&deployment, 0, &executions).await;
    deployment.on_shard(1, "UPDATE noetl.execution_history_progress SET closed_to = NULL").await;
    // A run has its map before it waits for this row.
    let mut holder = deployment.shard(1).await;
    run(&mut holder, "BEGIN; SELECT FROM noetl.execution_history_progress FOR UPDATE").await;
    let copy = async {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'
                       AND query LIKE '%execution_history_progress%'";
        eventually("the run waits", async || (deployment.sum_over_shards(waits).await > 0).then_some(())).await;
        let moves = begin(&deployment, &moving[..2], 0, 1).await;
        advance(&deployment, &moves, State::Copied).await;
        run(&mut holder, "COMMIT").await;
    };
    tokio::join!(deployment.maintain(&MAINTAIN), copy);
    let closed = "SELECT count(*) FROM noetl.execution_history_progress WHERE closed_to > now() - interval '2 hours'";
    assert_eq!(deployment.sum_over_shards(closed).await, 2);
    let server = deployment.replica_with(&QUIET).await;
    assert_eq!(started(&deployment, &server).await, u64::try_from(executions.len()).unwrap());
}

#[tokio::test]
async fn outbox_rows_keep_their_ids_and_leases_when_their_bucket_moves_and_comes_back() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let execution = deployment.ids_on(0, 1, 1)[0];
    let others = deployment.ids_on(0, execution + 1, 2);
    // The rows of one are never claimed before the move.
    let (other, waiting) = (others[0], others[1]);
    // Events of the rows, so that the check finds none without its event.
    for (log, event) in (1..=6).map(|event| (execution, event)).chain([(other, 1), (waiting, 7), (waiting, 8)]) {
        insert(&mut deployment.shard(0).await, (log, event)).await;
    }
    deployment.fill_outbox(0, &[execution], 6).await;
    deployment.fill_outbox(0, &[other], 1).await;
    let rows = format!(
        "INSERT INTO noetl.outbox (execution_id, event_id, payload) VALUES ({waiting}, 7, '{{}}'), ({waiting}, 8, '{{}}')"
    );
    deployment.on_shard(0, &rows).await;
    let claims = server.claim(json!({ "limit": 5, "shard": 0, "leaseSeconds": 3600 })).await;
    assert_eq!(ids(&claims), ["0-1", "0-2", "0-3", "0-4", "0-5"]);
    let claims = claims["claims"].as_array().unwrap().clone();
    assert!(server.stop().await.success());

    let moves = begin(&deployment, &[execution, waiting], 0, 1).await;
    advance(&deployment, &moves, State::Copied).await;
    // Before the switch, the copies are not claimed and the rows are where they were.
    let server = deployment.replica_with(&QUIET).await;
    assert_eq!(ids(&server.claim(json!({ "shard": 1 })).await), Vec::<String>::new());
    assert_eq!(server.published(&[reference(&claims[0])]).await["published"], 1);
    assert!(server.stop().await.success());
    // The mover would copy the row again, or not at all.
    deployment.on_shard(1, "DELETE FROM noetl.outbox WHERE event_id = 1").await;
    deployment.on_shard(0, "DELETE FROM noetl.outbox_forward WHERE outbox_id = 1").await;

    for state in [State::Switched, State::Settled] {
        advance(&deployment, &moves, state).await;
        let server = deployment.replica_with(&QUIET).await;
        let claim = &claims[if state == State::Switched { 1 } else { 2 }];
        // The source's rows are not claimed any more, and the old id leads to the copy.
        let found = server
            .data(
                "query($id: ID!) { node(id: $id) { ... on OutboxEntry { entryId status executionId } } }",
                json!({ "id": format!("outbox-{}", claim["entryId"].as_str().unwrap()) }),
            )
            .await["node"]
            .take();
        assert_eq!(found["status"], "IN_FLIGHT", "{found} after {state:?}");
        let renewed = server.renewed(&[reference(claim)], 1800).await;
        assert_eq!(renewed["results"][0]["userErrors"], json!([]), "{renewed}");
        let stale = json!({ "entryId": claim["entryId"], "lease": "999" });
        assert_eq!(server.published(&[stale]).await["stale"], json!([claim["entryId"]]));
        let settled = server.published(&[reference(claim)]).await;
        assert_eq!((&settled["published"], &settled["stale"]), (&json!(1), &json!([])), "{settled}");
        // A repetition is not stale and changes nothing.
        assert_eq!(server.published(&[reference(claim)]).await["published"], 0);
        assert!(server.stop().await.success());
    }
    let server = deployment.replica_with(&QUIET).await;
    assert_eq!(ids(&server.claim(json!({ "shard": 0 })).await), ["0-7"], "only the row of the other execution is left");
    // Its low watermark was above the copied rows.
    let arrived = server.claim(json!({ "shard": 1, "leaseSeconds": 3600 })).await;
    let events = texts(&arrived["claims"], "eventId");
    assert_eq!(events, ["7", "8"], "{arrived}");

    let failed = server.failed(&claims[3], "broken", Some(600)).await;
    assert_eq!(failed["dead"], false, "{failed}");
    // The row does not become due before the retry.
    let later = "UPDATE noetl.outbox SET available_at = now() + interval '1 hour' WHERE status = 'FAILED'";
    deployment.on_shard(1, later).await;
    let retry = "mutation($id: ID!) { retryOutbox(input: { select: { ids: [$id] } }) { matched retried } }";
    let retried = server.data(retry, json!({ "id": claims[3]["entryId"] })).await["retryOutbox"].take();
    assert_eq!((&retried["matched"], &retried["retried"]), (&json!(1), &json!(1)), "{retried}");
    assert!(server.stop().await.success());

    // The bucket comes back: the old id is followed over both moves.
    let back = move_all(&deployment, &[execution], 1, 0).await;
    assert_eq!(back.len(), 1);
    let server = deployment.replica_with(&QUIET).await;
    let settled = server.published(&[reference(&claims[4])]).await;
    assert_eq!((&settled["published"], &settled["stale"]), (&json!(1), &json!([])), "{settled}");
    // The rest of the execution is claimed in its order: the retried row, then the one that was never claimed.
    let rest = server.claim(json!({ "limit": 10 })).await;
    let events = texts(&rest["claims"], "eventId");
    assert_eq!(events, ["4", "6"], "{rest}");
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, &found["differences"]), (0, &json!([])), "{found:#}");
}

/// Commits events of an execution on a shard, one transaction for each.
async fn commit(deployment: &Deployment, shard: usize, execution: i64, events: std::ops::RangeInclusive<i64>) {
    let mut database = deployment.shard(shard).await;
    for event in events {
        insert(&mut database, (execution, event)).await;
    }
}

/// Query of a page of a log in the order of arrival.
const ARRIVAL: &str = "query($id: ID, $after: String) {
    events(executionId: $id, order: ARRIVAL, first: 3, after: $after) { pageInfo { endCursor } } }";

/// A page of a moved log and the live events after it have every event once. The bucket of the log is on shard 1, and
/// the log has 7 events.
async fn a_page_of_a_moved_log_and_its_live_events_have_every_event_once(
    deployment: &Deployment,
    server: &Server,
    log: i64,
    arrived: &Value,
) {
    let list = "query($id: ID) { events(executionId: $id, first: 100) { streamCursor nodes { executionId eventId } } }";
    let read = server.data(list, json!({ "id": log.to_string() })).await["events"].take();
    assert_eq!(read["nodes"].as_array().unwrap().len(), 7, "{read}");
    let own = json!({ "executionIds": [log.to_string()] });
    let mut reader = Reader::open(server, json!({ "after": read["streamCursor"] }), own).await;
    commit(deployment, 1, log, 8..=8).await;
    assert!(reader.until_seen([(log, 8)]).await);
    assert_eq!(reader.seen, [(log, 8)]);

    // Positions in the order of arrival are of the database that wrote the events.
    let after = json!({ "id": log.to_string(), "after": arrived });
    let refused = server.send(ARRIVAL, after).await.unwrap();
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("the shard was moved"), "{refused}");
}

#[tokio::test]
async fn readers_get_the_events_of_moved_buckets_once_and_in_order() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let [moved, other, log] = deployment.ids_on(0, 1, 3)[..] else { panic!("three executions") };
    commit(&deployment, 0, log, 1..=5).await;
    commit(&deployment, 0, moved, 1..=20).await;
    let mut early = Reader::from_latest(&server).await;
    // The rest of the source's stream has many pages, so a reader of both streams gets to the end of the other one first.
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, meta)
         SELECT {other}, n, 'call.done', jsonb_build_object('text', repeat('x', 2000)) FROM generate_series(1, 1500) AS n"
    );
    run(&mut deployment.shard(0).await, &rows).await;
    commit(&deployment, 0, moved, 21..=40).await;
    deployment.until_nothing_is_left().await;
    assert!(early.next_event().await);
    let cursor = early.cursor.clone();
    let arrived =
        server.data(ARRIVAL, json!({ "id": log.to_string() })).await["events"]["pageInfo"]["endCursor"].take();
    assert!(server.stop().await.success());

    move_all(&deployment, &[moved, log], 0, 1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    commit(&deployment, 1, moved, 41..=60).await;
    commit(&deployment, 1, log, 6..=7).await;
    deployment.until_nothing_is_left().await;
    a_page_of_a_moved_log_and_its_live_events_have_every_event_once(&deployment, &server, log, &arrived).await;
    // Back, with events on the first shard again.
    deployment.until_nothing_is_left().await;
    assert!(server.stop().await.success());
    move_all(&deployment, &[moved], 1, 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    commit(&deployment, 0, moved, 61..=70).await;
    deployment.until_nothing_is_left().await;

    let committed = deployment.committed().await;
    let of_moved: BTreeSet<Key> = committed.iter().filter(|key| key.0 == moved).copied().collect();
    assert_eq!(of_moved.len(), 70);
    let own = json!({ "executionIds": [moved.to_string()] });
    for (start, filter, wanted) in [
        (json!({ "beginning": true }), Value::Null, &committed),
        (json!({ "beginning": true }), own.clone(), &of_moved),
    ] {
        let reader = Reader::open(&server, start, filter).await;
        assert_exactly(&reader.seen, wanted);
        assert_in_order(&reader.seen, [moved, log]);
        assert_eq!(reader.gaps(), []);
    }
    // A cursor of before the barriers.
    let rest = Reader::open(&server, json!({ "after": cursor }), Value::Null).await;
    let missed: BTreeSet<Key> = committed.difference(&early.seen.iter().copied().collect()).copied().collect();
    let seen: BTreeSet<Key> = rest.seen.iter().copied().collect();
    assert!(missed.iter().filter(|key| key.0 == other || key.1 > 20).all(|key| seen.contains(key)));
    assert_in_order(&rest.seen, [moved, log]);
    assert_eq!(seen.len(), rest.seen.len(), "an event came twice");
}

#[tokio::test]
async fn a_stream_that_ends_before_the_barrier_gives_a_gap_and_the_reader_continues() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let moved = deployment.ids_on(0, 1, 1)[0];
    commit(&deployment, 0, moved, 1..=3).await;
    deployment.until_nothing_is_left().await;
    assert!(server.stop().await.success());
    move_all(&deployment, &[moved], 0, 1).await;
    // As if the broker had lost messages, and the tailer had not noticed it.
    run(&mut deployment.cluster().await, "UPDATE noetl.bucket_move SET barrier_sequence = barrier_sequence + 1000")
        .await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    commit(&deployment, 1, moved, 4..=5).await;
    deployment.until_nothing_is_left().await;
    let reader = Reader::from_beginning(&server).await;
    let seen: Vec<i64> = reader.seen.iter().map(|key| key.1).collect();
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    assert_eq!(reader.gaps(), [(0, 4, 1003, "RETENTION")]);
}

#[tokio::test]
async fn an_old_partition_is_dropped_on_the_shard_that_its_running_executions_left() {
    let deployment = Deployment::start(2).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let moved = deployment.ids_on(0, 1_000_000, 1)[0];
    let partition = "CREATE OR REPLACE FUNCTION public.aged() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN NEW.created_at := '2024-01-01'; RETURN NEW; END $$;
         CREATE TABLE noetl.event_old PARTITION OF noetl.event FOR VALUES FROM (1000000) TO (2000000);
         CREATE TRIGGER aged BEFORE INSERT ON noetl.event_old FOR EACH ROW EXECUTE FUNCTION public.aged()";
    run(&mut deployment.shard(0).await, partition).await;
    let started = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ({moved}, 1, 'playbook_started');
         INSERT INTO noetl.execution (execution_id, catalog_id, status) VALUES ({moved}, 0, 'RUNNING')"
    );
    run(&mut deployment.shard(0).await, &started).await;
    deployment.until_nothing_is_left().await;
    assert!(server.stop().await.success());
    let maintain = async || {
        let (_, said) = deployment.try_maintain(&MAINTAIN).await;
        let line = |shard: usize| {
            let prefix = format!("shard {shard}: retention: ");
            said.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_else(|| panic!("{said}")).to_owned()
        };
        (line(0), line(1))
    };
    let (source, _) = maintain().await;
    assert!(source.contains("has not ended"), "{source}");
    // Retention would have dropped the partition while it was empty.
    run(&mut deployment.shard(1).await, partition).await;
    move_all(&deployment, &[moved], 0, 1).await;
    let (source, target) = maintain().await;
    assert!(source.contains("was dropped"), "{source}");
    assert!(target.contains("has not ended"), "{target}");
}

const ONE: &str = "subscription($id: ID!) {
    executionUpdates(executionId: $id) { kind executionId shard execution { id status } } }";
const LIST: &str = "subscription { executionListUpdates { kind executionId shard execution { id status } } }";

/// Returns kind and status of the next item of an execution with another status than `before`.
async fn next_status(live: &mut Live, id: i64, before: &str) -> (String, String) {
    loop {
        let mut data = live.next().await.expect("the live subscription continues");
        let item = data.as_object_mut().unwrap().values_mut().next().unwrap().take();
        let (kind, status) = (item["kind"].as_str().unwrap(), item["execution"]["status"].as_str().unwrap_or_default());
        assert_ne!(kind, "GAP", "{item}");
        if item["executionId"] == json!(id.to_string()) && status != before {
            return (kind.to_owned(), status.to_owned());
        }
    }
}

#[tokio::test]
async fn live_readers_follow_a_bucket_that_moves_while_they_read() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let (_, executions) = with_executions(&server, EXECUTIONS).await;
    let moved = on_shard(&deployment, 0, &executions).await.first().copied().expect("one of 24 is on shard 0");
    deployment.until_nothing_is_left().await;
    let mut events = Reader::from_latest(&server).await;
    let mut one = server.live(ONE, json!({ "id": moved.to_string() })).await;
    let mut list = server.live(LIST, Value::Null).await;
    assert_eq!(next_status(&mut one, moved, "").await, ("CURRENT".to_owned(), "PENDING".to_owned()));
    assert_eq!(next_status(&mut list, moved, "").await, ("CURRENT".to_owned(), "PENDING".to_owned()));

    let moves = begin(&deployment, &[moved], 0, 1).await;
    deployment.until_map_is_known().await;
    let written: Vec<i64> = (1001..=1020).map(|offset| moved + offset).collect();
    commit(&deployment, 0, moved, written[0]..=written[9]).await;
    deployment.until_nothing_is_left().await;
    for state in &STATES[1..3] {
        advance(&deployment, &moves, *state).await;
    }
    // The replica may learn of the switch only after the events are in the target's stream.
    let mut target = deployment.shard(1).await;
    for event in &written[10..19] {
        insert(&mut target, (moved, *event)).await;
    }
    insert_step_event(&mut target, moved, 1020, "playbook_completed", "{}", "{}").await;
    assert!(events.until_seen(written.iter().map(|event| (moved, *event))).await);
    let seen: Vec<i64> = events.seen.iter().filter(|key| key.0 == moved).map(|key| key.1).collect();
    assert_eq!(seen, written);
    assert_eq!(events.gaps(), []);
    for live in [&mut one, &mut list] {
        assert_eq!(next_status(live, moved, "PENDING").await.1, "COMPLETED");
    }
}
