//! Updates of executions and source subscriptions: each change reaches the readers whose filter it concerns, also if the
//! object leaves the filter, ends, or can't be read for a while.

use noetl_testkit::feed::{ONLY_FEED, run};
use noetl_testkit::projections::insert_step_event;
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::{Deployment, Live, Server, eventually};
use serde_json::{Value, json};

const LIST: &str = "subscription($filter: ExecutionFilter) {
    executionListUpdates(filter: $filter) { kind executionId shard cursor at execution { id status error } } }";
const ONE: &str = "subscription($id: ID!) {
    executionUpdates(executionId: $id) { kind executionId shard cursor execution { id status endedAt error } } }";

async fn started(settings: &[(&str, &str)]) -> (Deployment, Server) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(settings).await;
    deployment.feeds_begun().await;
    (deployment, server)
}

async fn list(server: &Server, filter: Value) -> Live {
    server.live(LIST, json!({ "filter": filter })).await
}

async fn one(server: &Server, id: i64) -> Live {
    server.live(ONE, json!({ "id": id.to_string() })).await
}

async fn next(live: &mut Live) -> Value {
    let mut data = live.next().await.expect("the live subscription continues");
    data.as_object_mut().unwrap().values_mut().next().unwrap().take()
}

/// Returns the next item of an execution with another kind or status than `before`, as kind and status.
async fn next_after(live: &mut Live, id: i64, before: (&str, &str)) -> (String, String) {
    loop {
        let item = next(live).await;
        assert_ne!(item["kind"], "GAP", "{item}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = (text(&item["kind"]), text(&item["execution"]["status"]));
        if item["executionId"] == json!(id.to_string()) && (found.0.as_str(), found.1.as_str()) != before {
            assert_eq!(item["execution"]["id"], item["executionId"]);
            return found;
        }
    }
}

/// Reads until a list is complete. Returns the items before, as the kind and the id of the execution or the shard of a gap.
async fn until_caught_up(live: &mut Live) -> Vec<(String, Value)> {
    let mut before = Vec::new();
    loop {
        let item = next(live).await;
        assert!(item["cursor"].is_string() && item["at"].is_string(), "{item}");
        let kind = item["kind"].as_str().unwrap();
        if kind == "CAUGHT_UP" {
            assert_eq!([&item["executionId"], &item["execution"], &item["shard"]], [&Value::Null; 3]);
            return before;
        }
        let subject = if kind == "GAP" { "shard" } else { "executionId" };
        before.push((kind.to_owned(), item[subject].clone()));
    }
}

fn current(id: i64) -> (String, Value) {
    ("CURRENT".to_owned(), json!(id.to_string()))
}

fn item(kind: &str, status: &str) -> (String, String) {
    (kind.to_owned(), status.to_owned())
}

#[tokio::test]
async fn updates_say_what_begins_and_stops_to_match_and_complete_after_the_end() {
    let (deployment, server) = started(&[]).await;
    Box::pin(changes_of_a_list(&deployment, &server)).await;
    Box::pin(updates_of_one(&deployment, &server)).await;
    Box::pin(shared_interface(&server)).await;
}

/// A list says which executions begin and stop to match its filter. Only this part's executions exist.
async fn changes_of_a_list(deployment: &Deployment, server: &Server) {
    let (one, two) = (server.start_execution().await, server.start_execution().await);
    // An event that is published later would be delivered as a change.
    deployment.until_all_published().await;
    let mut pending = list(server, json!({ "statuses": ["PENDING"] })).await;
    let mut ended = list(server, json!({ "statuses": ["COMPLETED"] })).await;
    assert_eq!(until_caught_up(&mut pending).await, [current(two), current(one)]);
    assert!(until_caught_up(&mut ended).await.is_empty());

    let mut shard = deployment.shard(0).await;
    insert_step_event(&mut shard, one, 10, "playbook_completed", "{}", "{}").await;
    assert_eq!(next_after(&mut pending, one, ("CHANGED", "PENDING")).await, item("LEFT_FILTER", "COMPLETED"));
    assert_eq!(next_after(&mut ended, one, ("", "")).await, item("ENDED", "COMPLETED"));
    let three = server.start_execution().await;
    assert_eq!(next_after(&mut pending, three, ("", "")).await, item("CHANGED", "PENDING"));
    insert_step_event(&mut shard, three, 10, "command.claimed", "{}", "{}").await;
    assert_eq!(next_after(&mut pending, three, ("CHANGED", "PENDING")).await, item("LEFT_FILTER", "RUNNING"));

    let mut broken = list(server, json!({ "errorContains": "BROKEN" })).await;
    assert!(until_caught_up(&mut broken).await.is_empty());
    for (id, error) in [(two, "no answer"), (three, "it is broken")] {
        let error = json!({ "error": error }).to_string();
        insert_step_event(&mut shard, id, 20, "playbook.failed", "{}", &error).await;
    }
    let failed = next(&mut broken).await;
    assert_eq!((&failed["kind"], &failed["executionId"]), (&json!("ENDED"), &json!(three.to_string())), "{failed}");
}

/// Updates of an execution complete after its end, also if it has ended before.
async fn updates_of_one(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    let mut live = one(server, id).await;
    let first = next(&mut live).await;
    assert_eq!((&first["kind"], &first["execution"]["status"]), (&json!("CURRENT"), &json!("PENDING")));
    insert_step_event(&mut deployment.shard(0).await, id, 10, "playbook.failed", "{}", r#"{"error": "broken"}"#).await;
    assert_eq!(next_after(&mut live, id, ("CHANGED", "PENDING")).await, item("ENDED", "FAILED"));
    assert_eq!(live.next().await, None);

    let mut late = one(server, id).await;
    let last = next(&mut late).await;
    assert_eq!((&last["kind"], &last["execution"]["error"]), (&json!("ENDED"), &json!("broken")));
    assert!(last["execution"]["endedAt"].is_string());
    assert_eq!(late.next().await, None);
}

/// The list of executions follows their logs after a moment. Here it never does.
#[tokio::test]
async fn changes_reach_readers_although_the_list_lags() {
    let (deployment, server) = started(&ONLY_FEED).await;
    Box::pin(change_before_a_reader(&deployment, &server)).await;
    Box::pin(status_of_the_fold(&deployment, &server)).await;
    Box::pin(smaller_event_id(&deployment, &server)).await;
}

/// A change that the list does not show yet reaches a reader that starts after it. Only this part's executions exist.
async fn change_before_a_reader(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    insert_step_event(&mut deployment.shard(0).await, id, 10, "playbook_completed", "{}", "{}").await;
    deployment.until_all_published().await;
    let mut completed = list(server, json!({ "statuses": ["COMPLETED"] })).await;
    let ended = ("ENDED".to_owned(), json!(id.to_string()));
    let before = until_caught_up(&mut completed).await;
    assert!(!before.is_empty() && before.iter().all(|item| *item == ended), "{before:?}");
    let other = server.start_execution().await;
    let mut pending = list(server, json!({ "statuses": ["PENDING"] })).await;
    let first = next(&mut pending).await;
    assert_eq!((&first["kind"], &first["executionId"]), (&json!("CURRENT"), &json!(other.to_string())));
    assert_eq!(next(&mut one(server, id).await).await["kind"], "ENDED");
}

/// The failure of the only step ends an execution without an ending event, so only the fold shows it.
async fn status_of_the_fold(deployment: &Deployment, server: &Server) {
    let id = server.start_execution().await;
    let mut failed = list(server, json!({ "statuses": ["FAILED"] })).await;
    let mut alone = one(server, id).await;
    assert_eq!(next(&mut alone).await["kind"], "CURRENT");
    let mut shard = deployment.shard(0).await;
    for (offset, event_type) in [(10, "step.enter"), (11, "command.issued"), (12, "command.failed")] {
        insert_step_event(&mut shard, id, offset, event_type, r#"{"command_id": "c"}"#, "{}").await;
    }
    assert_eq!(next_after(&mut failed, id, ("", "")).await, item("ENDED", "FAILED"));
    // Each event is a change, also the one that started the execution, if it is published after the reader has joined.
    let mut shown = next_after(&mut alone, id, ("CHANGED", "PENDING")).await;
    while shown == item("CHANGED", "RUNNING") {
        shown = next_after(&mut alone, id, ("CHANGED", "PENDING")).await;
    }
    assert_eq!(shown, item("ENDED", "FAILED"));
    assert_eq!(alone.next().await, None);
}

/// Servers generate ids by their own clocks, so a log can get an event whose id is smaller than that of its last event.
async fn smaller_event_id(deployment: &Deployment, server: &Server) {
    let (id, mut shard) = (server.start_execution().await, deployment.shard(0).await);
    insert_step_event(&mut shard, id, 1000, "note", "{}", "{}").await;
    let advance = "mutation($id: ID!) { advanceProjections(input: { executionIds: [$id] }) { results { index } } }";
    server.data(advance, json!({ "id": id.to_string() })).await;
    deployment.until_all_published().await;
    let (mut pending, mut alone) = (list(server, json!({ "statuses": ["PENDING"] })).await, one(server, id).await);
    for live in [&mut pending, &mut alone] {
        assert_eq!(next_after(live, id, ("", "")).await, item("CURRENT", "PENDING"));
    }
    insert_step_event(&mut shard, id, 500, "command.claimed", "{}", "{}").await;
    assert_eq!(next_after(&mut pending, id, ("CHANGED", "PENDING")).await, item("LEFT_FILTER", "RUNNING"));
    assert_eq!(next_after(&mut alone, id, ("CHANGED", "PENDING")).await, item("CHANGED", "RUNNING"));
}

#[tokio::test]
async fn a_list_with_too_many_executions_is_refused_with_the_limit() {
    let (deployment, server) = started(&ONLY_FEED).await;
    let insert = "INSERT INTO noetl.execution (execution_id, catalog_id, status, start_time)
        SELECT id, 0, CASE WHEN id > 10000 THEN 'FAILED' ELSE 'COMPLETED' END, now() - interval '1 day'
        FROM generate_series(1, 10001) AS id";
    run(&mut deployment.shard(0).await, insert).await;
    let mut all = list(&server, Value::Null).await;
    // No item is sent before.
    let error = all.message().await.unwrap();
    let errors = if error["type"] == "error" { &error["payload"] } else { &error["payload"]["errors"] };
    let extensions = &errors[0]["extensions"];
    assert_eq!((&extensions["code"], &extensions["retryable"]), (&json!("LIMIT_EXCEEDED"), &json!(false)), "{error}");
    assert_eq!((&extensions["allowed"], &extensions["actual"]), (&json!(10_000), &json!(10_001)));
    let mut few = list(&server, json!({ "statuses": ["FAILED"] })).await;
    assert_eq!(next(&mut few).await["executionId"], "10001");
}

/// Takes a shard down, and waits until the server knows it.
async fn take_down(network: &Proxy, server: &Server, shard: usize) {
    network.set(ForwardingMode::Closed);
    eventually("the shard is down", async || {
        let shards = server.data("{ shards { available } }", Value::Null).await;
        (shards["shards"][shard]["available"] == false).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_list_is_not_complete_before_a_shard_can_be_read() {
    let mut deployment = Deployment::start(1).await;
    let network = deployment.shard_behind_proxy(0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let id = server.start_execution().await;
    deployment.until_all_published().await;
    take_down(&network, &server, 0).await;
    let mut all = list(&server, Value::Null).await;
    assert_eq!(next(&mut all).await["kind"], "GAP");
    network.set(ForwardingMode::Normal);
    let listed = until_caught_up(&mut all).await;
    assert!(listed.contains(&current(id)) && listed.iter().all(|(kind, _)| kind != "GAP"), "{listed:?}");
}

/// The execution of the first reader is on a shard that goes down.
#[tokio::test]
async fn a_shard_that_is_down_is_a_gap_and_its_current_states_follow() {
    let mut deployment = Deployment::start(2).await;
    let network = deployment.shard_behind_proxy(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let mut ids = [None, None];
    while ids.contains(&None) {
        let id = server.start_execution().await;
        let shard =
            server.data("query($id: ID!) { execution(id: $id) { shard } }", json!({ "id": id.to_string() })).await;
        ids[usize::try_from(shard["execution"]["shard"].as_u64().unwrap()).unwrap()] = Some(id);
    }
    let [reachable, lost] = ids.map(Option::unwrap);
    // An event that is published while the shard is up again would be delivered as a change.
    deployment.until_all_published().await;
    take_down(&network, &server, 1).await;
    let (mut all, mut alone) = (list(&server, Value::Null).await, one(&server, lost).await);
    let listed = until_caught_up(&mut all).await;
    assert_eq!(listed[0], ("GAP".to_owned(), json!(1)), "{listed:?}");
    assert!(listed[1..].iter().all(|(kind, _)| kind == "CURRENT"), "{listed:?}");
    assert!(listed.contains(&current(reachable)) && !listed.contains(&current(lost)), "{listed:?}");
    let gap = next(&mut alone).await;
    assert_eq!((&gap["kind"], &gap["shard"], &gap["execution"]), (&json!("GAP"), &json!(1), &Value::Null));
    network.set(ForwardingMode::Normal);
    let listed = until_caught_up(&mut all).await;
    assert!(listed.contains(&current(lost)) && listed.iter().all(|(kind, _)| kind != "GAP"), "{listed:?}");
    assert_eq!(next_after(&mut alone, lost, ("", "")).await, item("CURRENT", "PENDING"));
}

/// Items of all live fields share an interface, and an object can be shown twice.
async fn shared_interface(server: &Server) {
    let id = server.start_execution().await;
    let query = format!(
        "subscription {{ executionUpdates(executionId: \"{id}\") {{
            a: execution {{ id }} b: execution {{ status shard }} ... on LiveItem {{ at cursor }} }} }}"
    );
    for _ in 0..2 {
        let item = next(&mut server.live(&query, Value::Null).await).await;
        assert_eq!(item["a"], json!({ "id": id.to_string() }));
        assert_eq!(item["b"]["status"], "PENDING");
        assert!(item["at"].is_string() && item["cursor"].is_null(), "{item}");
    }
    let latest = "subscription { events { __typename ... on LiveItem { at cursor } } }";
    let status = "subscription { systemStatus { ... on LiveItem { at cursor } } }";
    let item = next(&mut server.live(latest, Value::Null).await).await;
    assert!(item["at"].is_string() && item["cursor"].is_string(), "{item}");
    let item = next(&mut server.live(status, Value::Null).await).await;
    assert!(item["at"].is_string() && item["cursor"].is_null(), "{item}");
}
