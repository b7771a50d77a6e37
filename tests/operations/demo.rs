//! The demo processes every message from its source to the end of its execution, and every step is visible.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use noetl_testkit::{Deployment, Server, TokenFile, WAIT_TIMEOUT, binary, eventually};
use serde_json::{Value, json};
use tokio::process::Command;

const PLAYBOOK: &str = include_str!("../../examples/catalog/orders-process.yaml");
const INBOX: &str = include_str!("../../examples/catalog/orders-inbox.yaml");

const RUNS: &str = "{ executions(first: 100) { nodes {
    status endedAt error context workload labels { name value }
    steps { nodes { name status attempt error completedAt iterations { expected dispatched completed } } }
} } }";

async fn register(server: &Server, path: &str, content: &str) {
    let query = "mutation($path: String!, $content: String!) {
        registerCatalogEntry(input: {path: $path, content: $content}) { userErrors { message } } }";
    let data = server.data(query, json!({ "path": path, "content": content })).await;
    assert_eq!(data["registerCatalogEntry"]["userErrors"], json!([]));
}

/// Returns the command of the demo with a file of messages.
fn command(server: &Server, pace: &str, file: &Path) -> Command {
    let mut command = Command::new(binary());
    command.args(["demo", "--pace", pace, "--url", &server.url, "--source"]).arg(file);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs the demo with a file of messages until it ends.
async fn demo(server: &Server, file: &Path) {
    let output = tokio::time::timeout(WAIT_TIMEOUT, command(server, "1", file).output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn step<'a>(run: &'a Value, name: &str) -> &'a Value {
    run["steps"]["nodes"].as_array().unwrap().iter().find(|step| step["name"] == name).unwrap()
}

/// Returns the number of queries and mutations that the server has carried out.
async fn operations(server: &Server) -> f64 {
    let series = |kind| format!("graphql_operations_total{{transport=\"post\",operation=\"{kind}\",outcome=\"ok\"}}");
    server.metric(&series("query")).await + server.metric(&series("mutation")).await
}

/// Number of messages of the first demo on two shards.
const MESSAGES: usize = 15;

#[tokio::test]
async fn the_demo_completes_every_message_also_after_a_kill() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    register(&server, "samples/orders/process", PLAYBOOK).await;
    register(&server, "samples/orders/inbox", INBOX).await;
    Box::pin(the_demo_completes_every_message_in_few_requests_and_shows_every_step(&deployment, &server)).await;
    Box::pin(a_restarted_demo_completes_the_executions_of_a_killed_one(&server)).await;
}

/// The demo completes every message in few requests, and shows every step. In every fourth execution of the demo, steps
/// are retried, and every fifteenth fails. The worker's ids are those that the server reserved, so `check` accepts them.
async fn the_demo_completes_every_message_in_few_requests_and_shows_every_step(
    deployment: &Deployment,
    server: &Server,
) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    let order = |n: usize| json!({ "id": format!("o{n}"), "items": vec!["x"; n % 3] }).to_string();
    std::fs::write(&file, (0..MESSAGES).map(order).collect::<Vec<_>>().join("\n")).unwrap();
    let (before, began) = (operations(server).await, Instant::now());
    demo(server, &file).await;
    let sent = operations(server).await - before;
    // Register, activate, deactivate, and the status of the subscription twice a second.
    let of_runtime = 4.0 + began.elapsed().as_secs_f64() / 0.5;
    // A message without items has 5 requests, and one more for each item and each attempt that is repeated.
    let of_messages = f64::from(u32::try_from(MESSAGES).unwrap()) * 7.0;
    assert!(sent <= of_messages + of_runtime, "{sent} requests for {MESSAGES} messages");

    let runs = server.data(RUNS, json!({})).await["executions"]["nodes"].clone();
    let runs = runs.as_array().unwrap();
    assert_eq!(runs.len(), MESSAGES);
    let (mut failed, mut retried) = (0, 0);
    for run in runs {
        let order = &run["workload"]["order"];
        let labels = json!([
            { "name": "area", "value": "orders" },
            { "name": "order_id", "value": order["id"] },
            { "name": "source", "value": "inbox" },
        ]);
        assert_eq!(run["labels"], labels);
        let items = order["items"].as_array().unwrap().len();
        let reserved = step(run, "reserve");
        if items == 0 {
            assert_eq!(reserved["status"], "SKIPPED");
        } else {
            let counts = json!({ "expected": items, "dispatched": items, "completed": items });
            assert_eq!((&reserved["status"], &reserved["iterations"]), (&json!("COMPLETED"), &counts));
        }
        let charge = step(run, "charge");
        retried += usize::from(charge["attempt"] == 2);
        if run["status"] == "FAILED" {
            failed += 1;
            assert_eq!((&charge["status"], &charge["attempt"]), (&json!("FAILED"), &json!(3)));
            assert!(run["error"].is_string());
        } else {
            assert_eq!(run["status"], "COMPLETED", "{run}");
            assert_eq!(run["context"], json!({ "confirmed": true }));
            assert_eq!(step(run, "end")["status"], "COMPLETED");
        }
        assert!(run["endedAt"].is_string());
    }
    assert!(failed > 0 && retried > 0, "{failed} failed, {retried} were retried");
    let failures = "SELECT event_type FROM noetl.event WHERE status = 'FAILED' AND error <> ''
                    AND event_type IN ('command.failed', 'playbook.failed')";
    let all = "SELECT event_type FROM noetl.event WHERE event_type LIKE '%.failed'";
    let count = async |rows: &str| deployment.sum_over_shards(&format!("SELECT count(*) FROM ({rows}) AS rows")).await;
    assert!(count(failures).await > 0);
    assert_eq!(count(failures).await, count(all).await);
    let check = deployment.command("check").output().await.unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// A restarted demo completes the executions of a killed one. The executions of the first demo have ended before.
async fn a_restarted_demo_completes_the_executions_of_a_killed_one(server: &Server) {
    const OF_KILLED: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    let order = |n: usize| json!({ "id": format!("o{n}"), "items": vec!["x"; n % 3] }).to_string();
    // Each message is in the file twice. Both copies belong to one execution.
    let lines: Vec<_> = (0..OF_KILLED).chain(0..OF_KILLED).map(order).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let runs = async || {
        let mut runs = server.data(RUNS, json!({})).await["executions"]["nodes"].as_array().unwrap().clone();
        // The executions of the first demo are the oldest ones.
        runs.truncate(runs.len() - MESSAGES);
        runs
    };

    let mut killed = command(server, "5000", &file).stderr(Stdio::null()).spawn().unwrap();
    let has_begun =
        |run: &Value| run["steps"]["nodes"].as_array().unwrap().iter().any(|step| step["status"] == "COMPLETED");
    eventually("some executions have completed a step", async || {
        let runs = runs().await;
        (runs.len() == OF_KILLED && runs.iter().any(has_begun)).then_some(())
    })
    .await;
    killed.kill().await.unwrap();
    // The status in the list can lag behind the steps.
    let are_open = runs().await.iter().any(|run| run["endedAt"].is_null());
    assert!(are_open, "every execution had ended when the demo was killed");

    demo(server, &file).await;
    let runs = runs().await;
    assert_eq!(runs.len(), OF_KILLED);
    assert!(runs.iter().all(|run| run["endedAt"].is_string() && ["COMPLETED", "FAILED"].contains(&run["status"].as_str().unwrap())), "{runs:?}");
}

#[tokio::test]
async fn the_demo_stops_cancelled_executions_and_completes_its_own_when_it_is_asked_to_stop() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    register(&server, "samples/orders/process", PLAYBOOK).await;
    register(&server, "samples/orders/inbox", INBOX).await;
    Box::pin(the_demo_stops_an_execution_that_another_caller_cancels(&server)).await;
    Box::pin(a_demo_that_is_asked_to_stop_completes_what_it_has_started(&server)).await;
}

/// The demo stops an execution that another caller cancels. It is the first execution of the deployment.
async fn the_demo_stops_an_execution_that_another_caller_cancels(server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    std::fs::write(&file, json!({ "id": "o1", "items": vec!["x"; 4] }).to_string()).unwrap();
    let demo = command(server, "1000", &file).stderr(Stdio::piped()).spawn().unwrap();
    let id = eventually("the demo runs a step", async || {
        let runs = server.data("{ executions { nodes { id status } } }", json!({})).await;
        let run = &runs["executions"]["nodes"][0];
        (run["status"] == "RUNNING").then(|| run["id"].clone())
    })
    .await;
    let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }";
    assert_eq!(server.data(cancel, json!({ "id": id })).await["cancelExecution"]["cancelled"], true);
    let output = tokio::time::timeout(WAIT_TIMEOUT, demo.wait_with_output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let query = "query($id: ID!) { execution(id: $id) { status steps { nodes { name status } } } }";
    let run = server.data(query, json!({ "id": id })).await["execution"].take();
    assert_eq!(run["status"], "CANCELLED");
    let is_end = |step: &Value| step["name"] == "end" && step["status"] == "COMPLETED";
    assert!(!run["steps"]["nodes"].as_array().unwrap().iter().any(is_end), "{run}");
}

/// A demo that is asked to stop completes what it has started.
async fn a_demo_that_is_asked_to_stop_completes_what_it_has_started(server: &Server) {
    let runs = async || server.data(RUNS, json!({})).await["executions"]["nodes"].as_array().unwrap().clone();
    for asked in [Signal::SIGINT, Signal::SIGTERM] {
        let before = runs().await.len();
        let demo = command(server, "1", Path::new("samples")).stderr(Stdio::piped()).spawn().unwrap();
        eventually("the demo has started an execution", async || (runs().await.len() > before).then_some(())).await;
        kill(Pid::from_raw(demo.id().unwrap().cast_signed()), asked).unwrap();
        let output = tokio::time::timeout(WAIT_TIMEOUT, demo.wait_with_output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{asked}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(runs().await.iter().all(|run| run["endedAt"].is_string()), "{asked}: {:?}", runs().await);
        let query = "{ subscription(by: { path: \"samples/orders/inbox\" }) { status } }";
        assert_eq!(server.data(query, json!({})).await["subscription"]["status"], "DEACTIVATED", "{asked}");
    }
}

/// The demo authenticates with its token file.
async fn the_demo_authenticates_with_its_token_file(deployment: &Deployment) {
    let file = TokenFile::new();
    let (admin, runtime) = (file.add(&["--role", "admin"]), file.add(&["--role", "worker", "--role", "viewer"]));
    let (name, path) = file.setting();
    let server = deployment.replica_with(&[(name, &path)]).await;
    for (path, content) in [("samples/orders/process", PLAYBOOK), ("samples/orders/inbox", INBOX)] {
        let query = "mutation($path: String!, $content: String!) {
            registerCatalogEntry(input: {path: $path, content: $content}) { userErrors { message } } }";
        server.send_as(&admin, query, json!({ "path": path, "content": content })).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (orders, token) = (folder.path().join("orders"), folder.path().join("token"));
    std::fs::write(&orders, json!({ "id": "o1", "items": [] }).to_string()).unwrap();
    std::fs::write(&token, format!("{runtime}\n")).unwrap();
    let output = command(&server, "1", &orders).arg("--token-file").arg(&token).output();
    let output = tokio::time::timeout(WAIT_TIMEOUT, output).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let runs = server.send_as(&admin, "{ executions { nodes { endedAt } } }", json!({})).await;
    assert!(runs["data"]["executions"]["nodes"][0]["endedAt"].is_string(), "{runs}");
}

/// Returns the executions of a demo with this document and seven messages, which are numbers from `first` on. The demos
/// before had `first` messages.
async fn runs_with(server: &Server, document: &str, first: usize) -> Vec<Value> {
    register(server, "samples/orders/inbox", document).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    std::fs::write(&file, (first..first + 7).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")).unwrap();
    demo(server, &file).await;
    let query = "{ executions(first: 100) { nodes { path executionPool startedAt endedAt } } }";
    let mut runs = server.data(query, json!({})).await["executions"]["nodes"].as_array().unwrap().clone();
    assert_eq!(runs.len(), first + 7, "{runs:?}");
    // The newest ones are first.
    runs.truncate(7);
    runs
}

fn time(run: &Value, field: &str) -> DateTime<Utc> {
    run[field].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_demo_obeys_the_document_of_its_subscription_and_uses_its_token_file() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    register(&server, "other/flow", "kind: playbook\nworkflow: [{ step: start, tool: { kind: noop } }]").await;
    Box::pin(the_demo_runs_the_playbook_with_the_pool_and_the_concurrency_of_the_document(&server)).await;
    Box::pin(the_demo_starts_no_more_executions_in_a_second_than_the_document_allows(&server)).await;
    Box::pin(the_demo_authenticates_with_its_token_file(&deployment)).await;
}

/// The demo runs the playbook of the document, in its pool, and not more messages at the same time than it allows.
async fn the_demo_runs_the_playbook_with_the_pool_and_the_concurrency_of_the_document(server: &Server) {
    let document = "kind: subscription\nspec:\n  source: nats\n  mode: pull\n  \
                    dispatch: { playbook: other/flow, execution_pool: orders }\n  limits: { max_in_flight: 1 }";
    let runs = runs_with(server, document, 0).await;
    assert!(runs.iter().all(|run| run["path"] == "other/flow" && run["executionPool"] == "orders"), "{runs:?}");
    let mut runs: Vec<_> = runs.iter().map(|run| [time(run, "startedAt"), time(run, "endedAt")]).collect();
    runs.sort_unstable();
    assert!(runs.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "two executions ran at the same time: {runs:?}");
}

/// The demo starts no more executions in a second than the document allows.
async fn the_demo_starts_no_more_executions_in_a_second_than_the_document_allows(server: &Server) {
    let document = "kind: subscription\nspec:\n  source: nats\n  mode: pull\n  \
                    dispatch: { playbook: other/flow }\n  limits: { max_dispatch_per_sec: 2 }";
    let mut starts: Vec<_> = runs_with(server, document, 7).await.iter().map(|run| time(run, "startedAt")).collect();
    starts.sort_unstable();
    // Seven starts take six pauses of 500 ms; the first start may be late.
    assert!(starts[6] - starts[0] >= TimeDelta::milliseconds(1000), "{starts:?}");
}

#[tokio::test]
async fn a_machine_without_ca_certificates_is_named() {
    let (file, folder) = (tempfile::NamedTempFile::new().unwrap(), tempfile::tempdir().unwrap());
    let mut command = Command::new(binary());
    command.args(["demo", "--url", "http://127.0.0.1:1"]).env("SSL_CERT_FILE", file.path());
    let output = command.env("SSL_CERT_DIR", folder.path()).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("install the CA certificates of the system"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
