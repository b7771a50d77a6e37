//! Network settings of a server: addresses, host names, origins, and the listener of the health probes.

use std::collections::BTreeSet;
use std::process::{Output, Stdio};

use noetl_testkit::broker_cluster::free_ports;
use noetl_testkit::{Deployment, Handshake, Server, TokenFile, binary, eventually, repository};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HOST, ORIGIN, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Returns one request for each endpoint and transport. Its status is 403 only if the host is refused.
fn requests(url: &str) -> Vec<(&'static str, RequestBuilder)> {
    let (client, query) = (Client::new(), json!({ "query": "{ __typename }" }));
    let get = |path: &str| client.get(format!("{url}{path}"));
    let subscription = json!({ "query": "subscription { systemStatus { __typename } }" });
    let parts = client.post(format!("{url}/graphql")).json(&subscription);
    vec![
        ("POST", client.post(format!("{url}/graphql")).json(&query)),
        ("GET", get("/graphql?query=%7B__typename%7D")),
        ("OPTIONS", client.request(reqwest::Method::OPTIONS, format!("{url}/graphql"))),
        ("SSE", get("/graphql/stream?query=%7B__typename%7D").header(ACCEPT, "text/event-stream")),
        ("multipart", parts.header(ACCEPT, "multipart/mixed;subscriptionSpec=1.0")),
        ("metrics", get("/metrics")),
        ("scaler", get("/scaler/outbox")),
        ("scaler of subscriptions", get("/scaler/subscriptions")),
        ("livez", get("/livez")),
        ("readyz", get("/readyz")),
        ("console", get("/")),
        ("GraphiQL", get("/graphiql")),
        ("sign-in", get("/auth/sign-in")),
        ("nothing", get("/nothing")),
    ]
}

/// Returns the status of a WebSocket handshake.
async fn handshake(url: &str, host: &str) -> StatusCode {
    Handshake::new(url, &[("host", host), ("origin", &format!("http://{host}"))]).await.unwrap().status
}

/// Panics unless every endpoint serves or refuses a page of the given hosts that calls its own host.
async fn assert_hosts(server: &Server, served: &[&str], refused: &[&str]) {
    let port = server.url.rsplit_once(':').unwrap().1;
    for (names, is_served) in [(served, true), (refused, false)] {
        for name in names {
            let host = format!("{name}:{port}");
            for (endpoint, request) in requests(&server.url) {
                let request = request.header(HOST, &host).header(ORIGIN, format!("http://{host}"));
                let response = request.send().await.unwrap();
                assert_eq!(response.status() != StatusCode::FORBIDDEN, is_served, "{endpoint} of {host}");
                assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff", "{endpoint}");
            }
            let expected = if is_served { StatusCode::SWITCHING_PROTOCOLS } else { StatusCode::FORBIDDEN };
            assert_eq!(handshake(&server.url, &host).await, expected, "WebSocket of {host}");
        }
    }
}

#[tokio::test]
async fn an_unauthenticated_server_serves_the_console_and_the_api_only_to_allowed_host_names() {
    let deployment = Deployment::start(0).await;
    let (server, named) =
        tokio::join!(deployment.replica(), deployment.replica_with(&[("NOETL_ALLOWED_HOSTS", "noetl.internal")]));
    Box::pin(only_loopback_host_names_are_served(&server)).await;
    Box::pin(assert_hosts(&named, &["noetl.internal", "localhost"], &["rebound.example"])).await;
    Box::pin(files_of_the_console_are_sent_compressed_to_clients_that_accept_gzip(&server)).await;
    Box::pin(unknown_addresses_are_the_console_for_browsers_and_nothing_for_programs(&server)).await;
}

/// A server without settings serves only the host names of loopback, and responses about its state are not stored.
async fn only_loopback_host_names_are_served(server: &Server) {
    assert_hosts(
        server,
        &["localhost", "127.0.0.1", "[::1]"],
        &["rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example", "0.0.0.0", "localhost."],
    )
    .await;
    for path in ["/metrics", "/scaler/outbox", "/scaler/subscriptions", "/livez", "/readyz"] {
        let response = server.get(path).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store", "{path}");
    }
}

/// Runs the command that checks the settings.
pub(super) async fn check_config(settings: &[(&str, &str)]) -> Output {
    let servers = [("NOETL_CLUSTER_DSN", "postgres://noetl@h/cluster"), ("NOETL_NATS_URL", "nats://h:4222")];
    let mut command = Command::new(binary());
    command.arg("check-config").env_clear().envs(servers).envs(settings.iter().copied());
    command.output().await.unwrap()
}

#[tokio::test]
async fn each_exception_to_loopback_needs_an_explicit_setting() {
    for settings in [
        &[][..],
        &[("NOETL_HOST", "::1")],
        &[("NOETL_HOST", "0.0.0.0"), ("NOETL_UNAUTHENTICATED_HOST", "0.0.0.0")],
        &[
            ("NOETL_ALLOWED_HOSTS", "noetl.internal,10.0.0.7,[::1]"),
            ("NOETL_ALLOWED_ORIGINS", "https://a.example:8443"),
        ],
    ] {
        let output = check_config(settings).await;
        assert!(output.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for (settings, named) in [
        (&[("NOETL_HOST", "0.0.0.0")][..], "NOETL_UNAUTHENTICATED_HOST=0.0.0.0"),
        (&[("NOETL_HOST", "10.0.0.7"), ("NOETL_UNAUTHENTICATED_HOST", "0.0.0.0")], "NOETL_UNAUTHENTICATED_HOST is"),
        (&[("NOETL_UNAUTHENTICATED_HOST", "yes")], "NOETL_UNAUTHENTICATED_HOST is"),
        (&[("NOETL_ALLOWED_HOSTS", "localhost:8082")], "NOETL_ALLOWED_HOSTS"),
        (&[("NOETL_ALLOWED_HOSTS", "https://a.example")], "NOETL_ALLOWED_HOSTS"),
        (&[("NOETL_ALLOWED_ORIGINS", "https://a.example/")], "NOETL_ALLOWED_ORIGINS"),
        (&[("NOETL_ALLOWED_ORIGINS", "*")], "NOETL_ALLOWED_ORIGINS"),
    ] {
        let output = check_config(settings).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{settings:?}");
        assert!(said.contains(named), "{settings:?}: {said}");
    }
}

#[tokio::test]
async fn a_server_with_authentication_serves_any_host_and_limits_what_callers_without_a_token_reach() {
    let deployment = Deployment::start(0).await;
    Box::pin(any_host_is_served_and_the_schema_is_for_admins_only(&deployment)).await;
    Box::pin(health_probes_use_their_own_listener_if_one_is_configured(&deployment)).await;
    Box::pin(every_route_beside_the_api_limits_its_body(&deployment)).await;
}

/// A server with tokens serves any host. Metrics need a token, and only admins see the schema.
async fn any_host_is_served_and_the_schema_is_for_admins_only(deployment: &Deployment) {
    let file = TokenFile::new();
    let [admin, viewer, worker] = ["admin", "viewer", "worker"].map(|role| file.add(&["--role", role]));
    let (name, path) = file.setting();
    let open_to_others = check_config(&[(name, &path), ("NOETL_HOST", "0.0.0.0")]).await;
    assert!(open_to_others.status.success(), "{}", String::from_utf8_lossy(&open_to_others.stderr));

    let server = deployment.replica_with(&[(name, &path), ("NOETL_RESTRICT_INTROSPECTION", "true")]).await;
    let get = |path: &str, token: &str| {
        let request = Client::new().get(format!("{}{path}", server.url)).header(HOST, "noetl.internal");
        let request = if token.is_empty() { request } else { request.bearer_auth(token) };
        async { request.send().await.unwrap().status() }
    };
    for path in ["/metrics", "/scaler/outbox", "/scaler/subscriptions"] {
        for (token, expected) in [
            ("", StatusCode::UNAUTHORIZED),
            ("wrong", StatusCode::UNAUTHORIZED),
            (&viewer, StatusCode::OK),
            (&worker, StatusCode::OK),
        ] {
            assert_eq!(get(path, token).await, expected, "{path}");
        }
    }
    assert_eq!(get("/livez", "").await, StatusCode::OK);
    assert_eq!(get("/readyz", "").await, StatusCode::OK);

    let unknown = "query($id: Int) { executions(first: $id) { nodes { wrong } } execution(id: $id) { id } }";
    let [hidden, shown] = [&viewer, &admin].map(|token| server.send_as(token, unknown, json!(null)));
    let (hidden, shown) = (hidden.await.to_string(), shown.await.to_string());
    assert!(shown.contains("Execution"), "{shown}");
    assert!(!hidden.contains("Execution") && !hidden.contains("wrong"), "{hidden}");
    for query in
        ["{ __schema { queryType { name } } }", "{ ...a } fragment a on Query { x: __type(name: \"ID\") { name } }"]
    {
        let refused = server.send_as(&viewer, query, json!(null)).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
        let data = server.send_as(&admin, query, json!(null)).await;
        assert_eq!(data.get("errors"), None, "{data}");
    }
    let data = server.send_as(&viewer, "{ __typename viewer { __typename } }", json!(null)).await;
    assert_eq!(data["data"]["__typename"], "Query", "{data}");
}

/// Health probes use their own listener if one is configured, without a token, and only that one.
async fn health_probes_use_their_own_listener_if_one_is_configured(deployment: &Deployment) {
    let file = TokenFile::new();
    file.add(&["--role", "admin"]);
    let (name, path) = file.setting();
    let ports = free_ports(2);
    let [health, address] = [0, 1].map(|index| format!("127.0.0.1:{}", ports[index]));
    let mut command = deployment.command("serve");
    command.env(name, &path).env("NOETL_HEALTH_LISTEN", &health).env("NOETL_PORT", ports[1].to_string());
    let _serving = command.stdout(Stdio::null()).spawn().unwrap();
    for path in ["/livez", "/readyz", "/metrics", "/scaler/outbox", "/scaler/subscriptions"] {
        let probe = eventually("the probe gets a response", async || {
            let probe = Client::new().get(format!("http://{health}{path}")).header(HOST, "pod.example");
            probe.send().await.ok().filter(|probe| probe.status() == StatusCode::OK)
        })
        .await;
        assert_eq!(probe.headers()[CACHE_CONTROL], "no-store", "{path}");
        let shared = eventually("the request gets a response", async || {
            Client::new().get(format!("http://{address}{path}")).send().await.ok()
        })
        .await;
        assert_eq!(shared.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let graphql = Client::new().get(format!("http://{health}/graphql?query=%7B__typename%7D")).send().await.unwrap();
    assert_eq!(graphql.status(), StatusCode::NOT_FOUND);
    let output = check_config(&[("NOETL_HEALTH_LISTEN", "9082")]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOETL_HEALTH_LISTEN"));
}

/// Files of the console are sent compressed to clients that accept gzip.
async fn files_of_the_console_are_sent_compressed_to_clients_that_accept_gzip(server: &Server) {
    let get = async |path: &str, accepted: &str| {
        let request = Client::new().get(format!("{}{path}", server.url)).header(ACCEPT_ENCODING, accepted);
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()[VARY]),
            (StatusCode::OK, &"accept-encoding".parse().unwrap())
        );
        (response.headers().get(CONTENT_ENCODING).cloned(), response.bytes().await.unwrap())
    };
    // The server writes its path into the page, which is short.
    let (encoding, page) = get("/", "gzip, br").await;
    assert_eq!(encoding, None);
    let text = String::from_utf8(page.to_vec()).unwrap();
    for (start, end) in [("./assets/index", ".js"), ("./assets/index", ".css")] {
        let path = text.split('"').find(|part| part.starts_with(start) && part.ends_with(end)).unwrap();
        let path = path.trim_start_matches('.');
        let (encoding, plain) = get(path, "identity").await;
        assert_eq!(encoding, None);
        let (encoding, compressed) = get(path, "gzip, br").await;
        assert_eq!(encoding.unwrap(), "gzip");
        assert!(compressed.len() < plain.len());
        assert_eq!(decompress(&compressed).await, plain, "{path}");
    }
}

/// A browser that opens an unknown address gets the console, and a program gets nothing.
async fn unknown_addresses_are_the_console_for_browsers_and_nothing_for_programs(server: &Server) {
    for (path, accepted, is_page) in [
        ("/nonsense", "text/html,application/xhtml+xml,*/*;q=0.8", true),
        ("/nonsense/below", "text/html", true),
        ("/nonsense", "*/*", false),
        ("/favicon.ico", "image/avif,image/webp,*/*;q=0.8", false),
        ("/assets/nonsense.js", "text/html", false),
    ] {
        let request = Client::new().get(format!("{}{path}", server.url)).header(ACCEPT, accepted);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        let has_policy = response.headers().contains_key(CONTENT_SECURITY_POLICY);
        let body = response.text().await.unwrap();
        assert_eq!((has_policy, body.contains("id=\"root\"")), (is_page, is_page), "{path}: {body}");
    }
}

/// Decompresses with the program gzip.
async fn decompress(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let (written, output) = tokio::join!(
        async {
            let written = input.write_all(bytes).await;
            drop(input);
            written
        },
        gzip.wait_with_output()
    );
    written.unwrap();
    output.unwrap().stdout
}

/// Returns the paths of the routes beside the API, without the console's views, from the sources.
pub(super) fn paths_beside_the_api() -> BTreeSet<String> {
    let folder = repository().join("src/web");
    let mut paths = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let routes = text.split(".route(\"").skip(1).filter_map(|rest| rest.split_once('"'));
        paths.extend(routes.map(|(path, _)| path.replace("{*path}", "x")));
    }
    assert!(paths.len() >= 9 && paths.contains("/auth/token") && paths.contains("/scaler/outbox"), "{paths:?}");
    paths
}

/// Every route beside the API limits its body. A route that is added without the limits fails this part.
async fn every_route_beside_the_api_limits_its_body(deployment: &Deployment) {
    let paths = paths_beside_the_api();
    let provider = [
        ("NOETL_AUTH_OIDC_ISSUER", "https://127.0.0.1:9"),
        ("NOETL_AUTH_OIDC_AUDIENCE", "noetl"),
        ("NOETL_AUTH_OIDC_CLIENT_ID", "console"),
    ];
    let server = deployment.replica_with(&provider).await;
    for path in paths.iter().map(String::as_str).chain(["/executions", "/executions/7"]) {
        let request = Client::new().post(format!("{}{path}", server.url)).body("x".repeat(70_000));
        assert_eq!(request.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
    }
}
