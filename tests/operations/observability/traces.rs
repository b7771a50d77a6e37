//! Spans of a request, as a collector receives them.

use noetl_testkit::{Deployment, Server, eventually, http_client};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use super::collector::{Collector, TOKEN};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn traceparent(trace: &str) -> String {
    format!("00-{trace}-{CALLER}-01")
}

/// Sends an operation as part of a trace.
async fn send_traced(server: &Server, trace: &str, query: &str, variables: Value) -> Value {
    let request = http_client().post(format!("{}/graphql", server.url));
    let request = request.header("traceparent", traceparent(trace));
    let body = json!({ "query": query, "variables": variables });
    request.json(&body).send().await.unwrap().json().await.unwrap()
}

async fn exporting_replica(deployment: &Deployment, endpoint: &str) -> Server {
    let headers = format!("authorization={TOKEN}");
    deployment.replica_with(&[("NOETL_OTLP_ENDPOINT", endpoint), ("NOETL_OTLP_HEADERS", &headers)]).await
}

/// The first part needs databases without rows.
#[tokio::test]
async fn spans_are_exported_and_a_missing_collector_delays_nothing() {
    let deployment = Deployment::start(1).await;
    Box::pin(spans_of_the_last_request_are_exported_during_the_shutdown(&deployment)).await;
    Box::pin(spans_run_from_the_request_through_resolver_and_statement_to_the_publish(&deployment)).await;
    Box::pin(spans_that_can_t_be_sent_are_a_line_and_a_number(&deployment)).await;
    Box::pin(a_collector_that_never_responds_delays_neither_requests_nor_the_shutdown(&deployment)).await;
}

/// Spans run from the request through resolver and statement to the publish.
async fn spans_run_from_the_request_through_resolver_and_statement_to_the_publish(deployment: &Deployment) {
    let collector = Collector::start().await;
    let server = exporting_replica(deployment, &collector.endpoint()).await;
    deployment.feeds_begun().await;
    server.register_entry("traced/run", &json!({ "kind": "playbook" })).await;
    let query = "mutation($path: String!) { execute(input: {entry: {path: $path}}) { execution { id trace { traceparent } } } }";
    let response = send_traced(&server, TRACE, query, json!({ "path": "traced/run" })).await;
    let execution = &response["data"]["execute"]["execution"];
    // Later work of the execution belongs to the trace too.
    let stored = execution["trace"]["traceparent"].as_str().unwrap();
    assert!(stored.starts_with(&format!("00-{TRACE}-")), "{response}");

    let publish = collector
        .span("the publish is linked to the trace", |span| {
            span.name == "publish" && span.links.iter().any(|link| hex(&link.trace_id) == TRACE)
        })
        .await;
    assert_ne!(hex(&publish.trace_id), TRACE);
    collector.span("the request ends", |span| span.name == "request" && hex(&span.trace_id) == TRACE).await;
    let spans: Vec<Span> = collector.received().into_iter().filter(|span| hex(&span.trace_id) == TRACE).collect();
    let mut path = Vec::new();
    let mut id = spans.iter().find(|span| span.name == "sql.executions.create").unwrap().span_id.clone();
    while let Some(span) = spans.iter().find(|span| span.span_id == id) {
        path.push(span.name.as_str());
        id.clone_from(&span.parent_span_id);
    }
    let whole = [
        "sql.executions.create",
        "batch",
        "executions.execute_batch",
        "executions.execute",
        "Mutation.execute",
        "operation",
        "request",
    ];
    assert_eq!(path, whole);
    assert_eq!(hex(&id), CALLER);
    let statement = spans.iter().find(|span| span.name == "sql.executions.create").unwrap();
    let attribute = |key: &str| format!("{:?}", statement.attributes.iter().find(|one| one.key == key).unwrap().value);
    assert!(attribute("first").contains(execution["id"].as_str().unwrap()));
    assert!(attribute("database").contains("shard"));
    assert!(server.stop().await.success());
}

/// Spans of the last request are exported during the shutdown.
async fn spans_of_the_last_request_are_exported_during_the_shutdown(deployment: &Deployment) {
    let collector = Collector::start().await;
    let server = exporting_replica(deployment, &collector.endpoint()).await;
    send_traced(&server, TRACE, "{ server { version } }", json!({})).await;
    assert!(server.stop().await.success());
    assert!(collector.received().iter().any(|span| span.name == "request" && hex(&span.trace_id) == TRACE));
    // Timers start no traces.
    let stray = collector.received().into_iter().find(|span| {
        span.parent_span_id.is_empty() && !["request", "operation", "publish"].contains(&span.name.as_str())
    });
    assert_eq!(stray, None);
}

/// A collector that never responds delays neither requests nor the shutdown.
async fn a_collector_that_never_responds_delays_neither_requests_nor_the_shutdown(deployment: &Deployment) {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = exporting_replica(deployment, &format!("http://{}", silent.local_addr().unwrap())).await;
    server.register_entry("traced/run", &json!({ "kind": "playbook" })).await;
    // The number of spans exceeds the exporter's queue of 8192: each root field has one.
    let fields = (0..90).map(|number| format!("s{number}: server {{ version }}")).collect::<Vec<_>>().join(" ");
    for _ in 0..130 {
        let response = send_traced(&server, TRACE, &format!("{{ {fields} }}"), json!({})).await;
        assert!(response["data"]["s89"]["version"].is_string(), "{response}");
    }
    let run = "mutation { execute(input: {entry: {path: \"traced/run\"}}) { outcome } }";
    let response = send_traced(&server, TRACE, run, json!({})).await;
    assert_eq!(response["data"]["execute"]["outcome"], "STARTED", "{response}");
    assert!(server.stop().await.success());
}

/// Spans that can't be sent are a line of the log and a number.
async fn spans_that_can_t_be_sent_are_a_line_and_a_number(deployment: &Deployment) {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let log = NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.env("NOETL_OTLP_ENDPOINT", format!("http://{closed}")).stderr(log.reopen().unwrap());
    let server = Server::spawn(command).await;
    eventually("the failure is counted", async || {
        send_traced(&server, TRACE, "{ server { version } }", json!({})).await;
        (server.metric("noetl_trace_exports_failed_total").await >= 1.0).then_some(())
    })
    .await;
    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("spans could not be sent to the collector"), "{log}");
}
