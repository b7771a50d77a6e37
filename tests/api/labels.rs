//! Labels of executions and source subscriptions: where they come from, and how objects are found by them.

use noetl_testkit::feed::run;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::pages::texts;
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Map, Value, json};
use sqlx::Connection;

use super::execution_lists::{assert_listed, ids};

/// Returns input labels.
fn given(labels: &[(&str, &str)]) -> Value {
    labels.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// Returns a filter with these conditions on labels.
fn labelled(conditions: Value) -> Value {
    json!({ "labels": conditions })
}

/// Returns the labels of an execution, read by its id, as a map.
async fn labels(server: &Server, id: &str) -> Value {
    let query = "query($id: ID!) { execution(id: $id) { labels { name value } } }";
    let found = server.data(query, json!({ "id": id })).await["execution"]["labels"].take();
    map(&found)
}

/// Returns labels of a response as a map. They must be ordered by name.
fn map(labels: &Value) -> Value {
    let pairs = labels.as_array().unwrap().iter();
    let pairs: Vec<(String, Value)> =
        pairs.map(|label| (label["name"].as_str().unwrap().to_owned(), label["value"].clone())).collect();
    assert!(pairs.is_sorted_by(|one, next| one.0 < next.0), "{labels}");
    Value::Object(pairs.into_iter().collect::<Map<_, _>>())
}

#[tokio::test]
async fn an_execution_has_the_labels_of_its_request_its_workload_and_its_document() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    malformed_conditions(&server).await;
    labels_of_requests(&deployment, &server).await;
}

/// An execution has the labels of its request, its workload and its document. All executions are deleted meanwhile.
async fn labels_of_requests(deployment: &Deployment, server: &Server) {
    let document = json!({ "kind": "playbook", "workload": { "order": { "id": 1 } }, "metadata": {
        "labels": { "team": "a", "stage": "prod", "Not a label": "x", "list": [1] },
        "searchable": { "order": "{{ workload.order.id }}", "stage": "{{ workload.stage }}" } } });
    server.register_entry("flow", &document).await;
    let mut started = Vec::new();
    for (input, expected) in [
        (json!({}), json!({ "order": "1", "stage": "prod", "team": "a" })),
        (
            json!({ "workload": { "order": { "id": 17 }, "stage": "test" } }),
            json!({ "order": "17", "stage": "test", "team": "a" }),
        ),
        (
            json!({ "labels": given(&[("stage", "mine"), ("extra", "y")]), "workload": { "stage": "test" } }),
            json!({ "extra": "y", "order": "1", "stage": "mine", "team": "a" }),
        ),
    ] {
        let mut request = json!({ "path": "flow" });
        request.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        let id = server.started(request).await;
        assert_eq!(labels(server, &id).await, expected, "{input}");
        let log = "query($id: ID!) { events(executionId: $id) { nodes { meta } } }";
        let log = server.data(log, json!({ "id": id })).await["events"].take();
        assert_eq!(log["nodes"][0]["meta"]["labels"], expected, "{input}");
        started.push((id, expected));
    }

    let rerun = async |input: Value| {
        let query = "mutation($input: RerunExecutionInput!) { rerunExecution(input: $input) {
            execution { labels { name value } } userErrors { message } } }";
        let payload = server.data(query, json!({ "input": input })).await["rerunExecution"].take();
        map(&payload["execution"]["labels"])
    };
    let (origin, of_origin) = started.last().unwrap();
    for workload in [Value::Null, json!({ "stage": "test" })] {
        let same = rerun(json!({ "executionId": origin, "workload": workload })).await;
        assert_eq!(same, *of_origin, "a rerun with the same workload: {workload}");
    }
    let kept = rerun(json!({ "executionId": origin, "workload": { "order": { "id": 18 } } })).await;
    assert_eq!(kept, json!({ "extra": "y", "order": "18", "stage": "test", "team": "a" }));
    let replaced = rerun(json!({ "executionId": origin, "labels": given(&[("only", "z")]) })).await;
    assert_eq!(replaced, json!({ "only": "z", "order": "1", "stage": "test", "team": "a" }));

    // A part that the new workload lacks gives no label.
    let changed = rerun(json!({ "executionId": origin, "workload": { "order": null, "stage": null } })).await;
    assert_eq!(changed, json!({ "extra": "y", "stage": "prod", "team": "a" }));

    // Labels that a program takes away are gone from the index.
    let cleared = server.started(json!({ "path": "flow", "labels": given(&[("cleared", "yes")]) })).await;
    let cleared: i64 = cleared.parse().unwrap();
    let mut shard = deployment.shard(0).await;
    let clear = sqlx::query("UPDATE noetl.execution SET labels = NULL WHERE execution_id = $1").bind(cleared);
    clear.execute(&mut shard).await.unwrap();
    let left = sqlx::query_scalar("SELECT count(*) FROM noetl.execution_label WHERE execution_id = $1").bind(cleared);
    let left: i64 = left.fetch_one(&mut shard).await.unwrap();
    assert_eq!(left, 0, "labels that are gone");

    // The log is the source: without the row, the labels are read from it, and an advance stores them again.
    let mut tx = shard.begin().await.unwrap();
    sqlx::query("DELETE FROM noetl.execution").execute(&mut *tx).await.unwrap();
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM noetl.execution_label").fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(left, 0, "labels of deleted executions");
    assert_eq!(labels(server, origin).await, *of_origin);
    let advance =
        "mutation($ids: [ID!]!) { advanceProjections(input: { executionIds: $ids }) { userErrors { code } } }";
    server.data(advance, json!({ "ids": [origin] })).await;
    assert_eq!(ids(server, labelled(json!([{ "name": "extra", "equals": "y" }]))).await, [&**origin]);
    assert_eq!(labels(server, origin).await, *of_origin);
}

/// A session keeps the plans of a trigger, also those that were made when the table was empty.
#[tokio::test]
async fn the_index_of_labels_is_kept_without_reading_all_of_it() {
    let deployment = Deployment::start(0).await;
    let mut shard = deployment.shard(0).await;
    run(&mut shard, "ANALYZE noetl.execution_label").await;
    let mut tx = shard.begin().await.unwrap();
    let write = "INSERT INTO noetl.execution (execution_id, catalog_id, status)
                 SELECT n, 0, 'PENDING' FROM generate_series(1, 200) AS n;
                 UPDATE noetl.execution SET labels = '{\"team\": \"a\"}';
                 UPDATE noetl.execution SET status = 'RUNNING'; DELETE FROM noetl.execution";
    run(&mut tx, write).await;
    let read = "SELECT seq_tup_read, n_tup_ins, n_tup_del FROM pg_stat_xact_user_tables
                WHERE relid = 'noetl.execution_label'::regclass";
    let read: (i64, i64, i64) = sqlx::query_as(read).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(read, (0, 800, 800));
}

#[tokio::test]
async fn executions_and_subscriptions_are_found_and_changed_by_labels_which_executions_inherit() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.feeds_begun().await;
    Box::pin(labelled_executions(&server)).await;
    Box::pin(labelled_subscriptions(&server)).await;
    inherited_labels(&server).await;
}

/// Executions are found and cancelled by their labels. Only this part's executions exist.
async fn labelled_executions(server: &Server) {
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    let run = async |labels: &[(&str, &str)], tenant: Option<&str>| {
        server.started(json!({ "path": "flow", "labels": given(labels), "tenantId": tenant })).await
    };
    let odd = r#"a = "\b" Größe"#;
    let a = run(&[("team", "a"), ("stage", "prod")], None).await;
    let b = run(&[("team", "b"), ("stage", "prod"), ("note", odd)], None).await;
    let none = run(&[], None).await;
    let test = run(&[("team", "a"), ("stage", "test")], None).await;
    let acme = run(&[("team", "a")], Some("acme")).await;
    let globex = run(&[("team", "a")], Some("globex")).await;
    let (team_a, any_team) = (json!({ "name": "team", "equals": "a" }), json!({ "name": "team", "exists": true }));
    let prod = json!({ "name": "stage", "in": ["prod", "prod", "none"] });
    for (filter, expected) in [
        (labelled(json!([team_a])), vec![&globex, &acme, &test, &a]),
        (labelled(json!([any_team])), vec![&globex, &acme, &test, &b, &a]),
        (labelled(json!([{ "name": "team", "in": ["a", "b"] }])), vec![&globex, &acme, &test, &b, &a]),
        (labelled(json!([team_a, prod])), vec![&a]),
        (labelled(json!([prod, any_team])), vec![&b, &a]),
        (labelled(json!([{ "name": "note", "equals": odd }])), vec![&b]),
        (labelled(json!([{ "name": "team", "equals": "prod" }])), vec![]),
        (labelled(json!([{ "name": "tea", "exists": true }])), vec![]),
        (json!({ "labels": [team_a], "tenantId": "acme" }), vec![&acme]),
        (json!({ "labels": [team_a], "tenantId": "default", "path": "flow" }), vec![&test, &a]),
        (json!({ "labels": [team_a], "statuses": ["RUNNING"] }), vec![]),
        (json!({ "labels": [team_a], "idPrefix": none }), vec![]),
    ] {
        assert_listed(server, &filter, &expected).await;
    }

    let cancel = "mutation($filter: ExecutionFilter!) { cancelExecutions(input: { select: { filter: $filter } }) {
        results { executionId cancelled } userErrors { message } } }";
    let filter = labelled(json!([team_a, { "name": "stage", "exists": true }]));
    let cancelled = server.data(cancel, json!({ "filter": filter })).await["cancelExecutions"].take();
    let expected = json!([{ "executionId": test, "cancelled": true }, { "executionId": a, "cancelled": true }]);
    assert_eq!(cancelled["results"], expected, "{cancelled}");
    for (status, expected) in [("CANCELLED", vec![&test, &a]), ("PENDING", vec![&globex, &acme, &b])] {
        let filter = json!({ "labels": [any_team], "statuses": [status] });
        assert_eq!(ids(server, filter).await, expected.into_iter().cloned().collect::<Vec<_>>(), "{status}");
    }
}

/// The subscription's labels come before those of the document that runs, and the parent's come last.
async fn inherited_labels(server: &Server) {
    let flow = json!({ "kind": "playbook", "workload": { "order": 1 }, "metadata": {
        "labels": { "from": "document", "team": "a" }, "searchable": { "order": "{{ workload.order }}" } } });
    server.register_entry("flow", &flow).await;
    let dispatch = json!({ "playbook": "flow", "labels": {
        "from": "dispatch", "order": "none", "stage": "prod", "Not a label": "x", "list": [1] } });
    let inbox = json!({ "kind": "subscription", "metadata": { "labels": { "own": "x", "stage": "own" } },
        "spec": { "source": "nats", "mode": "pull", "dispatch": dispatch } });
    server.register_entry("inbox", &inbox).await;
    let inbox = server.register("inbox").await["subscription"]["id"].take();
    let parent =
        server.started(json!({ "path": "flow", "labels": given(&[("tenant", "p"), ("from", "parent")]) })).await;
    let dispatched = json!({ "from": "dispatch", "order": "1", "stage": "prod", "team": "a" });
    let mut started = Vec::new();
    for (input, expected) in [
        (json!({ "parentExecutionId": inbox }), dispatched.clone()),
        // The document of the subscription is read for its labels alone.
        (
            json!({ "parentExecutionId": inbox, "executionPool": "p", "dedup": { "key": "k", "windowSeconds": 60 } }),
            dispatched,
        ),
        (
            json!({ "parentExecutionId": inbox, "labels": given(&[("stage", "mine")]) }),
            json!({ "from": "dispatch", "order": "1", "stage": "mine", "team": "a" }),
        ),
        (
            json!({ "parentExecutionId": inbox, "inheritLabels": true }),
            json!({ "from": "dispatch", "order": "1", "own": "x", "stage": "prod", "team": "a" }),
        ),
        (
            json!({ "parentExecutionId": parent, "workload": { "order": 17 }, "inheritLabels": true }),
            json!({ "from": "document", "order": "17", "team": "a", "tenant": "p" }),
        ),
        (
            json!({ "parentExecutionId": parent, "inheritLabels": false }),
            json!({ "from": "document", "order": "1", "team": "a" }),
        ),
    ] {
        let mut request = json!({ "path": "flow" });
        request.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        let id = server.started(request).await;
        assert_eq!(labels(server, &id).await, expected, "{input}");
        started.push((id, expected));
    }
    for (id, expected) in started {
        let query = "mutation($id: ID!) { rerunExecution(input: { executionId: $id }) {
            execution { labels { name value } } userErrors { message } } }";
        let rerun = server.data(query, json!({ "id": id })).await["rerunExecution"].take();
        assert_eq!(map(&rerun["execution"]["labels"]), expected, "a rerun");
    }
    let query = "query($id: ID!) { subscription(by: { id: $id }) { labels { name value } spec {
        dispatch { labels { name value } } } } }";
    let shown = server.data(query, json!({ "id": inbox })).await["subscription"].take();
    assert_eq!(map(&shown["labels"]), json!({ "own": "x", "stage": "own" }));
    let of_dispatch = json!({ "from": "dispatch", "order": "none", "stage": "prod" });
    assert_eq!(map(&shown["spec"]["dispatch"]["labels"]), of_dispatch);
}

/// Subscriptions are found, followed and changed by the labels of their documents.
async fn labelled_subscriptions(server: &Server) {
    let register = async |path: &str, labels: Value| {
        server.register_entry(path, &json!({ "kind": "subscription", "metadata": { "labels": labels } })).await;
        server.register(path).await["subscription"]["id"].as_str().unwrap().to_owned()
    };
    let a = register("a", json!({ "team": "a", "stage": "prod", "count": 5 })).await;
    let b = register("b", json!({ "team": "b", "stage": "prod" })).await;
    register("none", json!({})).await;
    let list = "query($filter: SubscriptionFilter, $first: Int) { subscriptions(filter: $filter, first: $first) {
        nodes { id labels { name value } } totalCount { value } } }";
    let read = async |filter: &Value, first: usize| {
        server.data(list, json!({ "filter": filter, "first": first })).await["subscriptions"].take()
    };
    let (team_a, any_team) = (json!({ "name": "team", "equals": "a" }), json!({ "name": "team", "exists": true }));
    let prod = json!({ "name": "stage", "in": ["prod", "none"] });
    for (filter, expected) in [
        (labelled(json!([team_a])), vec![&a]),
        (labelled(json!([any_team])), vec![&b, &a]),
        (labelled(json!([prod, team_a])), vec![&a]),
        (labelled(json!([{ "name": "count", "equals": "5" }])), vec![&a]),
        (labelled(json!([{ "name": "team", "equals": "prod" }])), vec![]),
        (json!({ "labels": [team_a], "statuses": ["REGISTERED"] }), vec![&a]),
        (json!({ "labels": [any_team], "statuses": ["PAUSED"] }), vec![]),
        (json!({ "labels": [any_team], "pathPrefix": "b" }), vec![&b]),
        (json!({ "labels": [team_a], "pathPrefix": "b" }), vec![]),
    ] {
        for size in [1, 100] {
            let page = read(&filter, size).await;
            let found = texts(&page["nodes"], "id");
            let wanted: Vec<String> = expected.iter().copied().take(size).cloned().collect();
            assert_eq!(found, wanted, "{filter}, the first {size}");
            assert_eq!(page["totalCount"]["value"], expected.len(), "{filter}");
        }
    }
    let shown = read(&labelled(json!([team_a])), 1).await;
    assert_eq!(map(&shown["nodes"][0]["labels"]), json!({ "count": "5", "stage": "prod", "team": "a" }));

    let query = "subscription($filter: SubscriptionFilter) {
        subscriptionUpdates(filter: $filter) { kind subscriptionId } }";
    let mut live = server.live(query, json!({ "filter": labelled(json!([any_team])) })).await;
    let mut next = async || live.next().await.expect("the live subscription continues")["subscriptionUpdates"].take();
    let mut followed = Vec::new();
    loop {
        let item = next().await;
        if item["kind"] == "CAUGHT_UP" {
            break;
        }
        followed.push(item["subscriptionId"].as_str().unwrap().to_owned());
    }
    register("other", json!({ "stage": "prod" })).await;
    let c = register("c", json!({ "team": "c" })).await;
    while followed.last() != Some(&c) {
        followed.push(next().await["subscriptionId"].as_str().unwrap().to_owned());
    }
    followed.sort_unstable();
    followed.dedup();
    let mut expected = [a.clone(), b, c];
    expected.sort_unstable();
    assert_eq!(followed, expected);

    let activate = "mutation($filter: SubscriptionFilter!) {
        transitionSubscriptions(input: { action: ACTIVATE, select: { filter: $filter } }) {
            results { subscriptionId } userErrors { message } } }";
    let activated = server.data(activate, json!({ "filter": labelled(json!([team_a])) })).await;
    let results = &activated["transitionSubscriptions"]["results"];
    assert_eq!(*results, json!([{ "subscriptionId": a }]), "{activated}");
    let active = read(&json!({ "labels": [any_team], "statuses": ["ACTIVE"] }), 100).await;
    assert_eq!((&active["nodes"][0]["id"], &active["totalCount"]["value"]), (&json!(a), &json!(1)));
}

/// A malformed condition on labels is refused.
async fn malformed_conditions(server: &Server) {
    let one = json!({ "name": "a", "equals": "b" });
    for (conditions, field) in [
        (json!([]), vec![]),
        (json!(vec![&one; 6]), vec![]),
        (json!([{ "name": "A", "exists": true }]), vec!["0", "name"]),
        (json!([one, { "name": "a" }]), vec!["1"]),
        (json!([{ "name": "a", "equals": null }]), vec!["0"]),
        (json!([{ "name": "a", "equals": "b", "exists": true }]), vec!["0"]),
        (json!([{ "name": "a", "exists": false }]), vec!["0", "exists"]),
        (json!([{ "name": "a", "equals": "" }]), vec!["0", "equals"]),
        (json!([{ "name": "a", "in": [] }]), vec!["0", "in"]),
        (json!([{ "name": "a", "in": vec!["b"; 21] }]), vec!["0", "in"]),
        (json!([{ "name": "a", "in": ["b", "\n"] }]), vec!["0", "in"]),
    ] {
        for (filter, list) in [("ExecutionFilter", "executions"), ("SubscriptionFilter", "subscriptions")] {
            let query = format!("query($filter: {filter}) {{ {list}(filter: $filter) {{ nodes {{ id }} }} }}");
            let response = server.send(&query, json!({ "filter": labelled(conditions.clone()) })).await.unwrap();
            let error = &response["errors"][0]["extensions"];
            assert_eq!(error["code"], "INVALID_INPUT", "{response}");
            assert_eq!(error["field"], json!([&["filter", "labels"][..], &field[..]].concat()), "{response}");
        }
    }
}
