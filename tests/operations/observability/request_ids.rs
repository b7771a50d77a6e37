//! The request id is in the response, in the log lines, and in internal errors.

use std::fs;

use noetl_testkit::{Deployment, Handshake, Server, http_client};
use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{break_projections, logging_replica};

const FAILING: &str = "{ execution(id: \"1\") { snapshot { version } } }";

#[tokio::test]
async fn every_response_and_internal_error_has_the_request_id_and_the_log_has_the_cause() {
    let deployment = Deployment::start(0).await;
    let (server, log) = logging_replica(&deployment, &[]).await;
    Box::pin(every_response_has_the_request_id_and_hostile_ids_are_replaced(&server)).await;
    Box::pin(an_internal_error_has_the_request_id_and_the_log_has_the_cause(&deployment, &server, &log)).await;
}

/// Every response has the request id, and hostile ids are replaced.
async fn every_response_has_the_request_id_and_hostile_ids_are_replaced(server: &Server) {
    let client = http_client();
    let send = async |method: Method, path: &str, id: &[u8]| {
        let request = client.request(method, format!("{}{path}", server.url));
        let response = request.header("x-request-id", HeaderValue::from_bytes(id).unwrap()).send().await.unwrap();
        assert_eq!(response.headers().get_all("x-request-id").iter().count(), 1);
        response.headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    for (method, path) in [
        (Method::POST, "/graphql"),
        (Method::GET, "/graphql?query={__typename}"),
        (Method::DELETE, "/graphql"),
        (Method::GET, "/graphql/stream"),
        (Method::GET, "/livez"),
        (Method::GET, "/readyz"),
        (Method::GET, "/metrics"),
        (Method::GET, "/"),
        (Method::GET, "/no/such/page"),
    ] {
        assert_eq!(send(method, path, b"req-1:a/b@c").await, "req-1:a/b@c", "{path}");
    }
    let long = [b'x'; 129];
    let hostile: [&[u8]; 6] = [b"a b", b"\"><script>", b"a,b", b"\xff\xfe", b"a\tb\x1b[31m".trim_ascii_end(), &long];
    for id in hostile.into_iter().filter(|id| HeaderValue::from_bytes(id).is_ok()) {
        let kept = send(Method::GET, "/livez", id).await;
        assert!(kept.len() <= 64 && kept.chars().all(|c| c.is_ascii_hexdigit() || c == '-'), "{kept}");
    }
    assert_ne!(send(Method::GET, "/livez", b"").await, send(Method::GET, "/livez", b"").await);
}

/// An internal error has the request id, and the log has the cause.
async fn an_internal_error_has_the_request_id_and_the_log_has_the_cause(
    deployment: &Deployment,
    server: &Server,
    log: &NamedTempFile,
) {
    server.register_entry("ids/run", &json!({ "kind": "playbook" })).await;
    let execution = server.execute(json!({ "path": "ids/run" })).await["execution"]["id"].clone();
    let query = FAILING.replace("\"1\"", &execution.to_string());
    break_projections(deployment).await;

    let request = http_client().post(format!("{}/graphql", server.url)).header("x-request-id", "over-http");
    let response: Value = request.json(&json!({ "query": query })).send().await.unwrap().json().await.unwrap();
    let extensions = &response["errors"][0]["extensions"];
    let internal = |request: &str| json!({ "code": "INTERNAL", "requestId": request, "retryable": false });
    assert_eq!(extensions, &internal("over-http"), "{response}");

    let message = over_socket(&server.url, &query).await;
    let extensions = &message["payload"]["errors"][0]["extensions"];
    assert_eq!(extensions, &internal("over-socket/op_1"), "{message}");

    let log = fs::read_to_string(log.path()).unwrap();
    for id in ["over-http", "over-socket/op_1"] {
        let cause = log.lines().find(|line| line.contains(id) && line.contains("projection_snapshot"));
        assert!(cause.is_some_and(|line| line.contains("ERROR")), "no cause of {id} in {log}");
    }
}

/// Runs an operation on a socket of its own and returns its first message.
async fn over_socket(url: &str, query: &str) -> Value {
    let response = Handshake::new(url, &[("x-request-id", "over-socket")]).await.unwrap();
    assert_eq!(response.headers["x-request-id"], "over-socket");
    let mut socket = response.socket.unwrap();
    socket.send(json!({ "type": "connection_init" })).await.unwrap();
    socket.subscribe_as("op 1", query, Value::Null).await.unwrap();
    loop {
        let message = socket.message().await.unwrap();
        if message["id"] == "op 1" {
            return message;
        }
    }
}
