//! Who may come in: pages of other sites may not, and the application decides on the rest.

use std::sync::Arc;

use async_graphql::Request;
use futures::FutureExt;
use noetl_graphql::http::{Admitted, Caller, Refusal};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use serde_json::json;

use super::schema::CallerName;
use super::server::{Server, Socket, answer, client, code};

#[tokio::test]
async fn a_page_of_another_site_can_not_use_the_server() {
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
async fn a_name_that_is_not_the_servers_is_refused() {
    let server = Server::with(|edge| edge.sites.hosts = vec!["127.0.0.1".into(), "localhost".into()]).await;
    let mutation = json!({ "query": "mutation { add(amount: 1) }" });
    assert_eq!(answer(server.request(&mutation)).await.0, StatusCode::OK);
    let port = server.address.port();
    for (host, expected) in [
        (format!("localhost:{port}"), StatusCode::OK),
        (format!("rebound.example:{port}"), StatusCode::FORBIDDEN),
        ("localhost.rebound.example".into(), StatusCode::FORBIDDEN),
    ] {
        let request = server.request(&mutation).header(HOST, &host).header(ORIGIN, format!("http://{host}"));
        assert_eq!(answer(request).await.0, expected, "{host}");
    }
}

/// Admits `good`, forbids `bad`, knows nobody else.
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
        Some("good") => Ok(Admitted::anonymous(Arc::new(|request: Request| request.data(CallerName("good".into()))))),
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
