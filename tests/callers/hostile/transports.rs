//! Hostile requests of the transports: headers, URLs and socket messages.

use serde_json::json;

use super::corpus::{Corpus, Sent, parts};

const BOMB_DEPTH: usize = 24;

pub fn add(corpus: &mut Corpus) {
    headers(corpus);
    sockets(corpus);
}

fn headers(corpus: &mut Corpus) {
    let mut add = |name, expected, head: String| corpus.sent("headers", name, expected, Sent::Raw(head.into_bytes()));
    let post = |headers: &str, body: &str| {
        let length = body.len();
        format!(
            "POST /graphql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
        )
    };
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let simple = r#"{"query":"{ server { version } }"}"#;
    add(
        "as many headers as the server reads",
        "200",
        post(&parts(60, |index| format!("x-{index}: y\r\n")).replace("\r\n ", "\r\n"), simple),
    );
    add(
        "1,000 headers",
        "431",
        post(&parts(1_000, |index| format!("x-{index}: y\r\n")).replace("\r\n ", "\r\n"), simple),
    );
    add("a header of 1 MiB", "431", post(&format!("x: {}\r\n", "y".repeat(1 << 20)), simple));
    add("preferences in Accept", "200", post(&format!("accept: {}*/*\r\n", "a/b;q=0.1,".repeat(3_000)), simple));
    add(
        "parameters of the content type",
        "200",
        post(&format!("x-type: application/json{}\r\n", ";a=b".repeat(5_000)), simple),
    );
    let spreads = "%20...f".repeat(2_000);
    add("spreads in a URL", "200", get(&format!("/graphql?query=%7B{spreads}%20%7D")));
    add("parameters of a URL", "400", get(&format!("/graphql?{}", "a=b&".repeat(10_000))));
    add("encoded bytes in a URL", "200", get(&format!("/graphql?query={}", "%ff".repeat(10_000))));
}

fn sockets(corpus: &mut Corpus) {
    let mut add = |name, expected, messages| corpus.sent("socket messages", name, expected, Sent::Socket(messages));
    let subscribe = |query: &str, variables: serde_json::Value| {
        let payload = json!({ "query": query, "variables": variables });
        json!({ "type": "subscribe", "id": "1", "payload": payload }).to_string()
    };
    let fragments = parts(BOMB_DEPTH, |index| {
        format!("fragment f{index} on Subscription {{ {} }}", format!("...f{} ", index + 1).repeat(10))
    });
    let bomb = format!("subscription {{ ...f0 }} {fragments}");
    add("a bomb of fragments", "GRAPHQL_VALIDATION_FAILED", vec![subscribe(&bomb, json!({}))]);
    let roots = parts(99, |index| format!("s{index}: systemStatus {{ __typename }}"));
    add(
        "99 root fields",
        "GRAPHQL_VALIDATION_FAILED",
        vec![subscribe(&format!("subscription {{ {roots} }}"), json!({}))],
    );
    let undeclared = json!({ "unused": vec!["x"; 100_000] });
    add("undeclared variables", "ok", vec![subscribe("{ server { version } }", undeclared)]);
    let uses = format!(
        "subscription ($v: String!) {{ events(filter: {{ types: [{}] }}) {{ __typename }} }}",
        "$v ".repeat(2_000)
    );
    add(
        "a variable used 2,000 times",
        "LIMIT_EXCEEDED argument_bytes",
        vec![subscribe(&uses, json!({ "v": "x".repeat(300_000) }))],
    );
    add(
        "a message that is too big",
        "1009",
        vec![subscribe("{ server { version } }", json!({ "v": "x".repeat(1 << 20) }))],
    );
    add("no JSON", "4400", vec!["{".repeat(100_000)]);
    add(
        "a long id",
        "4400",
        vec![json!({ "type": "subscribe", "id": "x".repeat(500_000), "payload": {} }).to_string()],
    );
    let pings = vec![json!({ "type": "ping" }).to_string(); 500];
    add("500 pings", "pong", pings);
    add(
        "the key of raw JSON",
        "ok",
        vec![subscribe("{ server { version } }", json!({ "$serde_json::private::RawValue": "x" }))],
    );
    let repeated = vec![subscribe(&format!("{{ {} }}", "unknown ".repeat(1_900)), json!({})); 5];
    add("five documents of unknown fields", "GRAPHQL_VALIDATION_FAILED", repeated);
}
