//! Requests from pages of other sites or with foreign host names are refused. The application admits the other
//! requests.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use futures::FutureExt;
use graphql_transport::sites::{RouteKind, protect};
use graphql_transport::{Admitted, Caller, Permits, Refusal, Sites};
use reqwest::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, HOST, ORIGIN, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

use super::schema::CallerName;
use super::server::{Http2, Server, Socket, answer, client, code};

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_server() {
    let server = Server::start().await;
    let own = server.url("");
    let mutation = json!({ "query": "mutation { add(amount: 1) }" });
    for (origin, expected) in [
        (own.as_str(), StatusCode::OK),
        ("https://evil.example", StatusCode::FORBIDDEN),
        ("null", StatusCode::FORBIDDEN),
        ("http://127.0.0.1:1", StatusCode::FORBIDDEN),
    ] {
        let (status, _) = answer(server.request(&mutation).header(ORIGIN, origin)).await;
        assert_eq!(status, expected, "{origin}");
        let socket = server.socket_with("graphql-transport-ws", &[("origin", origin)]).await;
        assert_eq!(socket.is_ok(), expected == StatusCode::OK, "{origin}");
        let events = client().get(server.url_with("/graphql/stream", &[("query", "{ hello }")]));
        let events = events.header("accept", "text/event-stream").header(ORIGIN, origin).send().await.unwrap();
        assert_eq!(events.status(), expected, "{origin}");
    }
    let (status, refused) = answer(server.get(&[("query", "{ hello }")]).header("sec-fetch-site", "cross-site")).await;
    assert_eq!((status, code(&refused)), (StatusCode::FORBIDDEN, "FORBIDDEN"));
    assert_eq!(*server.probe.sum.borrow(), 1);
}

#[tokio::test]
async fn an_allowed_origin_is_admitted() {
    let server = Server::with(|edge| edge.sites.origins = vec!["https://console.example".into()]).await;
    let request = server.request(&json!({ "query": "{ hello }" })).header(ORIGIN, "https://console.example");
    assert_eq!(answer(request).await.0, StatusCode::OK);
    assert!(server.socket_with("graphql-transport-ws", &[("origin", "https://console.example")]).await.is_ok());
}

#[tokio::test]
async fn a_host_name_that_is_not_listed_is_refused_on_every_transport() {
    let server = Server::with(|edge| edge.sites.hosts = vec!["127.0.0.1".into(), "localhost".into()]).await;
    let mutation = json!({ "query": "mutation { add(amount: 1) }" });
    assert_eq!(answer(server.request(&mutation)).await.0, StatusCode::OK);
    let port = server.address.port();
    for (host, expected) in [
        (format!("localhost:{port}"), StatusCode::OK),
        (format!("LOCALHOST:{port}"), StatusCode::OK),
        (format!("rebound.example:{port}"), StatusCode::FORBIDDEN),
        ("localhost.rebound.example".into(), StatusCode::FORBIDDEN),
        (format!("localhost@rebound.example:{port}"), StatusCode::FORBIDDEN),
        (format!("rebound.example@localhost:{port}"), StatusCode::FORBIDDEN),
    ] {
        // After DNS rebinding, the page has the same host name as the request, so both headers agree.
        let origin = format!("http://{host}");
        let from_there = |request: RequestBuilder| request.header(HOST, &host).header(ORIGIN, &origin);
        assert_eq!(answer(from_there(server.request(&mutation))).await.0, expected, "{host}");
        assert_eq!(answer(from_there(server.get(&[("query", "{ hello }")]))).await.0, expected, "{host}");
        let events = client().get(server.url_with("/graphql/stream", &[("query", "{ hello }")]));
        let events = from_there(events.header(ACCEPT, "text/event-stream")).send().await.unwrap();
        assert_eq!(events.status(), expected, "{host}");
        let parts = server.request(&json!({ "query": "subscription { count(to: 1) }" }));
        let parts = parts.header(ACCEPT, "multipart/mixed;subscriptionSpec=1.0");
        assert_eq!(from_there(parts).send().await.unwrap().status(), expected, "{host}");
        let socket = server.socket_with("graphql-transport-ws", &[("host", &host), ("origin", &origin)]).await;
        assert_eq!(socket.map(drop), if expected == StatusCode::OK { Ok(()) } else { Err(expected) }, "{host}");
    }
}

/// Returns the status of a request whose host is in `:authority` (over HTTP/2) or only in the `Host` headers (over
/// HTTP/1.1). No client library sends such `Host` headers, so the HTTP/1.1 request is written by hand.
async fn status_of(server: &Server, authority: Option<&str>, hosts: &[&str]) -> StatusCode {
    let query = "/graphql?query=%7Bhello%7D";
    if let Some(authority) = authority {
        let mut request = Request::get(format!("http://{authority}{query}"));
        for host in hosts {
            request = request.header(HOST, *host);
        }
        return Http2::connect(server).await.send(request.body(Body::empty()).unwrap()).await.unwrap();
    }
    let hosts = hosts.iter().map(|host| format!("host: {host}\r\n")).collect::<Vec<_>>().concat();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(format!("GET {query} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn authority_and_host_header_must_both_be_listed_and_agree() {
    let server = Server::with(|edge| edge.sites.hosts = vec!["localhost".into(), "::1".into()]).await;
    for (authority, hosts, expected) in [
        (Some("localhost:1"), &[][..], StatusCode::OK),
        (Some("[::1]:1"), &[], StatusCode::OK),
        (Some("localhost:1"), &["localhost:1"], StatusCode::OK),
        (None, &["[::1]"], StatusCode::OK),
        (Some("rebound.example"), &[], StatusCode::FORBIDDEN),
        (Some("rebound.example"), &["localhost"], StatusCode::FORBIDDEN),
        (Some("localhost"), &["rebound.example"], StatusCode::FORBIDDEN),
        (None, &["localhost", "rebound.example"], StatusCode::FORBIDDEN),
        (None, &["localhost", "localhost"], StatusCode::FORBIDDEN),
        (None, &[], StatusCode::FORBIDDEN),
    ] {
        assert_eq!(status_of(&server, authority, hosts).await, expected, "{authority:?} {hosts:?}");
    }
}

#[tokio::test]
async fn preflights_succeed_for_listed_origins_only() {
    let server = Server::with(|edge| edge.sites.origins = vec!["https://console.example".into()]).await;
    let asked = "apollographql-client-name,authorization,baggage,content-type,sentry-trace";
    let preflight = |origin: &'static str, path: &str| {
        let request = client().request(Method::OPTIONS, server.url(path)).header(ORIGIN, origin);
        let request = request.header("access-control-request-method", "POST");
        request.header("access-control-request-headers", asked).send()
    };
    for path in ["/graphql", "/graphql/stream"] {
        let allowed = preflight("https://console.example", path).await.unwrap();
        assert!(allowed.status().is_success());
        let header = |name: &str| allowed.headers()[name].to_str().unwrap().to_ascii_lowercase();
        assert_eq!(header("access-control-allow-origin"), "https://console.example");
        assert_eq!(header("access-control-allow-methods"), "get,post");
        assert_eq!(header("access-control-allow-headers"), asked);
        assert!(header("vary").contains("origin") && header("vary").contains("access-control-request-headers"));
        assert!(!allowed.headers().contains_key("access-control-allow-credentials"));

        let refused = preflight("https://evil.example", path).await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN);
        for name in ["access-control-allow-origin", "access-control-allow-headers"] {
            assert!(!refused.headers().contains_key(name), "{name}");
        }
    }
    let request = server.request(&json!({ "query": "{ hello }" }));
    let response = request.header(ORIGIN, "https://console.example").send().await.unwrap();
    assert_eq!(response.headers()["access-control-allow-origin"], "https://console.example");
    let exposed = response.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("x-request-id") && exposed.contains("retry-after"), "{exposed}");
}

#[tokio::test]
async fn responses_have_no_cors_headers_without_listed_origins() {
    let server = Server::start().await;
    let request = client().request(Method::OPTIONS, server.url("/graphql")).header(ORIGIN, server.url(""));
    let response = request.header("access-control-request-method", "POST").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control")));
}

#[tokio::test]
async fn every_response_forbids_sniffing_and_caching() {
    let server = Server::start().await;
    let hello = json!({ "query": "{ hello }" });
    for request in [
        server.request(&hello),
        server.request(&hello).header(ORIGIN, "https://evil.example"),
        client().put(server.url("/graphql")),
        client().get(server.url_with("/graphql/stream", &[("query", "{ hello }")])).header(ACCEPT, "text/event-stream"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }
}

#[tokio::test]
async fn probes_and_pages_have_no_cors_headers_and_other_sites_may_only_link_to_pages() {
    let sites = Sites { origins: vec!["https://console.example".into()], hosts: Vec::new() };
    let response = async |kind: RouteKind, path: &str, origin: &str| {
        let cached = ([(CACHE_CONTROL, "max-age=60")], "cached");
        let routes = Router::new().route("/plain", get("plain")).route("/cached", get(cached));
        let request = Request::get(path).header(HOST, "x").header(ORIGIN, origin).body(Body::empty()).unwrap();
        protect(routes, &sites, kind).oneshot(request).await.unwrap()
    };
    for (kind, cors, status_for_others, cache_control) in [
        (RouteKind::Api, true, StatusCode::FORBIDDEN, Some("no-store")),
        (RouteKind::Probes, false, StatusCode::FORBIDDEN, Some("no-store")),
        (RouteKind::Pages, false, StatusCode::OK, None),
    ] {
        let allowed = response(kind, "/plain", "https://console.example").await;
        assert_eq!(allowed.status(), StatusCode::OK, "{kind:?}");
        let header = |name: &str| allowed.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("access-control-allow-origin").is_some(), cors, "{kind:?}");
        assert_eq!(header("cache-control"), cache_control, "{kind:?}");
        assert_eq!(header("x-content-type-options"), Some("nosniff"), "{kind:?}");
        assert_eq!(response(kind, "/plain", "https://evil.example").await.status(), status_for_others, "{kind:?}");
        let cached = response(kind, "/cached", "https://console.example").await;
        assert_eq!(cached.headers()[CACHE_CONTROL], "max-age=60", "{kind:?}");
    }
}

/// Starts a server that admits the token `good`, forbids `bad`, and does not know any other.
async fn guarded() -> Server {
    Server::with(|edge| {
        edge.admit = Some(Arc::new(|caller| std::future::ready(admit(&caller)).boxed()));
    })
    .await
}

fn admit(caller: &Caller) -> Result<Admitted, Refusal> {
    let header = caller.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let payload = caller.init.as_ref().and_then(|init| init.get("token")?.as_str());
    match payload.or(header) {
        Some("good") => {
            Ok(Admitted::anonymous(Arc::new(|request: async_graphql::Request| request.data(CallerName("good".into())))))
        }
        Some("bad") => Err(Refusal::Forbidden),
        _ => Err(Refusal::Unauthenticated),
    }
}

#[tokio::test]
async fn http_callers_are_admitted_by_their_headers() {
    let server = guarded().await;
    let request = |token: &str| server.request(&json!({ "query": "{ caller }" })).header(AUTHORIZATION, token);
    assert_eq!(answer(request("good")).await.1, json!({ "data": { "caller": "good" } }));
    let (status, refused) = answer(request("bad")).await;
    assert_eq!((status, code(&refused)), (StatusCode::FORBIDDEN, "FORBIDDEN"));
    let refused = request("?").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers()[WWW_AUTHENTICATE], "Bearer");
    assert_eq!(*server.probe.prepared.borrow(), 1);
}

#[tokio::test]
async fn sockets_are_admitted_by_their_first_message() {
    let server = guarded().await;
    let mut socket = server.raw_socket().await;
    socket.send(json!({ "type": "connection_init", "payload": { "token": "good" } })).await;
    assert_eq!(socket.next().await["type"], "connection_ack");
    socket.subscribe("1", "{ caller }").await;
    assert_eq!(socket.next().await["payload"], json!({ "data": { "caller": "good" } }));

    for payload in [json!({ "token": "bad" }), json!({})] {
        let mut socket: Socket = server.raw_socket().await;
        socket.send(json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(socket.close().await, (4403, "Forbidden".into()));
    }
}

#[tokio::test]
async fn a_caller_without_the_permit_cannot_read_the_schema() {
    let server = Server::with(|edge| {
        edge.admit = Some(Arc::new(|_| {
            let anonymous = Admitted::anonymous(Arc::new(|request| request));
            let permits = Permits { introspection: false, ..Permits::ALL };
            std::future::ready(Ok(Admitted { permits, ..anonymous })).boxed()
        }));
    })
    .await;
    for (query, expected) in [
        ("{ __schema { queryType { name } } }", "FORBIDDEN"),
        ("{ hello a: __type(name: \"Query\") { name } }", "FORBIDDEN"),
        ("{ ...f } fragment f on Query { __schema { queryType { name } } }", "FORBIDDEN"),
        ("{ hello }", "none"),
        ("{ hello __typename }", "none"),
        ("{ hello __schema @skip(if: true) { queryType { name } } }", "none"),
    ] {
        assert_eq!(code(&server.post(query).await), expected, "{query}");
    }
}
