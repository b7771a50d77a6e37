//! Compression of responses.

use std::io::Read;

use flate2::read::GzDecoder;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, VARY};
use serde_json::json;

use super::server::Server;

const ECHO: &str = "query ($text: String!) { echo(text: $text) }";

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_gzip() {
    let server = Server::start().await;
    for (bytes, accepted, expected) in [
        (1_025, "gzip, deflate, br", Some("gzip")),
        (300_000, "br, gzip;q=0.5", Some("gzip")),
        (1_024, "gzip", None),
        (2_000, "", None),
        (2_000, "br", None),
        (2_000, "gzip;q=0", None),
        (2_000, "br, *;q=0", None),
    ] {
        let envelope = r#"{"data":{"echo":""}}"#.len();
        let text: String = ('a'..='z').cycle().take(bytes - envelope).collect();
        let variables = json!({ "text": text });
        let mut requests = vec![server.request(&json!({ "query": ECHO, "variables": variables }))];
        if bytes < 10_000 {
            requests.push(server.get(&[("query", ECHO), ("variables", &variables.to_string())]));
        }
        for request in requests {
            let response = request.header(ACCEPT_ENCODING, accepted).send().await.unwrap();
            let header =
                |name: HeaderName| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header(CONTENT_ENCODING).as_deref(), expected, "{bytes} {accepted}");
            assert_eq!(header(VARY).as_deref(), (bytes > 1_024).then_some("accept-encoding"), "{bytes} {accepted}");
            let body = response.bytes().await.unwrap();
            let mut plain = String::new();
            if expected.is_some() {
                assert!(body.len() < bytes / 2, "{} of {bytes}", body.len());
                GzDecoder::new(&body[..]).read_to_string(&mut plain).unwrap();
            } else {
                plain.push_str(std::str::from_utf8(&body).unwrap());
            }
            assert_eq!(plain, format!(r#"{{"data":{{"echo":"{text}"}}}}"#), "{accepted}");
        }
    }
}

#[tokio::test]
async fn streams_are_not_compressed() {
    let server = Server::start().await;
    for accept in ["text/event-stream", "multipart/mixed;subscriptionSpec=1.0"] {
        let request = server.request(&json!({ "query": "subscription { endless(bytes: 2000) }" }));
        let response = request.header(ACCEPT, accept).header(ACCEPT_ENCODING, "gzip").send().await.unwrap();
        let (kind, _) = accept.split_once(';').unwrap_or((accept, ""));
        assert!(response.headers()[CONTENT_TYPE].to_str().unwrap().starts_with(kind));
        assert_eq!(response.headers().get(CONTENT_ENCODING), None, "{accept}");
    }
}
