//! The log of a source subscription is a valid path through the table of transitions, even with concurrent requests and
//! wrong clocks. Bulk transitions, lists and histories select what their filters say.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use futures::future::join_all;
use noetl_testkit::pages::{read_pages, texts};
use noetl_testkit::{Deployment, LifecycleEvent, Server};
use serde_json::{Value, json};

const ACTIONS: [&str; 5] = ["activate", "pause", "resume", "drain", "deactivate"];
/// The table of transitions: action, event, state after it, states that allow it.
const TABLE: [(&str, &str, &str, &[&str]); 5] = [
    ("activate", "subscription.activated", "ACTIVE", &["REGISTERED", "PAUSED", "DEACTIVATED", "ACTIVE"]),
    ("pause", "subscription.paused", "PAUSED", &["ACTIVE", "PAUSED"]),
    ("resume", "subscription.resumed", "ACTIVE", &["PAUSED", "ACTIVE"]),
    ("drain", "subscription.draining", "DRAINING", &["ACTIVE", "PAUSED", "DRAINING"]),
    (
        "deactivate",
        "subscription.deactivated",
        "DEACTIVATED",
        &["REGISTERED", "ACTIVE", "PAUSED", "DRAINING", "DEACTIVATED"],
    ),
];
/// Actions that bring a registered subscription to each state.
const ACTIONS_TO_STATE: [(&str, &[&str]); 5] = [
    ("REGISTERED", &[]),
    ("ACTIVE", &["activate"]),
    ("PAUSED", &["activate", "pause"]),
    ("DRAINING", &["activate", "drain"]),
    ("DEACTIVATED", &["deactivate"]),
];

fn row(action: &str) -> (&'static str, &'static str, &'static [&'static str]) {
    let (_, event, state, from) = TABLE.into_iter().find(|(name, ..)| *name == action).unwrap();
    (event, state, from)
}

/// Returns the actions that change a state.
fn available(state: &str) -> Vec<String> {
    let changes = |(_, _, target, from): &(&str, &str, &str, &[&str])| from.contains(&state) && *target != state;
    TABLE.into_iter().filter(changes).map(|(name, ..)| name.to_uppercase()).collect()
}

/// Panics unless each event was allowed in the state before it, and has a larger id than the event before it.
fn assert_legal(log: &[LifecycleEvent]) {
    assert_eq!(log[0].event_type, "subscription.registered");
    assert_eq!(log[0].status.as_deref(), Some("REGISTERED"));
    for pair in log.windows(2) {
        let (before, after) = (pair[0].status.as_deref().unwrap(), &pair[1]);
        let step = TABLE.into_iter().find(|(_, event, ..)| *event == after.event_type);
        let (_, _, state, from) = step.unwrap_or_else(|| panic!("{log:#?}"));
        assert!(from.contains(&before) && after.status.as_deref() == Some(state), "{before} then {after:?}: {log:#?}");
        assert!(pair[0].event_id < after.event_id, "the id does not increase: {log:#?}");
    }
}

fn code(payload: &Value) -> Option<&str> {
    payload["userErrors"][0]["code"].as_str()
}

/// Starts two replicas. The clock of the second is one hour slow.
async fn replicas(deployment: &Deployment) -> [Server; 2] {
    let (one, behind) = tokio::join!(deployment.replica(), deployment.replica_an_hour_behind(&[]));
    let started = behind.data("{ server { startedAt } }", json!({})).await["server"]["startedAt"].clone();
    let started: DateTime<Utc> = serde_json::from_value(started).unwrap();
    assert!(Utc::now() - started > chrono::Duration::minutes(59), "the second clock is not slow: {started}");
    [one, behind]
}

#[tokio::test]
async fn concurrent_transitions_write_a_valid_log_and_one_of_those_that_expect_the_same_event_succeeds() {
    let deployment = Deployment::start(2).await;
    let replicas = replicas(&deployment).await;
    concurrent_transitions(&deployment, &replicas).await;
    expected_events(&deployment, &replicas).await;
}

/// Concurrent transitions write a valid log with increasing ids.
async fn concurrent_transitions(deployment: &Deployment, replicas: &[Server; 2]) {
    let id = replicas[0].subscribe("inbox").await;
    let mut carried_out: BTreeMap<i64, (&str, &str)> = BTreeMap::new();
    for round in 0..4 {
        let asked: Vec<&str> = (0..32).map(|n| ACTIONS[(n * (round + 2) + n / 5) % 5]).collect();
        let transitions = asked.iter().enumerate().map(|(n, action)| replicas[n % 2].transition(action, &id, None));
        for (action, answer) in asked.iter().zip(join_all(transitions).await) {
            let (event, state, from) = row(action);
            if answer["userErrors"] == json!([]) {
                let moved = &answer["subscription"];
                assert_eq!(moved["status"], state, "{action}: {answer}");
                let event_id = moved["lastEventId"].as_str().unwrap().parse().unwrap();
                assert_eq!(carried_out.insert(event_id, (event, state)), None, "two responses name the same event");
            } else {
                assert_eq!(code(&answer), Some("INVALID_TRANSITION"), "{action} in round {round}: {answer}");
                let message = answer["userErrors"][0]["message"].as_str().unwrap();
                let named = ACTIONS_TO_STATE.into_iter().find(|(state, _)| message.contains(&format!("is {state} ")));
                assert!(!from.contains(&named.unwrap().0), "an allowed transition was refused: {message}");
            }
        }
        assert_legal(&deployment.lifecycle(&id).await);
    }
    let log = deployment.lifecycle(&id).await;
    let written: BTreeMap<i64, (&str, &str)> =
        log[1..].iter().map(|event| (event.event_id, (&*event.event_type, event.status.as_deref().unwrap()))).collect();
    assert_eq!(written, carried_out, "the log differs from the responses");
    assert!(carried_out.len() > 20, "too few transitions were carried out: {carried_out:?}");
}

/// Exactly one of the transitions that expect the same event succeeds.
async fn expected_events(deployment: &Deployment, replicas: &[Server; 2]) {
    let id = replicas[0].subscribe("expected").await;
    let mut last = replicas[0].register("expected").await["subscription"]["lastEventId"].as_str().unwrap().to_owned();
    for (round, action) in ["activate", "pause", "resume", "deactivate", "activate", "drain"].into_iter().enumerate() {
        let transitions = (0..16).map(|n| replicas[n % 2].transition(action, &id, Some(&last)));
        let answers = join_all(transitions).await;
        let (won, lost): (Vec<&Value>, Vec<&Value>) =
            answers.iter().partition(|answer| answer["userErrors"] == json!([]));
        assert_eq!(won.len(), 1, "{action}: {won:?}");
        for answer in lost {
            let error = &answer["userErrors"][0];
            assert_eq!(error["code"], "STALE_VERSION", "{action}: {answer}");
            assert_eq!(error["field"], json!(["expectedLastEventId"]), "{answer}");
            assert_eq!(answer["subscription"], won[0]["subscription"], "a refusal returns the current subscription");
        }
        let log = deployment.lifecycle(&id).await;
        assert_eq!(log.len(), round + 2);
        assert_legal(&log);
        last = won[0]["subscription"]["lastEventId"].as_str().unwrap().to_owned();
        assert_eq!(last, log.last().unwrap().event_id.to_string());
    }
}

#[tokio::test]
async fn transitions_lists_and_histories_follow_the_table_of_transitions() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    let deactivated = lists(&server).await;
    bulk_transitions(&deployment, &server, &deactivated).await;
    histories(&server).await;
    table_of_transitions(&deployment, &server).await;
}

/// Every action in every state follows the table of transitions.
async fn table_of_transitions(deployment: &Deployment, server: &Server) {
    for (state, way) in ACTIONS_TO_STATE {
        for (action, event, target, from) in TABLE {
            let id = server.subscribe(&format!("{state}/{action}")).await;
            for step in way {
                assert_eq!(code(&server.transition(step, &id, None).await), None);
            }
            let before = deployment.lifecycle(&id).await;
            let answer = server.transition(action, &id, None).await;
            let after = deployment.lifecycle(&id).await;
            if from.contains(&state) {
                let moved = &answer["subscription"];
                assert_eq!(moved["status"], target, "{state} {action}: {answer}");
                assert_eq!(moved["availableActions"], json!(available(target)), "{state} {action}");
                assert_eq!(after.len(), before.len() + 1, "{state} {action}");
                assert_eq!(
                    (&*after.last().unwrap().event_type, after.last().unwrap().status.as_deref()),
                    (event, Some(target))
                );
            } else {
                let current = &answer["subscription"];
                assert_eq!((&current["id"], &current["status"]), (&json!(id), &json!(state)), "{answer}");
                let error = &answer["userErrors"][0];
                assert_eq!(error["code"], "INVALID_TRANSITION", "{state} {action}: {answer}");
                assert_eq!(error["field"], json!(["subscriptionId"]));
                let message = error["message"].as_str().unwrap();
                assert!(message.contains(state) && message.ends_with(&available(state).join(", ")), "{message}");
                assert_eq!(after, before, "{state} {action} wrote something");
            }
            assert_legal(&after);
        }
    }
}

const BULK: &str = "mutation($input: TransitionSubscriptionsInput!) { transitionSubscriptions(input: $input) {
    results { index subscriptionId subscription { id path status lastEventId } applied
        userErrors { code field message } }
    unavailableShards userErrors { code field message } } }";

/// A bulk transition moves only allowed subscriptions, and a dry run moves none. `deactivated` are all deactivated
/// subscriptions, newest first.
async fn bulk_transitions(deployment: &Deployment, server: &Server, deactivated: &[String]) {
    let mut ids = Vec::new();
    for (n, (state, way)) in ACTIONS_TO_STATE.into_iter().enumerate() {
        let id = server.subscribe(&format!("bulk-a/{state}")).await;
        for step in way {
            server.transition(step, &id, None).await;
        }
        ids.push(id);
        server.subscribe(&format!("bulk-b/{n}")).await;
    }
    let newest_first: Vec<&str> = ids.iter().rev().map(String::as_str).collect();
    let bulk = async |action: &str, filter: Value, dry_run: bool| {
        let input =
            json!({ "action": action, "select": { "filter": filter }, "dryRun": dry_run, "reason": "maintenance" });
        server.data(BULK, json!({ "input": input })).await["transitionSubscriptions"].clone()
    };
    let events = async || deployment.sum_over_shards("SELECT count(*) FROM noetl.event").await;
    let list = |answer: &Value, key: &str| -> Vec<String> {
        let results = answer["results"].as_array().unwrap().iter();
        results.map(|result| result["subscription"][key].as_str().unwrap().to_owned()).collect()
    };
    let applied = |answer: &Value| -> Vec<bool> {
        answer["results"].as_array().unwrap().iter().map(|result| result["applied"].as_bool().unwrap()).collect()
    };

    let before = events().await;
    let dry = bulk("PAUSE", json!({ "pathPrefix": "bulk-a/" }), true).await;
    // The deactivated one is not selected.
    assert_eq!(list(&dry, "id"), newest_first[1..]);
    assert_eq!(list(&dry, "status"), ["DRAINING", "PAUSED", "ACTIVE", "REGISTERED"]);
    assert_eq!(applied(&dry), [false, true, true, false]);
    assert_eq!(events().await, before, "the dry run wrote something");

    let real = bulk("PAUSE", json!({ "pathPrefix": "bulk-a/" }), false).await;
    assert_eq!(list(&real, "id"), newest_first[1..]);
    assert_eq!(list(&real, "status"), ["DRAINING", "PAUSED", "PAUSED", "REGISTERED"]);
    assert_eq!(applied(&real), applied(&dry), "the dry run and the real run differ");
    for result in real["results"].as_array().unwrap().iter().filter(|result| result["applied"] == false) {
        let error = &result["userErrors"][0];
        assert_eq!((&error["code"], &error["field"]), (&json!("INVALID_TRANSITION"), &Value::Null));
    }
    assert_eq!(events().await, before + 2);
    let reason = "SELECT count(*) FROM noetl.event WHERE context ->> 'reason' = 'maintenance'";
    assert_eq!(deployment.sum_over_shards(reason).await, 2);

    let all = json!({ "action": "ACTIVATE", "select": { "all": true }, "dryRun": true });
    let all = server.data(BULK, json!({ "input": all })).await["transitionSubscriptions"].take();
    assert!(!list(&all, "id").contains(&newest_first[0].to_owned()), "{all}");
    let named = bulk("ACTIVATE", json!({ "statuses": ["DEACTIVATED"] }), true).await;
    let deactivated: Vec<&str> = deactivated.iter().map(String::as_str).collect();
    assert_eq!(list(&named, "id"), [&newest_first[..1], &deactivated[..]].concat());
    let paused = bulk("RESUME", json!({ "statuses": ["PAUSED"], "pathPrefix": "bulk-a/ACTIVE" }), false).await;
    assert_eq!(list(&paused, "id"), [ids[1].as_str()], "results must match all conditions of the filter");
    let registered = bulk("RESUME", json!({ "statuses": ["REGISTERED"], "pathPrefix": "bulk-a/" }), true).await;
    assert_eq!(list(&registered, "id"), [ids[0].as_str()], "results must match all conditions of the filter");
    // Each selected id has a result, also one that no subscription has and one whose subscription is deactivated.
    let input = json!({ "action": "ACTIVATE", "select": { "ids": ["1", ids[3], ids[4], ids[4]] }, "dryRun": true });
    let by_id = server.data(BULK, json!({ "input": input })).await["transitionSubscriptions"].clone();
    let results = by_id["results"].as_array().unwrap().iter();
    let result = |one: &Value| {
        let error = &one["userErrors"][0];
        json!([one["index"], one["subscriptionId"], error["code"], error["field"]])
    };
    let results: Vec<_> = results.map(result).collect();
    let expected = [
        json!([0, "1", "NOT_FOUND", ["select", "ids", "0"]]),
        json!([1, ids[3], "INVALID_TRANSITION", ["select", "ids", "1"]]),
        json!([2, ids[4], null, null]),
        json!([3, ids[4], null, null]),
    ];
    assert_eq!(results, expected);
    for id in &ids {
        assert_legal(&deployment.lifecycle(id).await);
    }
}

/// A history contains every lifecycle event in order.
async fn histories(server: &Server) {
    let id = server.subscribe("inbox").await;
    let steps = ["activate", "pause", "resume", "drain", "deactivate", "activate"];
    for step in steps {
        server.transition(step, &id, None).await;
    }
    let query = "query($id: ID!, $first: Int, $after: String, $last: Int, $types: [String!]) {
        subscription(by: {id: $id}) { path status availableActions lastEventId lastEventType catalogEntry { id: catalogId path }
            events(first: $first, after: $after, last: $last, filter: {types: $types}) {
                nodes { id: eventId executionId catalogId type nodeId nodeType nodeName status context meta }
                pageInfo { hasNextPage hasPreviousPage endCursor } } } }";
    let ask = async |variables: Value| server.data(query, variables).await["subscription"].clone();

    let whole = ask(json!({ "id": id, "first": 100 })).await;
    let events = whole["events"]["nodes"].as_array().unwrap();
    let types = texts(&whole["events"]["nodes"], "type");
    let expected: Vec<&str> = ["subscription.registered"].into_iter().chain(steps.map(|step| row(step).0)).collect();
    assert_eq!(types, expected);
    let unique: HashSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(unique.len(), events.len());
    let catalog_id = &whole["catalogEntry"]["id"];
    for event in events {
        assert_eq!((&event["nodeId"], &event["nodeType"]), (&json!("subscription"), &json!("subscription")));
        assert_eq!((&event["nodeName"], &event["executionId"]), (&json!("inbox"), &json!(id)));
        assert_eq!(&event["catalogId"], catalog_id);
        let context = json!({ "subscription_id": id, "path": "inbox", "catalog_id": catalog_id });
        assert_eq!(event["context"], context);
        let meta = &event["meta"];
        assert_eq!((&meta["emitter"], &meta["subscription_lifecycle"]), (&json!("control_plane"), &json!(true)));
        assert!(DateTime::parse_from_rfc3339(meta["emitted_at"].as_str().unwrap()).is_ok());
    }
    assert_eq!(whole["lastEventId"], events.last().unwrap()["id"]);
    assert_eq!((&whole["lastEventType"], &whole["status"]), (&json!("subscription.activated"), &json!("ACTIVE")));
    assert_eq!(whole["availableActions"], json!(available("ACTIVE")));

    let first = ask(json!({ "id": id, "first": 3 })).await["events"].clone();
    let rest = ask(json!({ "id": id, "first": 100, "after": first["pageInfo"]["endCursor"] })).await["events"].clone();
    assert_eq!((&first["pageInfo"]["hasNextPage"], &rest["pageInfo"]["hasNextPage"]), (&json!(true), &json!(false)));
    let joined: Vec<Value> =
        [&first, &rest].iter().flat_map(|page| page["nodes"].as_array().unwrap().clone()).collect();
    assert_eq!(&joined, events);
    let last = ask(json!({ "id": id, "last": 2 })).await["events"].clone();
    assert_eq!(last["nodes"].as_array().unwrap(), &events[events.len() - 2..]);
    let activations = ask(json!({ "id": id, "types": ["subscription.act*"] })).await["events"].clone();
    assert_eq!(activations["nodes"].as_array().unwrap().len(), 2);
}

const LIST: &str = "query($filter: SubscriptionFilter, $first: Int, $after: String, $last: Int, $before: String) {
    subscriptions(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { id } unavailableShards pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }";

/// Reads the list in pages of `size`, forwards or backwards. Returns the ids in the order of the list.
async fn walk(server: &Server, filter: &Value, size: usize, backwards: bool) -> Vec<String> {
    let pages = read_pages(size, backwards, async |mut range: Value| {
        range["filter"] = filter.clone();
        let page = server.data(LIST, range).await["subscriptions"].take();
        assert_eq!(page["unavailableShards"], json!([]));
        let more = page["pageInfo"][if backwards { "hasPreviousPage" } else { "hasNextPage" }] == true;
        let is_full = page["nodes"].as_array().unwrap().len() == size;
        assert!(!more || is_full, "a page is short although more items follow: {page}");
        page
    })
    .await;
    pages.iter().flat_map(|page| texts(&page["nodes"], "id")).collect()
}

/// A percent sign in a prefix of paths is no wildcard.
/// Lists are filtered by state and path. Returns the deactivated subscriptions, newest first; no others exist.
async fn lists(server: &Server) -> Vec<String> {
    let mut all: Vec<(String, &str, &str)> = Vec::new();
    for team in ["team-a", "team-b"] {
        for (state, way) in ACTIONS_TO_STATE {
            let id = server.subscribe(&format!("{team}/{state}")).await;
            for step in way {
                assert_eq!(code(&server.transition(step, &id, None).await), None);
            }
            all.push((id, team, state));
        }
    }
    let newest_first = |picked: &dyn Fn(&str, &str) -> bool| -> Vec<String> {
        all.iter().rev().filter(|(_, team, state)| picked(team, state)).map(|(id, ..)| id.clone()).collect()
    };
    let cases: [(Value, Vec<String>); 8] = [
        (Value::Null, newest_first(&|_, _| true)),
        (json!({ "statuses": ["PAUSED"] }), newest_first(&|_, state| state == "PAUSED")),
        (
            json!({ "statuses": ["DEACTIVATED", "REGISTERED"] }),
            newest_first(&|_, state| state == "DEACTIVATED" || state == "REGISTERED"),
        ),
        (json!({ "statuses": [] }), Vec::new()),
        (json!({ "pathPrefix": "team-a/" }), newest_first(&|team, _| team == "team-a")),
        (json!({ "pathPrefix": "team-%" }), Vec::new()),
        // Each condition excludes subscriptions that the other one matches.
        (
            json!({ "statuses": ["PAUSED"], "pathPrefix": "team-b/" }),
            newest_first(&|team, state| team == "team-b" && state == "PAUSED"),
        ),
        (json!({ "statuses": ["ACTIVE"], "pathPrefix": "team-b/PAUSED" }), Vec::new()),
    ];
    for (filter, expected) in cases {
        for size in [1, 3, 100] {
            for backwards in [false, true] {
                let found = walk(server, &filter, size, backwards).await;
                assert_eq!(found, expected, "{filter} in pages of {size}, backwards: {backwards}");
            }
        }
    }
    newest_first(&|_, state| state == "DEACTIVATED")
}
