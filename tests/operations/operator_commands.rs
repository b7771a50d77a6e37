//! The commands for operators, as processes against a running server with tokens.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server, TokenFile, binary};
use serde_json::{Value, json};
use tokio::process::Command;

struct Operator {
    server: Server,
    token_file: std::path::PathBuf,
}

impl Operator {
    /// Runs a command. Returns whether it succeeded, and its output or its error.
    async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(binary());
        command.args(arguments).args(["--url", &self.server.url, "--token-file"]).arg(&self.token_file);
        let output = command.output().await.unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let (done, text) = self.run(&[arguments, &["--output", "json"]].concat()).await;
        assert!(done, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

#[tokio::test]
async fn executions_outbox_entries_and_subscriptions_are_listed_and_changed() {
    let (deployment, tokens) = (Deployment::start(2).await, TokenFile::new());
    let admin = tokens.add(&["--role", "admin", "--subject", "operator"]);
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[NO_RELAY, (name, &path)]).await;
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, format!("{admin}\n")).unwrap();
    let send = async |query: &str, variables: Value| {
        let answer = server.send_as(&admin, query, variables).await;
        assert!(answer.get("errors").is_none(), "{answer}");
        answer["data"].clone()
    };
    let register = "mutation($path: String!, $content: String!) { registerCatalogEntry(input: {
        path: $path, content: $content }) { userErrors { message } } }";
    send(register, json!({ "path": "orders/process", "content": "kind: playbook" })).await;
    send(register, json!({ "path": "orders/inbox", "content": "kind: subscription" })).await;
    let execute =
        "mutation { execute(input: {entry: {path: \"orders/process\"}, dedup: {key: \"order-17\"}}) { executionId } }";
    let execution = send(execute, Value::Null).await["execute"]["executionId"].as_str().unwrap().to_owned();
    let subscribe = "mutation { registerSubscription(input: {path: \"orders/inbox\"}) { subscription { id } } }";
    let subscription = send(subscribe, Value::Null).await;
    let subscription = subscription["registerSubscription"]["subscription"]["id"].as_str().unwrap().to_owned();
    let mut operator = Operator { server, token_file };

    let (done, text) = operator.run(&["executions", "list", "--status", "PENDING"]).await;
    assert!(done && text.starts_with("ID ") && text.contains(&execution), "{text}");
    let found = operator.json(&["executions", "list", "--dedup-key", "order-17"]).await;
    assert_eq!(found["nodes"][0]["id"], execution, "{found}");
    assert_eq!(operator.json(&["executions", "show", &execution]).await["path"], "orders/process");
    let entries = operator.json(&["outbox", "list", "--status", "PENDING"]).await;
    assert_eq!(entries["nodes"][0]["executionId"], execution, "{entries}");
    assert_eq!(operator.json(&["outbox", "retry", "--all", "--dry-run"]).await["matched"], 0);
    let cancelled = operator.json(&["executions", "cancel", &execution, "--reason", "a test"]).await;
    assert_eq!(cancelled["execution"]["status"], "CANCELLED", "{cancelled}");
    for (action, status) in [
        ("activate", "ACTIVE"),
        ("pause", "PAUSED"),
        ("resume", "ACTIVE"),
        ("drain", "DRAINING"),
        ("deactivate", "DEACTIVATED"),
    ] {
        let changed = operator.json(&["subscriptions", action, &subscription]).await;
        assert_eq!(changed["subscription"]["status"], status, "{changed}");
    }
    assert!(operator.run(&["subscriptions", "list"]).await.1.contains("orders/inbox"));

    for (arguments, message) in [
        (vec!["executions", "show", "17"], "there is no such object"),
        (vec!["executions", "show", "x"], "id"),
        (vec!["executions", "cancel", "17"], "there is no execution 17"),
        (vec!["executions", "list", "--status", "DONE"], "ExecutionStatus"),
        (vec!["outbox", "discard"], "<IDS>"),
        (vec!["subscriptions", "pause", &subscription], "DEACTIVATED"),
    ] {
        let (done, text) = operator.run(&arguments).await;
        assert!(!done && text.contains(message), "{arguments:?}: {text}");
    }
    std::fs::write(&operator.token_file, "another token").unwrap();
    let (done, text) = operator.run(&["executions", "list"]).await;
    assert!(!done && text.contains("token"), "{text}");
    operator.server.url.push_str("/nothing");
    let (done, text) = operator.run(&["executions", "list"]).await;
    assert!(!done && text.contains("is not JSON; check the URL"), "{text}");
}
