//! A guard that a request writes without a value is refused: a guard is never turned off by omission.

use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};

/// The ways to write a guard without a value: the declared variable, its use, and the values of the variables.
fn without_a_value(ty: &str) -> [(String, &'static str, Value); 4] {
    let declared = format!("($v: {ty})");
    [
        (declared.clone(), "$v", json!({})),
        (declared, "$v", json!({ "v": null })),
        (format!("($v: {ty} = null)"), "$v", json!({})),
        (String::new(), "null", json!({})),
    ]
}

/// Sends a mutation named `it` and returns the user error of its payload, with code and field.
async fn user_error(server: &Server, query: &str, variables: Value) -> Value {
    let answer = server.send(query, variables.clone()).await.unwrap();
    let error = &answer["data"]["it"]["userErrors"][0];
    assert!(error.is_object(), "{query} {variables}: {answer}");
    error.clone()
}

async fn check_refused(server: &Server, query: &str, variables: Value, field: &str) {
    let error = user_error(server, query, variables.clone()).await;
    let field: Vec<&str> = field.split('.').collect();
    assert_eq!(error, json!({ "code": "INVALID_INPUT", "field": field }), "{query} {variables}");
}

async fn deployment_with_entries() -> (Deployment, Server) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    (deployment, server)
}

#[tokio::test]
async fn a_guard_without_a_value_is_refused_and_changes_nothing() {
    let (deployment, server) = deployment_with_entries().await;
    expected_versions(&deployment, &server).await;
    dedup_of_requests(&deployment, &server).await;
    strictness_of_batches(&deployment, &server).await;
    dedup_in_batches(&server).await;
}

/// A transition whose expected version has no value is refused.
async fn expected_versions(deployment: &Deployment, server: &Server) {
    let registered = server.register("inbox").await["subscription"].take();
    let id = registered["id"].as_str().unwrap();
    let before = deployment.table_digests().await;
    for action in ["activate", "pause", "resume", "drain", "deactivate"] {
        for (declared, guard, variables) in without_a_value("ID") {
            let query = format!(
                "mutation {declared} {{ it: {action}Subscription(input: {{ subscriptionId: \"{id}\",
                    expectedLastEventId: {guard} }}) {{ userErrors {{ code field }} }} }}"
            );
            check_refused(server, &query, variables, "expectedLastEventId").await;
        }
        let query = format!(
            "mutation($input: SubscriptionTransitionInput!) {{ it: {action}Subscription(input: $input) {{
                userErrors {{ code field }} }} }}"
        );
        let null = json!({ "input": { "subscriptionId": id, "expectedLastEventId": null } });
        check_refused(server, &query, null, "expectedLastEventId").await;
        let of_another_log = json!({ "input": { "subscriptionId": id, "expectedLastEventId": "event-5-7" } });
        check_refused(server, &query, of_another_log, "expectedLastEventId").await;
    }
    assert_eq!(deployment.table_digests().await, before);
    let version = format!("event-{id}-{}", registered["lastEventId"].as_str().unwrap());
    let activated = server.transition("activate", id, Some(&version)).await;
    assert_eq!(activated["subscription"]["status"], "ACTIVE", "{activated}");
    assert_eq!(server.transition("pause", id, None).await["subscription"]["status"], "PAUSED");
}

/// A request whose dedup has no value starts nothing.
async fn dedup_of_requests(deployment: &Deployment, server: &Server) {
    let execution = server.execute(json!({ "path": "flow" })).await["execution"]["id"].take();
    let before = deployment.table_digests().await;
    let entry = "entry: { path: \"flow\" }";
    let (rerun, reruns) = (format!("executionId: {execution}"), format!("select: {{ ids: [{execution}] }}"));
    for (mutation, target) in
        [("execute", entry), ("rerunExecution", rerun.as_str()), ("rerunExecutions", reruns.as_str())]
    {
        for (declared, guard, variables) in without_a_value("DedupInput") {
            let query = format!(
                "mutation {declared} {{ it: {mutation}(input: {{ {target} dedup: {guard} }}) {{ userErrors {{ code field }} }} }}"
            );
            check_refused(server, &query, variables, "dedup").await;
        }
        let query = format!(
            "mutation($v: Boolean) {{ it: {mutation}(input: {{ {target} dedup: {{ key: \"k\", rejectDifferent: $v }} }})
                {{ userErrors {{ code field }} }} }}"
        );
        check_refused(server, &query, json!({}), "dedup.rejectDifferent").await;
    }
    let query = "mutation($input: ExecuteInput!) { it: execute(input: $input) { userErrors { code field } } }";
    let null = json!({ "input": { "entry": { "path": "flow" }, "dedup": null } });
    check_refused(server, query, null, "dedup").await;
    let query = "mutation($v: Boolean) { it: registerCatalogEntry(input: { path: \"flow\",
        content: \"{kind: playbook}\", onlyIfChanged: $v }) { userErrors { code field } } }";
    check_refused(server, query, json!({}), "onlyIfChanged").await;
    assert_eq!(deployment.table_digests().await, before);
}

/// A batch of events whose strictness has no value stores nothing.
async fn strictness_of_batches(deployment: &Deployment, server: &Server) {
    let before = deployment.table_digests().await;
    for (mutation, event) in [
        ("projectEvents", "executionId: 7, eventId: 1, type: \"call.done\""),
        ("projectEventDocuments", "execution_id: 7, event_id: 1, event_type: \"call.done\""),
    ] {
        for (declared, guard, variables) in without_a_value("Boolean") {
            let query = format!(
                "mutation {declared} {{ it: {mutation}(input: {{ events: [{{ {event} }}], strict: {guard} }}) {{
                    userErrors {{ code field }} }} }}"
            );
            check_refused(server, &query, variables, "strict").await;
        }
    }
    assert_eq!(deployment.table_digests().await, before);
}

/// A request of a batch whose dedup has no value is refused alone.
async fn dedup_in_batches(server: &Server) {
    let entry = "entry: { path: \"flow\" }";
    for requests in [
        format!("{{ {entry} }}, {{ {entry} dedup: $v }}"),
        format!("{{ {entry} }}, {{ {entry} dedup: null }}"),
        format!("{{ {entry} }}, {{ {entry} dedup: {{ key: \"k\", rejectDifferent: $flag }} }}"),
    ] {
        let query = format!(
            "mutation($v: DedupInput, $flag: Boolean) {{ executeBatch(input: {{ requests: [{requests}] }}) {{
                results {{ outcome userErrors {{ code field }} }} userErrors {{ code }} }} other: executeBatch(input: {{
                requests: [{{ {entry} dedup: $v }}, {{ {entry} dedup: {{ key: \"k\", rejectDifferent: $flag }} }}] }})
                {{ userErrors {{ code }} }} }}"
        );
        let payload = server.data(&query, json!({})).await["executeBatch"].take();
        assert_eq!(payload["results"][0], json!({ "outcome": "STARTED", "userErrors": [] }), "{payload}");
        let refused = &payload["results"][1];
        assert_eq!((&refused["outcome"], &refused["userErrors"][0]["code"]), (&Value::Null, &json!("INVALID_INPUT")));
        let field = refused["userErrors"][0]["field"].as_array().unwrap();
        assert_eq!(field[..3], [json!("requests"), json!("1"), json!("dedup")], "{payload}");
    }
    let alone = format!(
        "mutation($v: DedupInput) {{ executeBatch(input: {{ requests: {{ {entry} dedup: $v }} }}) {{
            results {{ userErrors {{ field }} }} }} }}"
    );
    let payload = server.data(&alone, json!({})).await["executeBatch"].take();
    assert_eq!(payload["results"][0]["userErrors"][0]["field"], json!(["requests", "0", "dedup"]), "{payload}");
}
