//! A live reader gets the events that it selected, from its start position on, complete and once, even if the broker
//! restarts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, assert_exactly, insert, insert_typed, run};
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Live, Server};
use serde_json::{Value, json};

async fn start(shards: usize) -> (Deployment, Server) {
    let deployment = Deployment::start(shards).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    (deployment, server)
}

fn latest() -> Value {
    json!({ "latest": true })
}

fn beginning() -> Value {
    json!({ "beginning": true })
}

#[tokio::test]
async fn filters_and_selections_are_applied_by_the_server_to_events_of_any_type_and_size() {
    let (deployment, server) = start(1).await;
    Box::pin(filters_are_applied_by_the_server(&deployment, &server)).await;
    Box::pin(readers_get_the_selected_fields_in_the_order_of_their_selection(&deployment, &server)).await;
    Box::pin(fields_of_a_shared_event_have_the_order_of_the_document(&server)).await;
    Box::pin(heartbeat_cursors_advance_when_no_event_matches_the_filter(&deployment, &server)).await;
    Box::pin(events_with_types_of_any_length_and_characters_are_delivered(&deployment, &server)).await;
    Box::pin(an_event_over_the_brokers_limit_is_delivered_complete(&deployment, &server)).await;
}

#[tokio::test]
async fn a_reader_starts_at_any_valid_position_on_any_replica_and_gets_each_event_or_change_once() {
    let (deployment, server) = start(2).await;
    let other = deployment.replica().await;
    Box::pin(a_reader_starts_at_the_requested_position_and_gets_one_caught_up_item(&deployment, &server)).await;
    Box::pin(a_cursor_continues_on_any_replica_without_gap_or_repetition(&deployment, &server, &other)).await;
    Box::pin(malformed_cursors_and_ids_are_refused_by_field(&server)).await;
    Box::pin(subscription_updates_deliver_current_states_and_then_each_change_once(&server, &other)).await;
}

/// Rows by (execution, event, type, node, status, parent); the last one passes every filter below.
const ROWS: &str =
    "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, status, parent_execution_id)
    VALUES (10, 1, 'subscription.paused', 'inbox', 'PAUSED', NULL),
           (10, 2, 'subscriptions', 'inbox', 'ACTIVE', NULL),
           (11, 3, 'call.done', 'fetch', 'COMPLETED', 10),
           (11, 4, 'call.done', NULL, NULL, 10),
           (12, 5, 'playbook_started', 'fetch', 'STARTED', 99),
           (12, 6, 'playbookXstarted', 'store', 'completed', 10),
           (11, 7, 'subscription.x', 'fetch', 'COMPLETED', 10)";

async fn filters_are_applied_by_the_server(deployment: &Deployment, server: &Server) {
    let wanted: [(Value, &[i64]); 8] = [
        (json!({}), &[1, 2, 3, 4, 5, 6]),
        (json!({ "types": ["subscription.*", "playbook_started"] }), &[1, 5]),
        (json!({ "types": ["call.done", "*.x"] }), &[3, 4]),
        (json!({ "executionIds": ["11", "404"] }), &[3, 4]),
        (json!({ "parentExecutionId": "10" }), &[3, 4, 6]),
        (json!({ "nodeNames": ["fetch", "none"] }), &[3, 5]),
        (json!({ "statuses": ["COMPLETED", "PAUSED"] }), &[1, 3]),
        (json!({ "executionIds": ["11"], "types": ["c*", "s*"], "statuses": ["COMPLETED"] }), &[3]),
    ];
    let open = async |(filter, events): (Value, &'static [i64])| {
        (Reader::open(server, latest(), filter.clone()).await, filter, events)
    };
    let mut readers = join_all(wanted.into_iter().map(open)).await;
    run(&mut deployment.shard(0).await, ROWS).await;
    for (reader, filter, events) in &mut readers {
        // "*.x" is not a valid wildcard, so this reader does not get the last row of ROWS.
        if filter["types"] == json!(["call.done", "*.x"]) {
            insert(&mut deployment.shard(0).await, (11, 7_000)).await;
            assert!(reader.until_seen([(11, 7_000)]).await);
        } else {
            assert!(reader.until_seen([(11, 7)]).await);
        }
        let seen: Vec<i64> = reader.seen.iter().map(|key| key.1).filter(|event| *event < 7).collect();
        assert_eq!(seen, *events, "{filter}");
    }
}

async fn a_reader_starts_at_the_requested_position_and_gets_one_caught_up_item(
    deployment: &Deployment,
    server: &Server,
) {
    let keys: Vec<Key> = (0..2).flat_map(|shard| deployment.ids_on(shard, 50, 3)).map(|id| (id, id)).collect();
    let insert_here = async |key: Key| {
        let shard = usize::from(!deployment.ids_on(0, key.0, 1).contains(&key.0));
        insert(&mut deployment.shard(shard).await, key).await;
    };
    let (before, after) = keys.split_at(3);
    for key in before {
        insert_here(*key).await;
    }
    let mut all = Reader::from_beginning(server).await;
    all.until_seen(before.to_vec()).await;
    let middle = all.cursor.clone();
    let mut fresh = Reader::from_latest(server).await;
    for key in after {
        insert_here(*key).await;
    }
    let mut behind = Reader::open(server, json!({ "after": middle }), Value::Null).await;
    let expected = [(&mut all, keys.clone()), (&mut fresh, after.to_vec()), (&mut behind, after.to_vec())];
    for (reader, expected) in expected {
        assert!(reader.until_seen(expected.clone()).await);
        assert_exactly(&reader.seen, &expected.into_iter().collect());
        let caught_up = reader.items.iter().filter(|item| item["__typename"] == "CaughtUp").count();
        assert_eq!(caught_up, 1, "{:?}", reader.items);
    }
}

async fn a_cursor_continues_on_any_replica_without_gap_or_repetition(
    deployment: &Deployment,
    one: &Server,
    other: &Server,
) {
    let before = deployment.committed().await;
    deployment.until_all_published().await;
    let mut reader = Reader::from_latest(one).await;
    let enough = AtomicBool::new(false);
    let writing = join_all((0..4).map(|index| Writer::new(deployment, index).write(&enough)));
    let reading = async {
        for round in 0..20 {
            assert!(reader.next_event().await);
            reader.reconnect(if round % 2 == 0 { other } else { one }).await;
        }
        enough.store(true, Ordering::Relaxed);
        reader
    };
    let (_, mut reader) = tokio::join!(writing, reading);
    for shard in 0..2 {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], 1)).await;
    }
    let committed: BTreeSet<Key> = deployment.committed().await.difference(&before).copied().collect();
    reader.read_exactly(&committed).await;
}

/// The network holds back the messages for the second replica's feed. Later this feed brings messages that the reader
/// has already seen.
#[tokio::test]
async fn a_cursor_continues_on_a_replica_whose_feed_lags_behind_it() {
    let (deployment, one) = start(1).await;
    let network = Proxy::start(deployment.nats.port()).await;
    let broker = format!("nats://127.0.0.1:{}", network.port);
    let behind = deployment.replica_with(&[("NOETL_NATS_URL", &broker), ("NOETL_PROJECTOR", "false")]).await;
    let mut there = Reader::from_latest(&behind).await;
    deployment.commit(7, 1..=5).await;
    assert!(there.until_seen([(7, 5)]).await, "the feed ended");
    network.set(ForwardingMode::Stalled);
    let mut reader = Reader::from_beginning(&one).await;
    deployment.commit(7, 6..=10).await;
    assert!(reader.until_seen([(7, 10)]).await, "the feed ended");
    reader.reconnect(&behind).await;
    reader.caught_up().await;
    network.set(ForwardingMode::Normal);
    deployment.commit(7, 11..=12).await;
    for each in [&mut reader, &mut there] {
        assert!(each.until_seen([(7, 12)]).await, "the feed ended");
        each.assert_saw_exactly(&(1..=12).map(|event| (7, event)).collect());
        assert_eq!(each.gaps(), []);
    }
}

async fn refused(server: &Server, variables: Value) -> Value {
    let query = "subscription($filter: LiveEventFilter, $start: EventStart) {
        events(filter: $filter, start: $start) { __typename } }";
    Live::open(&server.url, query, variables).await.errors().await[0].clone()
}

async fn malformed_cursors_and_ids_are_refused_by_field(server: &Server) {
    let reader = Reader::from_beginning(server).await;
    server.register_entry("a", &json!({ "kind": "playbook" })).await;
    let listed = server.data("{ catalogEntries(first: 1) { pageInfo { endCursor } } }", Value::Null).await;
    let foreign = listed["catalogEntries"]["pageInfo"]["endCursor"].as_str().unwrap();
    let truncated = &reader.cursor[..reader.cursor.len() - 2];
    // A position that was used in a shard that the replica does not have.
    let used = noetl_feed::wire::cursor::Position { epoch: 1, sequence: 1 };
    let more_shards = noetl_feed::wire::cursor::StreamCursor::unnamed(vec![used; 3]).to_text();
    for cursor in ["", "x", "ünsinn", foreign, truncated, &more_shards, &"A".repeat(20_000)] {
        let error = refused(server, json!({ "start": { "after": cursor } })).await;
        let extensions = json!({ "code": "INVALID_INPUT", "field": ["start", "after"], "retryable": false });
        assert_eq!(error["extensions"], extensions, "{cursor}: {error}");
    }
    for (field, value) in [
        ("executionIds.1", json!(["1", "0x2"])),
        ("executionIds.0", json!(["9223372036854775808"])),
        ("parentExecutionId", json!("")),
        ("types", json!(vec!["t"; 1001])),
    ] {
        let (name, _) = field.split_once('.').unwrap_or((field, ""));
        let error = refused(server, json!({ "filter": { name: value } })).await;
        assert_eq!(error["extensions"]["code"], "INVALID_INPUT", "{field}: {error}");
        let path: Vec<&str> = ["filter"].into_iter().chain(field.split('.')).collect();
        assert_eq!(error["extensions"]["field"], json!(path), "{error}");
    }
    let error = refused(server, json!({ "start": { "latest": false } })).await;
    assert_eq!(error["extensions"]["field"], json!(["start", "latest"]), "{error}");
    let ids = "subscriptionIds";
    for (given, field) in [(json!(["x"]), json!([ids, "0"])), (json!(vec!["1"; 1001]), json!([ids]))] {
        let error = server.live(CHANGES, json!({ "ids": given })).await.errors().await[0].take();
        let extensions = json!({ "code": "INVALID_INPUT", "field": field, "retryable": false });
        assert_eq!(error["extensions"], extensions, "{error}");
    }
}

async fn an_event_over_the_brokers_limit_is_delivered_complete(deployment: &Deployment, server: &Server) {
    let mut live = Reader::from_latest(server).await;
    let large = "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
        SELECT 23, n, 'call.done', jsonb_build_object('text', repeat('é', CASE n WHEN 2 THEN 1500000 ELSE 1 END))
        FROM generate_series(1, 3) AS n";
    run(&mut deployment.shard(0).await, large).await;
    live.until_seen([(23, 3)]).await;
    let mut replaying = Reader::open(server, beginning(), json!({ "executionIds": ["23"] })).await;
    replaying.until_seen([(23, 3)]).await;
    for reader in [&live, &replaying] {
        assert_eq!(reader.seen, [(23, 1), (23, 2), (23, 3)]);
        let texts = reader.items.iter().filter_map(|item| item["event"]["context"]["text"].as_str());
        assert_eq!(texts.map(|text| text.chars().count()).collect::<Vec<_>>(), [1, 1_500_000, 1]);
    }
}

/// Readers with the same selection share the text of an event. The fields are in the order of the document.
async fn readers_get_the_selected_fields_in_the_order_of_their_selection(deployment: &Deployment, server: &Server) {
    let first =
        "subscription { events { ... on EventDelivery { event { type id: eventId ...rest } cursor } __typename } }
        fragment rest on Event { executionId context }";
    let skipping = "subscription($no: Boolean!) { events { ... on EventDelivery { cursor event { id: eventId type @skip(if: $no) } } } }";
    let mut readers = vec![
        server.live(first, Value::Null).await,
        server.live(first, Value::Null).await,
        server.live(skipping, json!({ "no": true })).await,
        server.live(skipping, json!({ "no": false })).await,
    ];
    let mut joined = Reader::from_latest(server).await;
    for reader in &mut readers {
        reader.text().await.unwrap();
    }
    insert(&mut deployment.shard(0).await, (20, 1)).await;
    assert!(joined.until_seen([(20, 1)]).await);
    let mut texts = Vec::new();
    for reader in &mut readers {
        texts.push(reader.text().await.unwrap());
    }
    let cursor = &joined.cursor;
    let next = |events: &str| format!(r#"{{"type":"next","id":"1","payload":{{"data":{{"events":{events}}}}}}}"#);
    let whole = format!(
        r#"{{"event":{{"type":"call.done","id":"1","executionId":"20","context":null}},"cursor":"{cursor}","__typename":"EventDelivery"}}"#
    );
    assert_eq!(texts[0], next(&whole));
    assert_eq!(texts[1], texts[0]);
    assert_eq!(texts[2], next(&format!(r#"{{"cursor":"{cursor}","event":{{"id":"1"}}}}"#)));
    assert_eq!(texts[3], next(&format!(r#"{{"cursor":"{cursor}","event":{{"id":"1","type":"call.done"}}}}"#)));
}

/// The feed continues after an event type that the broker's protocol cannot carry in a subject. Another type has the
/// subject that docs/messages.md states.
async fn events_with_types_of_any_length_and_characters_are_delivered(deployment: &Deployment, server: &Server) {
    let mut reader = Reader::from_latest(server).await;
    let types = ["x".repeat(10_000), "a.".repeat(3_000), "ß → *.> \t".repeat(2_000)];
    for (event, event_type) in (1..).zip(&types) {
        insert_typed(&mut deployment.shard(0).await, (22, event), event_type).await;
    }
    assert!(reader.until_seen([(22, 1), (22, 2), (22, 3)]).await);
    let seen: Vec<&str> = reader.items.iter().filter_map(|item| item["event"]["type"].as_str()).collect();
    assert_eq!(seen, types);
    for (event, event_type) in [(4, "call.done"), (5, "step.exit")] {
        insert_typed(&mut deployment.shard(0).await, (22, event), event_type).await;
    }
    assert!(reader.until_seen([(22, 4), (22, 5)]).await);
    let (_, stream) = deployment.stream(0).await;
    let last = stream.cached_info().state.last_sequence;
    for (sequence, subject) in [(last - 1, "noetl.events.call.done"), (last, "noetl.events.step.exit")] {
        assert_eq!(stream.get_raw_message(sequence).await.unwrap().subject.as_str(), subject);
    }
}

async fn heartbeat_cursors_advance_when_no_event_matches_the_filter(deployment: &Deployment, server: &Server) {
    let mut reader = Reader::open(server, latest(), json!({ "types": ["wanted"] })).await;
    insert(&mut deployment.shard(0).await, (21, 1)).await;
    let caught_up = reader.cursor.clone();
    // An event that the filter excludes also moves the cursor.
    loop {
        let item = reader.step().await.unwrap();
        assert_eq!(item["__typename"], "StreamHeartbeat");
        if reader.cursor != caught_up {
            assert_eq!(item["lagEvents"], "0");
            break;
        }
    }
    insert_typed(&mut deployment.shard(0).await, (21, 2), "wanted").await;
    reader.reconnect(server).await;
    assert!(reader.next_event().await);
    assert_eq!(reader.seen, [(21, 2)]);
}

const CHANGES: &str = "subscription($ids: [ID!], $filter: SubscriptionFilter) {
    subscriptionUpdates(subscriptionIds: $ids, filter: $filter) {
        kind subscriptionId subscription { id path status lastEventId lastEventType availableActions } } }";

/// Returns path and state of the next change. The item after the current states has no path.
async fn next_change(live: &mut Live) -> (String, String) {
    let item = live.next().await.expect("the subscription continues")["subscriptionUpdates"].take();
    if item["kind"] == "CAUGHT_UP" {
        assert_eq!([&item["subscriptionId"], &item["subscription"]], [&Value::Null; 2]);
        return change("", "caught up");
    }
    let text = |field: &str| item["subscription"][field].as_str().unwrap().to_owned();
    let left = if item["kind"] == "LEFT_FILTER" { "left as " } else { "" };
    (text("path"), format!("{left}{}", text("status")))
}

fn change(path: &str, state: &str) -> (String, String) {
    (path.to_owned(), state.to_owned())
}

async fn subscription_updates_deliver_current_states_and_then_each_change_once(server: &Server, other: &Server) {
    let mut ids = Vec::new();
    for path in ["a/one", "a/two", "b/one"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
    }
    for path in ["a/one", "a/two"] {
        ids.push(server.register(path).await["subscription"]["id"].as_str().unwrap().to_owned());
    }
    let open = async |variables: Value| other.live(CHANGES, variables).await;
    let with = async |filter: Value| open(json!({ "filter": filter })).await;
    let (mut all, mut active) = (open(json!({})).await, with(json!({ "statuses": ["ACTIVE"] })).await);
    let (mut prefixed, mut one) = (with(json!({ "pathPrefix": "b/" })).await, open(json!({ "ids": [ids[1]] })).await);
    let mut both = open(json!({ "ids": [ids[1]], "filter": { "statuses": ["ACTIVE"] } })).await;
    let present: BTreeSet<_> = [next_change(&mut all).await, next_change(&mut all).await].into();
    assert_eq!(present, [change("a/one", "REGISTERED"), change("a/two", "REGISTERED")].into());
    assert_eq!(next_change(&mut one).await, change("a/two", "REGISTERED"));
    for live in [&mut all, &mut active, &mut prefixed, &mut one, &mut both] {
        assert_eq!(next_change(live).await, change("", "caught up"));
    }

    // The transitions follow each other without a wait. Each one must be delivered as a change.
    for action in ["activate", "pause", "resume", "drain", "deactivate"] {
        server.transition(action, &ids[0], None).await;
    }
    for state in ["ACTIVE", "PAUSED", "ACTIVE", "DRAINING", "DEACTIVATED"] {
        assert_eq!(next_change(&mut all).await, change("a/one", state));
    }
    server.register("b/one").await;
    server.transition("activate", &ids[1], None).await;
    let last: BTreeSet<_> = [next_change(&mut all).await, next_change(&mut all).await].into();
    assert_eq!(last, [change("b/one", "REGISTERED"), change("a/two", "ACTIVE")].into());
    assert_eq!(next_change(&mut prefixed).await, change("b/one", "REGISTERED"));
    for live in [&mut one, &mut both] {
        assert_eq!(next_change(live).await, change("a/two", "ACTIVE"));
    }
    for state in ["ACTIVE", "left as PAUSED", "ACTIVE", "left as DRAINING"] {
        assert_eq!(next_change(&mut active).await, change("a/one", state));
    }
    assert_eq!(next_change(&mut active).await, change("a/two", "ACTIVE"));
}

#[tokio::test]
async fn readers_continue_without_loss_when_the_broker_is_killed_under_load() {
    let (mut deployment, one) = start(2).await;
    let other = deployment.replica().await;
    let mut readers = [Reader::from_latest(&one).await, Reader::from_latest(&other).await];
    let enough = AtomicBool::new(false);
    let writers: Vec<Writer> = (0..4).map(|index| Writer::new(&deployment, index)).collect();
    let writing = join_all(writers.into_iter().map(|writer| writer.write(&enough)));
    let killing = async {
        for _ in 0..3 {
            for reader in &mut readers {
                assert!(reader.next_event().await, "the feed ended");
            }
            deployment.nats.kill_9().await;
            deployment.nats.restart().await.unwrap();
        }
        enough.store(true, Ordering::Relaxed);
    };
    tokio::join!(writing, killing);
    for shard in 0..2 {
        insert(&mut deployment.shard(shard).await, (deployment.ids_on(shard, 1, 1)[0], 1)).await;
    }
    let committed = deployment.committed().await;
    for reader in &mut readers {
        reader.read_exactly(&committed).await;
    }
    assert_exactly(&deployment.stored_everywhere().await, &committed);
}

/// The readers share the text of an event. Its owner is loaded, so it is resolved after the other fields.
async fn fields_of_a_shared_event_have_the_order_of_the_document(server: &Server) {
    let execution = server.start_execution().await;
    let query = "subscription($start: EventStart, $filter: LiveEventFilter) { events(start: $start, filter: $filter) {
        ... on EventDelivery { event { owner { execution { id } } executionId } cursor } } }";
    let expected = format!(
        r#"{{"event":{{"owner":{{"execution":{{"id":"{execution}"}}}},"executionId":"{execution}"}},"cursor":"#
    );
    let filter = json!({ "executionIds": [execution.to_string()] });
    for _ in 0..2 {
        let mut live = server.live(query, json!({ "start": beginning(), "filter": filter })).await;
        loop {
            let text = live.text().await.expect("the socket stays open");
            if text.contains("owner") {
                assert!(text.contains(&expected), "{text}");
                break;
            }
        }
    }
}
