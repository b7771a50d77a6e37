//! Trusted documents over every transport: selected by id, or refused.

use std::sync::Arc;

use futures::FutureExt;
use graphql_transport::trusted::{Manifest, Mode, Trusted, UnknownMode, sha256};
use graphql_transport::{Admitted, Permits};
use reqwest::StatusCode;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use super::server::{GRAPHQL_RESPONSE, Server, answer, client, code, soon};

const QUERY: &str = "query Echo($text: String!) { echo(text: $text) }";
const MUTATION: &str = "mutation { add(amount: 1) }";
const SUBSCRIPTION: &str = "subscription { count(to: 1) }";
const FREE: &str = "{ hello }";

#[test]
fn a_mode_has_a_name() {
    for (name, mode) in [("off", Mode::Off), ("warn", Mode::Warn), ("enforce", Mode::Enforce)] {
        assert_eq!((name.parse(), mode.to_string().as_str()), (Ok(mode), name));
    }
    assert_eq!("Off".parse::<Mode>(), Err(UnknownMode));
}

async fn server(mode: Mode, any_document: bool) -> Server {
    let documents: serde_json::Map<_, _> =
        [QUERY, MUTATION, SUBSCRIPTION].map(|text| (sha256(text), Value::from(text))).into_iter().collect();
    let manifest = Manifest::from_json(&Value::from(documents).to_string()).unwrap();
    Server::with(|edge| {
        edge.trusted = Trusted { manifest: Arc::new(manifest), mode };
        edge.admit = Some(Arc::new(move |_| {
            let anonymous = Admitted::anonymous(Arc::new(|request| request));
            let permits = Permits { any_document, ..Permits::ALL };
            std::future::ready(Ok(Admitted { permits, ..anonymous })).boxed()
        }));
    })
    .await
}

/// Returns the first result of a payload over each of POST, GET, WebSocket, event stream and multipart.
async fn results(server: &Server, payload: &Value) -> Vec<Value> {
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    let json = |name: &str| payload.get(name).map(Value::to_string);
    let parameters = [
        ("query", text("query")),
        ("documentId", text("documentId")),
        ("variables", json("variables")),
        ("extensions", json("extensions")),
    ];
    let parameters: Vec<(&str, String)> =
        parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut results = vec![answer(server.request(payload)).await.1, answer(server.get(&parameters)).await.1];

    let mut socket = server.socket().await;
    socket.send(json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    let message = socket.next().await;
    results.push(if message["type"] == "error" {
        json!({ "errors": message["payload"] })
    } else {
        message["payload"].clone()
    });

    let events = client().get(server.url_with("/graphql/stream", &parameters)).header(ACCEPT, "text/event-stream");
    let events = soon(events.send().await.unwrap().text()).await.unwrap();
    let data = events.split("event: next\ndata: ").nth(1).unwrap();
    results.push(serde_json::from_str(data.split("\n\n").next().unwrap()).unwrap());

    let parts = server.request(payload).header(ACCEPT, "multipart/mixed;subscriptionSpec=1.0");
    let parts = soon(parts.send().await.unwrap().text()).await.unwrap();
    results.push(match parts.split_once("{\"payload\":") {
        Some((_, payload)) => serde_json::from_str(payload.split("}\r\n").next().unwrap()).unwrap(),
        None => serde_json::from_str(&parts).unwrap(),
    });
    results
}

#[tokio::test]
async fn documents_are_selected_by_id_over_every_transport() {
    for mode in [Mode::Off, Mode::Warn, Mode::Enforce] {
        let server = server(mode, false).await;
        let (id, variables) = (sha256(QUERY), json!({ "text": "x" }));
        for payload in [
            json!({ "documentId": id, "variables": variables }),
            json!({ "documentId": format!("sha256:{id}"), "variables": variables }),
            json!({ "extensions": { "persistedQuery": { "version": 1, "sha256Hash": id } }, "variables": variables }),
            json!({ "query": QUERY, "variables": variables }),
        ] {
            for result in results(&server, &payload).await {
                assert_eq!(result, json!({ "data": { "echo": "x" } }), "{payload}");
            }
        }
        for unknown in [sha256("{ other }"), "x".to_owned(), sha256(QUERY).to_uppercase()] {
            for result in results(&server, &json!({ "documentId": unknown })).await {
                assert_eq!(code(&result), "DOCUMENT_NOT_FOUND", "{result}");
                assert_eq!(result.get("data"), None);
            }
        }
    }
}

#[tokio::test]
async fn other_documents_run_unless_the_manifest_is_enforced_for_the_caller() {
    for (mode, any_document, runs) in [
        (Mode::Off, false, true),
        (Mode::Warn, false, true),
        (Mode::Enforce, true, true),
        (Mode::Enforce, false, false),
    ] {
        let server = server(mode, any_document).await;
        for result in results(&server, &json!({ "query": FREE })).await {
            let expected = if runs { "none" } else { "DOCUMENT_NOT_TRUSTED" };
            assert_eq!(code(&result), expected, "{mode:?} {result}");
        }
    }
    let server = server(Mode::Enforce, false).await;
    // A known id or a known name does not make another text trusted.
    for forged in [
        json!({ "query": FREE, "documentId": sha256(QUERY) }),
        json!({ "query": FREE, "extensions": { "persistedQuery": { "version": 1, "sha256Hash": sha256(QUERY) } } }),
        json!({ "query": format!("{MUTATION} ") }),
    ] {
        let (status, result) = answer(server.request(&forged).header(ACCEPT, GRAPHQL_RESPONSE)).await;
        assert_eq!((status, code(&result)), (StatusCode::BAD_REQUEST, "DOCUMENT_NOT_TRUSTED"), "{forged}");
    }
    assert_eq!(*server.probe.sum.borrow(), 0);
}

#[tokio::test]
async fn selected_documents_keep_the_rules_of_their_transport() {
    let server = server(Mode::Enforce, false).await;
    let (status, _) = answer(server.get(&[("documentId", &sha256(MUTATION))])).await;
    assert_eq!((status, *server.probe.sum.borrow()), (StatusCode::METHOD_NOT_ALLOWED, 0));
    let (status, _) = answer(server.request(&json!({ "documentId": sha256(SUBSCRIPTION) }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for nothing in [json!({}), json!({ "variables": {} })] {
        let (status, refused) = answer(server.request(&nothing)).await;
        assert_eq!((status, code(&refused)), (StatusCode::BAD_REQUEST, "BAD_REQUEST"));
    }
}
