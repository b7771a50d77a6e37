//! Callers are identified by tokens: every request needs a valid token, each caller can do what its roles permit, and
//! the live connections of a token end with the token.

use std::time::Duration;

use noetl_testkit::{Deployment, Live, Server, TokenFile, WAIT_TIMEOUT, error_code, eventually, http_client};
use reqwest::header::{ACCEPT, AUTHORIZATION, COOKIE, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

const VIEWER: &str = "{ viewer { subject roles capabilities tenant expiresAt } }";
const STATUS: &str = "subscription { systemStatus(everySeconds: 60) { at } }";

/// Token of NoETL's own workers.
const INTERNAL: &str = "a-token-that-the-workers-of-NoETL-share";

async fn guarded(deployment: &Deployment, file: &TokenFile) -> Server {
    let (name, path) = file.setting();
    deployment.replica_with(&[(name, &path), ("NOETL_INTERNAL_API_TOKEN", INTERNAL)]).await
}

fn at(server: &Server, parameters: &str, query: &str) -> RequestBuilder {
    http_client().post(format!("{}/graphql{parameters}", server.url)).json(&json!({ "query": query }))
}

fn post(server: &Server, query: &str) -> RequestBuilder {
    at(server, "", query)
}

/// Waits until the server accepts a token that was just added.
async fn known(server: &Server, token: &str) {
    eventually("the server accepts the token", async || {
        server.send_as(token, VIEWER, Value::Null).await["data"]["viewer"].is_object().then_some(())
    })
    .await;
}

/// Opens a live subscription of a caller and reads its first item.
async fn live(server: &Server, token: &str) -> Live {
    let header = format!("Bearer {token}");
    let mut live = Live::init(&server.url, &[("Authorization", &header)], Value::Null).await.unwrap();
    assert_eq!(live.message().await.unwrap()["type"], "connection_ack");
    live.subscribe(STATUS, Value::Null).await.unwrap();
    assert!(live.next().await.unwrap()["systemStatus"]["at"].is_string());
    live
}

/// Adds a token with options, and waits until the server accepts it.
async fn added(server: &Server, file: &TokenFile, options: &[&str]) -> String {
    let token = file.add(options);
    known(server, &token).await;
    token
}

#[tokio::test]
async fn each_caller_is_identified_by_a_valid_token_and_can_do_what_its_roles_permit() {
    let (deployment, file) = (Deployment::start(0).await, TokenFile::new());
    let (admin, expired) = (file.add(&["--role", "admin"]), file.add(&["--role", "admin", "--expires", "2020-01-01"]));
    let server = guarded(&deployment, &file).await;
    // First, because it checks that the catalog is empty.
    Box::pin(no_operation_runs_without_a_valid_token(&server, &admin, &expired)).await;
    Box::pin(viewer_describes_the_caller(&deployment, &server, &file)).await;
    each_role_can_do_exactly_what_its_capabilities_permit(&server, &file).await;
    sockets_accept_a_token_in_the_header_or_in_connection_init(&server, &file).await;
}

/// A mutation without a valid token is refused, over each transport, and changes nothing.
async fn no_operation_runs_without_a_valid_token(server: &Server, admin: &str, expired: &str) {
    let register = "mutation { registerCatalogEntry(input: { path: \"a\", content: \"kind: playbook\" }) {
        userErrors { message } } }";
    let bearer = |token: &str| format!("Bearer {token}");
    let unknown = format!("noetl_{}", "A".repeat(43));
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.";
    for refused in [
        post(server, register),
        post(server, register).header(AUTHORIZATION, bearer(&unknown)),
        post(server, register).header(AUTHORIZATION, bearer(expired)),
        post(server, register).header(AUTHORIZATION, bearer(unsigned)),
        post(server, register).header(AUTHORIZATION, bearer(&admin[..admin.len() - 1])),
        post(server, register).header(AUTHORIZATION, admin),
        post(server, register).header(AUTHORIZATION, format!("Basic {admin}")),
        post(server, register).header(AUTHORIZATION, bearer(admin)).header(AUTHORIZATION, bearer(&unknown)),
        post(server, register).header(COOKIE, format!("Authorization=Bearer {admin}; token={admin}")),
        at(server, &format!("?token={admin}&access_token={admin}&authorization={admin}"), register),
        post(server, "{ malformed"),
    ] {
        let response = refused.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(error_code(&response.json().await.unwrap()), "UNAUTHENTICATED");
    }
    let stream = http_client().post(format!("{}/graphql/stream", server.url));
    let stream = stream.header(ACCEPT, "text/event-stream").json(&json!({ "query": VIEWER })).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::UNAUTHORIZED);
    for payload in [json!(null), json!({}), json!({ "token": unknown }), json!({ "Authorization": bearer(expired) })] {
        let mut socket = Live::init(&server.url, &[], payload).await.unwrap();
        assert_eq!((socket.message().await, socket.close_code), (None, Some(4403)));
    }
    let entries = server.send_as(admin, "{ catalogEntries { nodes { path } } }", Value::Null).await;
    assert_eq!(entries, json!({ "data": { "catalogEntries": { "nodes": [] } } }));
}

/// `viewer` shows the subject, roles, tenant and expiry of the token. Without tokens in the settings, each caller is an
/// admin.
async fn viewer_describes_the_caller(deployment: &Deployment, server: &Server, file: &TokenFile) {
    let options = ["--role", "worker", "--role", "viewer", "--subject", "runtime", "--tenant", "acme"];
    let options = [&options[..], &["--expires", "2090-05-01T10:00:00Z"]].concat();
    let runtime = added(server, file, &options).await;
    let viewer = server.send_as(&runtime, VIEWER, Value::Null).await["data"]["viewer"].take();
    let expected = json!({
        "subject": "runtime", "roles": ["VIEWER", "WORKER"],
        "capabilities": ["READ", "LIVE", "EXECUTE", "OUTBOX", "PROJECT", "ADVANCE", "OWN_LIFECYCLE"],
        "tenant": "acme", "expiresAt": "2090-05-01T10:00:00.000000+00:00",
    });
    assert_eq!(viewer, expected);
    let worker = server.send_as(INTERNAL, VIEWER, Value::Null).await["data"]["viewer"].take();
    assert_eq!((&worker["subject"], &worker["roles"]), (&json!("internal"), &json!(["WORKER", "IMPORTER"])));

    let open = deployment.replica().await;
    let local = &open.data(VIEWER, Value::Null).await["viewer"];
    assert_eq!((&local["subject"], &local["roles"]), (&json!(null), &json!(["ADMIN"])));
}

/// Each operation is refused for the roles without its capability, and carried out for the others.
async fn each_role_can_do_exactly_what_its_capabilities_permit(server: &Server, file: &TokenFile) {
    let [viewer, worker, operator, admin] =
        ["viewer", "worker", "operator", "admin"].map(|role| file.add(&["--role", role, "--subject", role]));
    known(server, &admin).await;
    let entry =
        "mutation { registerCatalogEntry(input: { path: \"a\", content: \"kind: playbook\\nworkload: {secret: 1}\" }) {
        catalogEntry { id: catalogId } userErrors { message } } }";
    let execute = "mutation { execute(input: { entry: { path: \"a\" } }) { execution { id status workload } userErrors { message } } }";
    let retry = "mutation { retryOutbox(input: { select: { filter: { statuses: [FAILED] } } }) { matched } }";
    let list = "{ executions { nodes { workload } } }";
    let table: [(&str, &[&String], &[&String]); 4] = [
        (entry, &[&viewer, &worker], &[&operator, &admin]),
        (execute, &[&viewer, &operator], &[&admin]),
        (retry, &[&viewer, &worker], &[&operator, &admin]),
        (list, &[&worker], &[&viewer, &operator, &admin]),
    ];
    for (query, refused, permitted) in table {
        for token in permitted {
            let response = server.send_as(token, query, Value::Null).await;
            assert_eq!(response.get("errors"), None, "{query}: {response}");
        }
        for token in refused {
            assert_eq!(error_code(&server.send_as(token, query, Value::Null).await), "FORBIDDEN", "{query}");
        }
    }
    // A worker may start an execution and gets its id, but may not read payloads.
    let started = server.send_as(&worker, execute, Value::Null).await;
    let execution = &started["data"]["execute"]["execution"];
    assert!(execution["id"].is_string() && execution["workload"].is_null(), "{started}");
    assert_eq!((error_code(&started), started["errors"].as_array().unwrap().len()), ("FORBIDDEN", 1));
    let message = started["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("READ") && message.contains("workload"), "{message}");
}

/// A socket has the caller of the token in its header or in `connection_init`. Two different tokens are refused.
async fn sockets_accept_a_token_in_the_header_or_in_connection_init(server: &Server, file: &TokenFile) {
    let ann = file.add(&["--role", "viewer", "--subject", "ann"]);
    let bob = added(server, file, &["--role", "viewer"]).await;
    let bearer = format!("Bearer {ann}");
    let header = [("Authorization", bearer.as_str())];
    let shown: [(&[(&str, &str)], Value); 6] = [
        (&header, Value::Null),
        (&header, json!({ "token": ann })),
        (&[], json!({ "Authorization": bearer })),
        (&[], json!({ "authorization": bearer })),
        (&[], json!({ "token": ann })),
        (&[], json!({ "token": bearer })),
    ];
    for (headers, payload) in shown {
        let mut socket = Live::init(&server.url, headers, payload).await.unwrap();
        assert_eq!(socket.message().await.unwrap()["type"], "connection_ack");
        socket.subscribe("{ viewer { subject } }", Value::Null).await.unwrap();
        assert_eq!(socket.next().await.unwrap(), json!({ "viewer": { "subject": "ann" } }));
    }
    let mut two = Live::init(&server.url, &header, json!({ "token": bob })).await.unwrap();
    assert_eq!((two.message().await, two.close_code), (None, Some(4403)));
}

#[tokio::test]
async fn live_connections_end_when_their_token_is_removed_or_expires() {
    let (deployment, file) = (Deployment::start(0).await, TokenFile::new());
    let old = file.add(&["--role", "viewer", "--subject", "old"]);
    let server = guarded(&deployment, &file).await;
    let end = chrono::Utc::now() + Duration::from_secs(5);
    let expiring = added(&server, &file, &["--role", "viewer", "--expires", &end.to_rfc3339()]).await;
    let mut socket = live(&server, &expiring).await;
    a_removed_token_ends_its_live_connections_and_a_new_token_works(&server, &file, &old).await;
    assert_eq!((socket.message().await, socket.close_code), (None, Some(4403)));
    assert!(chrono::Utc::now() + Duration::from_secs(1) >= end, "the connection ended before its token");
    assert_eq!(error_code(&server.send_as(&expiring, VIEWER, Value::Null).await), "UNAUTHENTICATED");
}

/// The connections of a token that is removed from the file end, and those of other tokens continue.
async fn a_removed_token_ends_its_live_connections_and_a_new_token_works(server: &Server, file: &TokenFile, old: &str) {
    let mut socket = live(server, old).await;
    let stream = http_client().post(format!("{}/graphql/stream", server.url)).bearer_auth(old);
    let stream = stream.header(ACCEPT, "text/event-stream").json(&json!({ "query": STATUS })).send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);

    let new = added(server, file, &["--role", "viewer", "--subject", "new"]).await;
    let mut other = live(server, &new).await;
    // Both tokens are valid here. An invalid file changes nothing.
    let text = std::fs::read_to_string(file.path()).unwrap();
    file.write("nonsense");
    file.write(&text);
    assert!(server.send_as(old, VIEWER, Value::Null).await["data"]["viewer"].is_object());

    file.remove("old");
    let ended = tokio::time::timeout(WAIT_TIMEOUT, socket.message()).await;
    assert_eq!((ended.expect("the connection ends immediately"), socket.close_code), (None, Some(4403)));
    let rest = tokio::time::timeout(WAIT_TIMEOUT, stream.text()).await.unwrap().unwrap();
    assert!(rest.contains("UNAUTHENTICATED"), "{rest}");
    assert_eq!(error_code(&server.send_as(old, VIEWER, Value::Null).await), "UNAUTHENTICATED");
    other.subscribe_as("2", "{ viewer { subject } }", Value::Null).await.unwrap();
    assert_eq!(other.message().await.unwrap()["payload"]["data"]["viewer"]["subject"], "new");
}

#[tokio::test]
async fn all_invalid_authentication_settings_are_reported_together() {
    let file = TokenFile::new();
    file.write("noetl_pasted-by-mistake\n");
    let mut command = tokio::process::Command::new(noetl_testkit::binary());
    let (name, path) = file.setting();
    let output = command
        .arg("check-config")
        .env_clear()
        .env(name, path)
        .env("NOETL_INTERNAL_API_TOKEN", "short")
        .env("NOETL_AUTH_OIDC_ISSUER", "http://issuer.example.org")
        .env("NOETL_AUTH_OIDC_ALGORITHMS", "RS256,HS256,none")
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for expected in
        ["NOETL_AUTH_TOKENS", "line 1", "NOETL_INTERNAL_API_TOKEN", "_OIDC_ISSUER", "_AUDIENCE", "HS256", "none"]
    {
        assert!(said.contains(expected), "{expected} is not in: {said}");
    }
    assert!(!said.contains("pasted") && !said.contains("short\""), "a secret is repeated: {said}");
}
