//! The path prefix below which a proxy serves a server.

use noetl_testkit::{Deployment, Handshake, Server, repository};
use reqwest::header::{ACCEPT, CONTENT_SECURITY_POLICY};
use reqwest::{Client, StatusCode};

use super::network::{check_config, paths_beside_the_api};

/// Returns the body of a response that must be successful.
async fn body(server: &Server, path: &str) -> String {
    let response = server.get(path).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    response.text().await.unwrap()
}

/// Returns the address in the `<base>` of a page.
fn base_of(page: &str) -> &str {
    page.split_once("<base href=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0
}

#[tokio::test]
async fn pages_lead_below_the_base_path_or_without_one_to_addresses_relative_to_their_own() {
    let deployment = Deployment::start(0).await;
    let (below, relative) =
        tokio::join!(deployment.replica_with(&[("NOETL_BASE_PATH", "/apps/noetl")]), deployment.replica());
    Box::pin(a_server_with_a_base_path_serves_everything_below_it_and_at_the_root(&below)).await;
    Box::pin(without_a_base_path_each_page_names_the_server_relative_to_its_own_address(&relative)).await;
}

/// A server with a base path serves everything below it and at the root.
async fn a_server_with_a_base_path_serves_everything_below_it_and_at_the_root(server: &Server) {
    for root in ["", "/apps/noetl"] {
        for path in ["/", "/graphiql", "/executions/1", "/catalog/samples/orders/process"] {
            assert_eq!(base_of(&body(server, &format!("{root}{path}")).await), "/apps/noetl/", "{root}{path}");
        }
        let page = body(server, &format!("{root}/")).await;
        let script = page.split('"').find_map(|part| part.strip_prefix("./").filter(|file| file.contains(".js")));
        body(server, &format!("{root}/{}", script.unwrap())).await;
        for path in ["/livez", "/readyz", "/metrics", "/scaler/outbox", "/auth/sign-in"] {
            body(server, &format!("{root}{path}")).await;
        }
        let typename = body(server, &format!("{root}/graphql?query=%7B__typename%7D")).await;
        assert!(typename.contains(r#""__typename":"Query""#), "{typename}");
        let stream = Client::new().get(format!("{}{root}/graphql/stream?query=%7B__typename%7D", server.url));
        let events = stream.header(ACCEPT, "text/event-stream").send().await.unwrap().text().await.unwrap();
        assert!(events.contains("event: next"), "{events}");
        let handshake = Handshake::new(&format!("{}{root}", server.url), &[]).await.unwrap();
        assert_eq!(handshake.status, StatusCode::SWITCHING_PROTOCOLS, "{root}");
    }
    assert_eq!(base_of(&body(server, "/apps/noetl").await), "/apps/noetl/");
    for path in ["/apps", "/apps/noetlx", "/apps/noetl/nothing", "/apps/noetl/apps/noetl/livez"] {
        assert_eq!(server.get(path).await.unwrap().status(), StatusCode::NOT_FOUND, "{path}");
    }
}

/// Without a base path, each page names the server relative to its own address. Behind a proxy that strips a prefix, these
/// addresses lead below the prefix, which the server does not know.
async fn without_a_base_path_each_page_names_the_server_relative_to_its_own_address(server: &Server) {
    for (path, base) in [
        ("/", "./"),
        ("/?a=/b/c", "./"),
        ("/executions", "./"),
        ("/executions/1", "../"),
        ("/catalog/samples/orders/process", "../../../"),
    ] {
        assert_eq!(base_of(&body(server, path).await), base, "{path}");
    }
    let page = server.get("/").await.unwrap();
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.contains("base-uri 'self'"), "{policy}");
}

#[tokio::test]
async fn a_base_path_that_a_proxy_may_change_or_that_the_server_uses_itself_is_refused() {
    for path in ["/noetl", "/apps/noetl-1.2_~", "/.well", "/graphql-noetl", ""] {
        let output = check_config(&[("NOETL_BASE_PATH", path)]).await;
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let assets = std::fs::read_to_string(repository().join("src/web/assets.rs")).unwrap();
    let (_, views) = assets.split_once("const VIEWS").unwrap();
    let views = views.split(';').nth(1).unwrap().split('"').skip(1).step_by(2);
    let own = views.map(|view| format!("/{view}")).chain(paths_beside_the_api());
    let own: Vec<_> = own.chain(["/graphql".to_owned(), "/graphql/x".to_owned()]).filter(|path| path != "/").collect();
    assert!(own.len() > 15 && own.contains(&"/system".to_owned()), "{own:?}");
    let malformed =
        ["noetl", "/", "/noetl/", "//noetl", "/a//b", "/a/../b", "/.", "/a b", "/{a}", "/a?b", "/%61", "/\u{e9}"];
    for path in own.iter().map(String::as_str).chain(malformed) {
        let output = check_config(&[("NOETL_BASE_PATH", path)]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(said.contains("NOETL_BASE_PATH is"), "{path}: {said}");
    }
}
