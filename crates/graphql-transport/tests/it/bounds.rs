//! Limits of requests. Without these limits, the documents here would cost gigabytes of memory or minutes of time.

use std::fmt::Write;

use graphql_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::{Server, answer, code, soon};

/// Returns the limit that a response names.
fn limit(answer: &Value) -> &str {
    assert_eq!(code(answer), "LIMIT_EXCEEDED", "{answer}");
    answer["errors"][0]["extensions"]["limit"].as_str().unwrap()
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_by_its_declared_length() {
    let server = Server::limited(Limits { body_bytes: 1_000, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1001\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // No byte of the body is sent.
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("LIMIT_EXCEEDED"), "{answer}");
}

#[tokio::test]
async fn an_endless_body_is_refused_at_the_limit() {
    let server = Server::limited(Limits { body_bytes: 100_000, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // No number of these chunks has exactly the limit.
    let chunk = format!("3e7\r\n{}\r\n", " ".repeat(999));
    for _ in 0..=100 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    // The client does not end the body, and the server does not wait for its end.
    let mut status = [0; 12];
    soon(stream.read_exact(&mut status)).await.unwrap();
    assert_eq!(status, *b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_accepted() {
    let server = Server::limited(Limits { body_bytes: 1_000, ..Limits::default() }).await;
    for (bytes, expected) in [(1_000, "HTTP/1.1 200"), (1_001, "HTTP/1.1 413")] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = format!("{:bytes$}", r#"{"query": "{ hello }"}"#);
        let head = "POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close";
        let request = format!("{head}\r\ncontent-length: {bytes}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        soon(stream.read_exact(&mut status)).await.unwrap();
        assert_eq!(status, *expected.as_bytes(), "{bytes} bytes");
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_gets_a_timeout() {
    let server =
        Server::limited(Limits { body_timeout: std::time::Duration::from_millis(50), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /graphql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_body_with_too_many_values_is_refused() {
    let server = Server::limited(Limits { json_values: 1_000, ..Limits::default() }).await;
    let rich = |count: usize| json!({ "query": "{ hello }", "variables": { "unused": vec![1; count] } });
    // The rest of the body has 6 values and keys.
    let (status, refused) = answer(server.request(&rich(995))).await;
    assert_eq!((status, code(&refused)), (StatusCode::PAYLOAD_TOO_LARGE, "LIMIT_EXCEEDED"));
    let (status, _) = answer(server.request(&rich(994))).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn large_variables_do_not_count_as_document_size() {
    let server = Server::start().await;
    let text = "x".repeat(8 << 20);
    let body = json!({ "query": "query ($text: String!) { echo(text: $text) }", "variables": { "text": text } });
    let (_, answer) = answer(server.request(&body)).await;
    assert_eq!(answer["data"]["echo"].as_str().map(str::len), Some(8 << 20));
}

#[tokio::test]
async fn documents_over_a_limit_are_refused_before_they_run() {
    let server = Server::start().await;
    let aliases: String = (0..101).fold(String::new(), |mut text, index| {
        write!(text, "a{index}: hello ").unwrap();
        text
    });
    let deep = format!("{{ {} name {} }}", "pages { nodes { ".repeat(8), "} ".repeat(16));
    let wide = format!("{{ {} }}", "hello ".repeat(2_001));
    let costly =
        "{ pages(first: 100) { nodes { pages(first: 100) { nodes { pages(first: 100) { nodes { name } } } } } } }";
    let inline = format!("{{ {} hello {} }}", "... { ".repeat(31), "} ".repeat(31));
    let list = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(" ");
    let operations = list(21, &|index| format!("query Q{index} {{ hello }}"));
    let variables = format!("query ({}) {{ hello }}", list(101, &|index| format!("$v{index}: Int")));
    let arguments = list(31, &|index| format!("a{index}: 1"));
    let directives = list(11, &|index| format!("@d{index}"));
    for (document, expected) in [
        (deep.as_str(), "depth"),
        (&wide, "fields"),
        (&format!("{{ {aliases} }}"), "aliases"),
        (costly, "cost"),
        (&inline, "nesting"),
        (&operations, "operations"),
        (&variables, "variables"),
        (&format!("{{ hello({arguments}) }}"), "arguments"),
        (&format!("{{ hello @skip({arguments}) }}"), "arguments"),
        (&format!("{{ hello {directives} }}"), "directives"),
        (&format!("query {directives} {{ hello }}"), "directives"),
        (&format!("{{ hello {} }}", "@x ".repeat(10_001)), "tokens"),
        (&format!("{{ echo(text: {}1{}) }}", "[".repeat(5_000), "]".repeat(5_000)), "brackets"),
        (&format!("{{ hello }} # {}", "x".repeat(256 << 10)), "document_bytes"),
    ] {
        let (status, refused) = server.post_strict(document).await;
        assert_eq!((status, limit(&refused)), (StatusCode::BAD_REQUEST, expected));
    }
    assert_eq!(*server.probe.prepared.borrow(), 0);
}

#[tokio::test]
async fn exponentially_nested_fragments_are_refused() {
    let server = Server::start().await;
    let mut bomb = "{ ...f0 }".to_owned();
    for index in 0..25 {
        let next = format!("...f{} ", index + 1).repeat(10);
        write!(bomb, " fragment f{index} on Query {{ {next} }}").unwrap();
    }
    bomb.push_str(" fragment f25 on Query { hello }");
    assert_eq!(limit(&server.post(&bomb).await), "fields");
    // The same document with a cycle, and in an operation that is not selected.
    let cyclic = bomb.replace("{ hello }", "{ ...f0 }");
    assert_eq!(code(&server.post(&cyclic).await), "GRAPHQL_VALIDATION_FAILED");
    let unused = bomb.replacen("{ ...f0 }", "query A { hello } query B { ...f0 }", 1);
    let body = json!({ "query": unused, "operationName": "A" });
    assert_eq!(limit(&answer(server.request(&body)).await.1), "fields");
}

#[tokio::test]
async fn the_cost_of_an_operation_uses_page_sizes_from_variables() {
    let server = Server::start().await;
    let query = "query ($n: Int) { pages(first: $n) { nodes { pages(first: $n) { nodes { name } } } } }";
    let ask = |n: i32| answer(server.request(&json!({ "query": query, "variables": { "n": n } })));
    assert_eq!(ask(50).await.1.get("errors"), None);
    assert_eq!(limit(&ask(1_000).await.1), "cost");
}

#[tokio::test]
async fn a_response_has_the_cost_of_its_operation_on_request() {
    let server = Server::start().await;
    let query = "query ($n: Int) { pages(first: $n) { nodes { name } } }";
    let ask = async |n: i32, extensions: Value| {
        let body = json!({ "query": query, "variables": { "n": n }, "extensions": extensions });
        answer(server.request(&body)).await.1
    };
    let allowed = Limits::default().cost;
    let cost = |actual: u64| json!({ "cost": { "actual": actual, "allowed": allowed } });
    let [ten, twenty] = [ask(10, json!({ "cost": true })).await, ask(20, json!({ "cost": true })).await];
    let actual = ten["extensions"]["cost"]["actual"].as_u64().unwrap();
    assert!(actual > 10, "{ten}");
    assert_eq!(ten["extensions"], cost(actual));
    assert!(twenty["extensions"]["cost"]["actual"].as_u64().unwrap() > actual, "{twenty}");
    for extensions in [json!({}), json!({ "cost": false }), json!({ "cost": "true" }), json!({ "cost": [1] })] {
        assert_eq!(ask(10, extensions).await.get("extensions"), None);
    }
    let mut socket = server.socket().await;
    let payload = json!({ "query": "subscription { count(to: 2) }", "extensions": { "cost": true } });
    socket.send(json!({ "type": "subscribe", "id": "1", "payload": payload })).await;
    for _ in 0..2 {
        assert_eq!(socket.next().await["payload"]["extensions"]["cost"]["allowed"], allowed);
    }
}

#[tokio::test]
async fn the_introspection_query_of_common_tools_is_within_the_limits() {
    let server = Server::start().await;
    let answer = server.post(include_str!("introspection.graphql")).await;
    assert_eq!(answer.get("errors"), None);
    let types = answer["data"]["__schema"]["types"].as_array().unwrap();
    let point = types.iter().find(|one| one["name"] == "Point").unwrap();
    assert_eq!((&point["kind"], &point["isOneOf"]), (&json!("INPUT_OBJECT"), &json!(false)));
}

#[tokio::test]
async fn a_response_over_the_limit_is_not_sent_on_any_transport() {
    let server = Server::limited(Limits { response_bytes: 1_000, ..Limits::default() }).await;
    let echo = |bytes: usize| format!(r#"{{ echo(text: "{}") }}"#, "x".repeat(bytes));
    // `{"data":{"echo":"…"}}` has 20 bytes around the text.
    let (fitting, passing) = (echo(980), echo(981));
    assert_eq!(server.post(&fitting).await["data"]["echo"].as_str().map(str::len), Some(980));
    let (status, refused) = server.post_strict(&passing).await;
    assert_eq!((status, limit(&refused)), (StatusCode::BAD_REQUEST, "response_bytes"));
    assert_eq!(limit(&answer(server.get(&[("query", &passing)])).await.1), "response_bytes");
    let mut socket = server.socket().await;
    socket.send(json!({ "id": "1", "type": "subscribe", "payload": { "query": passing } })).await;
    let message = socket.next().await;
    assert_eq!(
        (&message["type"], &message["payload"][0]["extensions"]["limit"]),
        (&json!("error"), &json!("response_bytes"))
    );
}
