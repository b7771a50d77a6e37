//! Events, executions and catalog entries name the callers that caused them, a worker can only change the subscriptions that
//! it registered, and each mutation writes a line to the audit log.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, QUIET, Server, TokenFile, error_code, eventually, http_client};
use serde_json::{Value, json};

/// Tokens by subject.
struct Callers {
    file: TokenFile,
    ann: String,
    bob: String,
    /// Token of the operator `olga`.
    operator: String,
    admin: String,
}

impl Callers {
    fn new() -> Self {
        let file = TokenFile::new();
        let add = |role, subject| file.add(&["--role", role, "--subject", subject]);
        let (ann, bob) = (add("worker", "ann"), add("worker", "bob"));
        let (operator, admin) = (add("operator", "olga"), add("admin", "root"));
        Self { file, ann, bob, operator, admin }
    }

    async fn replica(&self, deployment: &Deployment, settings: &[(&str, &str)]) -> Server {
        let (name, path) = self.file.setting();
        deployment.replica_with(&[&[(name, path.as_str())], settings].concat()).await
    }

    /// Registers the catalog entries `inbox` and `flow`.
    async fn register_entries(&self, server: &Server) {
        for (path, kind) in [("inbox", "subscription"), ("flow", "playbook")] {
            let query = "mutation($path: String!, $content: String!) {
                registerCatalogEntry(input: { path: $path, content: $content }) { userErrors { message } } }";
            let variables = json!({ "path": path, "content": json!({ "kind": kind }).to_string() });
            let answer = server.send_as(&self.admin, query, variables).await;
            assert_eq!(answer["data"]["registerCatalogEntry"]["userErrors"], json!([]), "{answer}");
        }
    }

    /// Returns type and actor of each event of a log.
    async fn log(&self, server: &Server, id: &str) -> Vec<(String, Value)> {
        let query = "query($id: ID!) { events(executionId: $id) { nodes { type meta } } }";
        let answer = server.send_as(&self.admin, query, json!({ "id": id })).await;
        let nodes = answer["data"]["events"]["nodes"].as_array().unwrap_or_else(|| panic!("{answer}"));
        nodes.iter().map(|node| (node["type"].as_str().unwrap().to_owned(), node["meta"]["actor"].clone())).collect()
    }
}

async fn register(server: &Server, token: &str) -> Value {
    let query = "mutation { registerSubscription(input: { path: \"inbox\" }) {
        subscription { id status } userErrors { message } } }";
    server.send_as(token, query, Value::Null).await
}

fn registered(answer: &Value) -> String {
    let id = answer["data"]["registerSubscription"]["subscription"]["id"].as_str();
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn transition(server: &Server, token: &str, action: &str, id: &str) -> Value {
    let query = format!(
        "mutation($id: ID!) {{ {action}Subscription(input: {{ subscriptionId: $id }}) {{
            subscription {{ status }} }} }}"
    );
    server.send_as(token, &query, json!({ "id": id })).await
}

async fn execute(server: &Server, token: &str, parent: &str) -> String {
    let query = "mutation($parent: ID!) { execute(input: { entry: { path: \"flow\" }, parentExecutionId: $parent, dedup: { key: \"k\" } }) {
        execution { id } userErrors { message } } }";
    let answer = server.send_as(token, query, json!({ "parent": parent })).await;
    answer["data"]["execute"]["execution"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn what_a_caller_does_names_it_and_a_worker_changes_only_its_own_subscriptions() {
    let (deployment, callers) = (Deployment::start(2).await, Callers::new());
    let (server, open) = tokio::join!(callers.replica(&deployment, &[]), deployment.replica());
    callers.register_entries(&server).await;
    // Each part leaves no live subscription that a worker registered.
    executions_name_who_started_and_cancelled_them_and_one_list_of_events_names_who_acted_and_why(
        &callers, &server, &open,
    )
    .await;
    events_contain_the_caller_that_caused_them(&callers, &server, &open).await;
    a_worker_can_change_only_the_subscriptions_that_it_registered(&callers, &server, &open).await;
    catalog_entries_name_who_registered_and_retired_them(&deployment, &callers, &server, &open).await;
}

/// An event names its caller, and ignores the name that an event of a worker contains.
async fn events_contain_the_caller_that_caused_them(callers: &Callers, server: &Server, open: &Server) {
    let inbox = registered(&register(server, &callers.ann).await);
    transition(server, &callers.ann, "activate", &inbox).await;
    transition(server, &callers.admin, "pause", &inbox).await;
    let id = execute(server, &callers.ann, &inbox).await;
    assert_eq!(
        execute(server, &callers.bob, &inbox).await,
        id,
        "a request of another caller with the same key is a duplicate"
    );

    let project = "mutation($events: [EventInput!]!) { projectEvents(input: { events: $events }) {
        projected duplicates rejected { userErrors { message } } } }";
    let first: i64 = id.parse().unwrap();
    let events = json!([
        { "eventId": (first + 1000).to_string(), "executionId": id, "type": "step.enter", "nodeName": "one" },
        { "eventId": (first + 1001).to_string(), "executionId": id, "type": "step.exit", "nodeName": "one",
          "meta": { "command_id": "c", "actor": "root" }, "extra": { "a": 1 } },
    ]);
    let sent = server.send_as(&callers.bob, project, json!({ "events": events })).await;
    assert_eq!(sent["data"]["projectEvents"], json!({ "projected": 2, "duplicates": 0, "rejected": [] }), "{sent}");
    let again = server.send_as(&callers.ann, project, json!({ "events": events })).await;
    assert_eq!(again["data"]["projectEvents"], json!({ "projected": 0, "duplicates": 2, "rejected": [] }));
    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { userErrors { message } } }";
    server.send_as(&callers.admin, cancel, json!({ "id": id })).await;

    let named = |log: &[(&str, &str)]| -> Vec<(String, Value)> {
        log.iter().map(|(event, actor)| ((*event).to_owned(), json!(actor))).collect()
    };
    // Audit events are written in the background.
    eventually("the duplicate is noted", async || Some(callers.log(server, &inbox).await).filter(|log| log.len() == 4))
        .await;
    let expected = [
        ("subscription.registered", "ann"),
        ("subscription.activated", "ann"),
        ("subscription.paused", "root"),
        ("subscription.message.deduplicated", "bob"),
    ];
    assert_eq!(callers.log(server, &inbox).await, named(&expected));
    let expected =
        [("playbook_started", "ann"), ("step.enter", "bob"), ("step.exit", "bob"), ("playbook.cancelled", "root")];
    assert_eq!(callers.log(server, &id).await, named(&expected));
    let query = "query($id: ID!, $event: ID!) { event(executionId: $id, eventId: $event) { meta } }";
    let variables = json!({ "id": id, "event": (first + 1001).to_string() });
    let kept = server.send_as(&callers.admin, query, variables).await["data"]["event"]["meta"].take();
    assert_eq!(kept, json!({ "command_id": "c", "actor": "bob", "extra": { "a": 1, "sent_actor": "root" } }));

    let rerun = "mutation($id: ID!) { rerunExecutions(input: { select: { ids: [$id] } }) { results { executionId } } }";
    let again = server.send_as(&callers.bob, rerun, json!({ "id": id })).await;
    let again = again["data"]["rerunExecutions"]["results"][0]["executionId"].as_str();
    let log = callers.log(server, again.unwrap()).await;
    assert_eq!(log, named(&[("playbook_started", "bob")]));

    // Without authentication, events have no actor.
    let id = open.started(json!({ "path": "flow" })).await;
    assert_eq!(callers.log(server, &id).await, [("playbook_started".to_owned(), Value::Null)]);
    transition(server, &callers.admin, "deactivate", &inbox).await;
}

/// The callers of a start, a cancellation and a transition are shown with their reasons.
async fn executions_name_who_started_and_cancelled_them_and_one_list_of_events_names_who_acted_and_why(
    callers: &Callers,
    server: &Server,
    open: &Server,
) {
    let inbox = registered(&register(server, &callers.ann).await);
    transition(server, &callers.ann, "activate", &inbox).await;
    let cancelled = execute(server, &callers.ann, &inbox).await;
    let rerun = "mutation($id: ID!) { rerunExecution(input: { executionId: $id }) { executionId } }";
    let rerun = server.send_as(&callers.bob, rerun, json!({ "id": cancelled })).await;
    let completed = rerun["data"]["rerunExecution"]["executionId"].as_str().unwrap_or_else(|| panic!("{rerun}"));
    let end = "mutation($event: EventInput!) { projectEvents(input: { events: [$event] }) { projected } }";
    let event_id = (completed.parse::<i64>().unwrap() + 1000).to_string();
    let event = json!({ "eventId": event_id, "executionId": completed, "type": "playbook.completed" });
    let ended = server.send_as(&callers.ann, end, json!({ "event": event })).await;
    assert_eq!(ended["data"]["projectEvents"]["projected"], 1, "{ended}");
    let cancel = "mutation($id: ID!) {
        cancelExecution(input: { executionId: $id, reason: \"wrong price\" }) { cancelled } }";
    server.send_as(&callers.admin, cancel, json!({ "id": cancelled })).await;
    let deactivate = "mutation($id: ID!) {
        deactivateSubscription(input: { subscriptionId: $id, reason: \"the source moves\" }) { userErrors { code } } }";
    server.send_as(&callers.admin, deactivate, json!({ "id": inbox })).await;
    let unnamed = open.started(json!({ "path": "flow" })).await;
    open.data(cancel, json!({ "id": unnamed })).await;

    let cases = [
        (cancelled.as_str(), json!({ "startedBy": "ann", "cancelledBy": "root", "error": "wrong price" })),
        // The caller that ended it has not cancelled it.
        (completed, json!({ "startedBy": "bob", "cancelledBy": null, "error": null })),
        (unnamed.as_str(), json!({ "startedBy": null, "cancelledBy": null, "error": "wrong price" })),
    ];
    let query = "query($id: ID!) {
        execution(id: $id) { startedBy cancelledBy error }
        executions(filter: { path: \"flow\" }) { nodes { id startedBy cancelledBy error } } }";
    for (id, expected) in cases {
        let mut answer = server.send_as(&callers.admin, query, json!({ "id": id })).await;
        assert_eq!(answer["data"]["execution"], expected, "{answer}");
        let nodes = answer["data"]["executions"]["nodes"].as_array_mut().unwrap();
        let listed = nodes.iter_mut().find(|node| node["id"] == id).unwrap();
        assert_eq!(listed.as_object_mut().unwrap().remove("id"), Some(json!(id)));
        assert_eq!(*listed, expected);
    }

    let query = "query($nodes: [String!]) { events(filter: {
        types: [\"playbook.cancelled\", \"subscription.deactivated\"], nodeNames: $nodes }) {
        nodes { executionId meta context } } }";
    let actions = async |nodes: Value| {
        let answer = server.send_as(&callers.admin, query, json!({ "nodes": nodes })).await;
        let nodes = answer["data"]["events"]["nodes"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        let action = |node: Value| json!([node["executionId"], node["meta"]["actor"], node["context"]["reason"]]);
        nodes.into_iter().map(action).collect::<Vec<Value>>()
    };
    let deactivation = json!([inbox, "root", "the source moves"]);
    let newest_first =
        [json!([unnamed, null, "wrong price"]), deactivation.clone(), json!([cancelled, "root", "wrong price"])];
    assert_eq!(actions(Value::Null).await, newest_first);
    assert_eq!(actions(json!(["inbox"])).await, [deactivation]);
}

/// Sends a mutation as a caller, or without one, and returns its payload, which is named `it`.
async fn changed(server: &Server, token: Option<&str>, mutation: &str) -> Value {
    let query = format!("mutation {{ it: {mutation} }}");
    let mut answer = match token {
        Some(token) => server.send_as(token, &query, Value::Null).await,
        None => server.send(&query, Value::Null).await.unwrap(),
    };
    assert_eq!(answer.get("errors"), None, "{answer}");
    answer["data"]["it"].take()
}

/// An entry has the callers of its registration and of its retirement.
async fn catalog_entries_name_who_registered_and_retired_them(
    deployment: &Deployment,
    callers: &Callers,
    server: &Server,
    open: &Server,
) {
    let register = "registerCatalogEntry(input: { path: \"open\", content: \"kind: playbook\" }) { outcome }";
    changed(open, None, register).await;
    let read = async |path: &str| {
        let query = "query($path: String!) { catalogEntry(by: { pathVersion: { path: $path, version: 1 } }) {
            catalogId registeredBy archivedBy
            versions(includeArchived: true) { nodes { registeredBy archivedBy } } } }";
        let entry = open.data(query, json!({ "path": path })).await["catalogEntry"].take();
        let callers = json!({ "registeredBy": entry["registeredBy"], "archivedBy": entry["archivedBy"] });
        assert_eq!(entry["versions"]["nodes"], json!([callers]), "{entry}");
        (entry["catalogId"].as_str().unwrap().to_owned(), callers)
    };
    let (flow, first) = read("flow").await;
    assert_eq!(first, json!({ "registeredBy": "root", "archivedBy": null }));
    let (of_none, unnamed) = read("open").await;
    assert_eq!(unnamed, json!({ "registeredBy": null, "archivedBy": null }));

    let (root, olga) = (Some(callers.admin.as_str()), Some(callers.operator.as_str()));
    for (path, token, mutation, archived_by) in [
        ("flow", root, "archive", json!("root")),
        // It is retired, so nothing changes.
        ("flow", olga, "archive", json!("root")),
        ("flow", olga, "restore", Value::Null),
        ("flow", None, "archive", Value::Null),
        ("flow", root, "restore", Value::Null),
        ("flow", olga, "archive", json!("olga")),
        ("open", olga, "archive", json!("olga")),
    ] {
        let (id, on) = (if path == "flow" { &flow } else { &of_none }, if token.is_some() { server } else { open });
        changed(
            on,
            token,
            &format!("{mutation}CatalogEntry(input: {{ catalogId: \"{id}\" }}) {{ userErrors {{ code }} }}"),
        )
        .await;
        assert_eq!(read(path).await.1["archivedBy"], archived_by, "{mutation} {path}");
    }
    // NoETL's server restores the entries and retires them again.
    for archived_at in ["NULL", "now()"] {
        let update = format!("UPDATE noetl.catalog SET archived_at = {archived_at}");
        run(&mut deployment.cluster().await, &update).await;
        assert_eq!(read("flow").await.1, first, "{archived_at}");
    }
}

#[tokio::test]
async fn retries_and_discards_of_outbox_entries_are_in_the_logs_of_their_executions_and_change_no_state() {
    let (deployment, callers) = (Deployment::start(2).await, Callers::new());
    let vera = callers.file.add(&["--role", "viewer", "--subject", "vera"]);
    let (server, open) = tokio::join!(callers.replica(&deployment, &QUIET), deployment.replica_with(&QUIET));
    callers.register_entries(&server).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let started = open.execute(json!({ "path": "flow" })).await;
        ids.push(started["executionId"].as_str().unwrap().to_owned());
    }
    // One has ended, and the log of another has an id of another origin.
    let far = 2 * ids[1].parse::<i64>().unwrap();
    let event = |id: &str, event_id: i64, kind: &str| json!({ "eventId": event_id.to_string(), "executionId": id, "type": kind });
    let ended = event(&ids[0], ids[0].parse::<i64>().unwrap() + 1000, "playbook.completed");
    let sent = open.project(&[ended, event(&ids[1], far, "call.done")]).await;
    assert_eq!(sent["projected"], 2, "{sent}");
    // An entry of no execution.
    deployment.fill_outbox(0, &deployment.ids_on(0, 1, 1), 1).await;
    let bury = async || {
        let dead = "UPDATE noetl.outbox SET status = 'FAILED', attempts = 20, available_at = 'infinity'";
        tokio::join!(deployment.on_shard(0, dead), deployment.on_shard(1, dead));
    };
    let states = async || {
        let advance = "mutation($ids: [ID!]!) { advanceProjections(input: { executionIds: $ids }) {
            results { userErrors { code } } } }";
        open.data(advance, json!({ "ids": ids })).await;
        let mut states = Vec::new();
        for shard in 0..2 {
            let rows = "SELECT execution_id, status::text, last_event_type::text, last_node_name::text, end_time::text
                        FROM noetl.execution ORDER BY execution_id";
            let rows = sqlx::query_as::<_, (i64, String, Option<String>, Option<String>, Option<String>)>(rows);
            states.extend(rows.fetch_all(&mut deployment.shard(shard).await).await.unwrap());
        }
        states
    };
    bury().await;
    let before = states().await;
    assert_eq!(before.len(), 4);
    let first = "query($filter: OutboxFilter) { outbox { entries(filter: $filter) { nodes { entryId } } } }";
    let first = open.data(first, json!({ "filter": { "executionId": ids[0] } })).await;
    let first = first["outbox"]["entries"]["nodes"][0]["entryId"].as_str().unwrap().to_owned();

    let query = "mutation { retryOutbox(input: { select: { all: true } }) { retried } }";
    assert_eq!(error_code(&server.send_as(&vera, query, Value::Null).await), "FORBIDDEN");
    let one = format!("select: {{ ids: [\"{first}\"] }}, reason: \"the broker is back\"");
    let fourth = format!("select: {{ filter: {{ executionId: \"{}\" }} }}", ids[3]);
    let rest = "select: { filter: { statuses: [DEAD] } }".to_owned();
    let (root, olga) = (Some(callers.admin.as_str()), Some(callers.operator.as_str()));
    for (mutation, count) in [("retryOutbox", "retried"), ("discardOutbox", "discarded")] {
        bury().await;
        for (token, input, expected) in [
            (root, &one, 1),
            // Nothing changes.
            (root, &format!("{rest}, dryRun: true"), 0),
            (None, &fourth, 1),
            (olga, &rest, 3),
            (olga, &rest, 0),
        ] {
            let on = if token.is_some() { &server } else { &open };
            let done = changed(on, token, &format!("{mutation}(input: {{ {input} }}) {{ {count} }}")).await;
            assert_eq!(done[count], expected, "{mutation} {input}");
        }
    }
    let actors = [Value::from("root"), "olga".into(), "olga".into(), Value::Null];
    for (place, (id, actor)) in ids.iter().zip(actors).enumerate() {
        let log = callers.log(&server, id).await;
        let earlier = if place < 2 { 2 } else { 1 };
        let [retried, discarded] = ["outbox.retried", "outbox.discarded"].map(|kind| (kind.to_owned(), actor.clone()));
        assert_eq!(log[earlier..], [retried, discarded], "{place}: {log:?}");
    }
    let recorded = "SELECT count(*) FROM noetl.event WHERE event_type LIKE 'outbox.%'";
    assert_eq!(deployment.sum_over_shards(recorded).await, 8);
    let query = "query($id: ID!) { events(executionId: $id) { nodes { nodeName context } } }";
    let log = open.data(query, json!({ "id": ids[0] })).await["events"]["nodes"].take();
    let context = json!({ "outbox_id": first, "reason": "the broker is back" });
    assert_eq!(log[2], json!({ "nodeName": "flow", "context": context }), "{log}");
    assert_eq!(states().await, before);
}

/// A worker is refused every transition of a subscription of another caller.
async fn a_worker_can_change_only_the_subscriptions_that_it_registered(
    callers: &Callers,
    server: &Server,
    open: &Server,
) {
    let inbox = registered(&register(server, &callers.ann).await);
    assert_eq!(
        registered(&register(server, &callers.bob).await),
        inbox,
        "registering again returns the same subscription"
    );
    let moves = ["activate", "pause", "resume", "drain", "deactivate", "activate"];
    for action in moves {
        let refused = transition(server, &callers.bob, action, &inbox).await;
        assert_eq!(error_code(&refused), "FORBIDDEN", "{action}: {refused}");
        let moved = transition(server, &callers.ann, action, &inbox).await;
        assert_eq!(moved.get("errors"), None, "{action}: {moved}");
    }
    let log = callers.log(server, &inbox).await;
    assert_eq!(log.len(), 1 + moves.len(), "the log differs from the transitions that were carried out: {log:?}");
    assert!(log.iter().all(|(_, actor)| actor == "ann"), "{log:?}");
    let moved = transition(server, &callers.admin, "deactivate", &inbox).await;
    assert_eq!(moved["data"]["deactivateSubscription"]["subscription"]["status"], "DEACTIVATED");

    // A subscription that an unauthenticated caller registered belongs to no worker.
    let of_nobody = open.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    assert_ne!(of_nobody, inbox);
    assert_eq!(error_code(&transition(server, &callers.ann, "activate", &of_nobody).await), "FORBIDDEN");
}

#[tokio::test]
async fn a_registration_finished_by_another_caller_keeps_its_first_caller() {
    let (deployment, callers) = (Deployment::start(2).await, Callers::new());
    let server = callers.replica(&deployment, &[]).await;
    callers.register_entries(&server).await;
    assert!(server.stop().await.success());
    let mut doomed = callers.replica(&deployment, &[("NOETL_FAULT_POINT", "register.reserved")]).await;
    let (client, body) = (
        http_client(),
        json!({ "query": "mutation {
        registerSubscription(input: { path: \"inbox\" }) { subscription { id } } }" }),
    );
    let request = client.post(format!("{}/graphql", doomed.url)).bearer_auth(&callers.ann).json(&body);
    assert!(request.send().await.is_err(), "the replica dies during the request");
    assert!(!doomed.ended().await.success());

    let server = callers.replica(&deployment, &[]).await;
    let inbox = registered(&register(&server, &callers.bob).await);
    assert_eq!(callers.log(&server, &inbox).await, [("subscription.registered".to_owned(), json!("ann"))]);
    assert_eq!(error_code(&transition(&server, &callers.bob, "activate", &inbox).await), "FORBIDDEN");
    assert_eq!(transition(&server, &callers.ann, "activate", &inbox).await.get("errors"), None);
}

#[tokio::test]
async fn each_mutation_writes_a_line_to_the_audit_log() {
    let (deployment, callers) = (Deployment::start(0).await, Callers::new());
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    let (name, path) = callers.file.setting();
    command.env(name, path).env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    callers.register_entries(&server).await;
    let inbox = registered(&register(&server, &callers.ann).await);
    transition(&server, &callers.bob, "activate", &inbox).await;
    transition(&server, &callers.ann, "resume", &inbox).await;
    let id = execute(&server, &callers.ann, &inbox).await;
    let retry = "mutation { retryOutbox(input: { select: { filter: { statuses: [FAILED] } } }) { matched } }";
    server.send_as(&callers.ann, retry, Value::Null).await;
    server.send_as(&callers.admin, retry, Value::Null).await;
    let archive = "mutation { archiveCatalogEntry(input: { catalogId: \"17\" }) { userErrors { code } } }";
    server.send_as(&callers.admin, archive, Value::Null).await;

    let expected = [
        ("root", "registerCatalogEntry", "inbox", "DONE"),
        ("root", "registerCatalogEntry", "flow", "DONE"),
        ("ann", "registerSubscription", &inbox, "DONE"),
        ("bob", "activateSubscription", &inbox, "FORBIDDEN"),
        ("ann", "resumeSubscription", &inbox, "INVALID_TRANSITION"),
        ("ann", "execute", &id, "DONE"),
        ("ann", "retryOutbox", "", "FORBIDDEN"),
        ("root", "retryOutbox", "", "DONE"),
        ("root", "archiveCatalogEntry", "17", "NOT_FOUND"),
    ];
    let text = eventually("the audit lines are written", async || {
        let text = std::fs::read_to_string(log.path()).unwrap();
        (audit(&text).len() >= expected.len()).then_some(text)
    })
    .await;
    let lines = audit(&text);
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, (subject, operation, id, outcome)) in lines.iter().zip(expected) {
        let seen = [&line["subject"], &line["operation"], &line["outcome"]];
        assert_eq!(seen, [subject, operation, outcome], "{line}");
        assert!(line["ids"].as_str().unwrap_or_default().contains(id), "{line}");
    }
    for token in [&callers.ann, &callers.bob, &callers.admin] {
        assert!(!text.contains(token), "a token is in the log");
    }
}

/// Returns the fields of the audit log's lines.
fn audit(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "audit").map(|line| line["fields"].clone()).collect()
}
