//! What subscriptions hold is limited by bytes, for each caller. Other callers are served meanwhile.

use std::collections::BTreeMap;

use noetl_testkit::{Deployment, Live, Server, TokenFile, http_client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const SOCKETS: usize = 3;
const ON_EACH: usize = 100;
/// Maximum estimated memory of all subscriptions, in MiB. A caller may have half of it: about 150 of its subscriptions.
const LIVE_MIB: &str = "64";
/// Limit of the additional resident memory of one caller's subscriptions.
const MEMORY_MIB: u64 = 56;
const EVENTS: &str = "subscription($ids: [ID!]) { events(filter: { executionIds: $ids }) { __typename } }";

/// Opens a socket of a caller.
async fn socket(server: &Server, token: &str) -> Live {
    let payload = json!({ "authorization": format!("Bearer {token}") });
    let mut socket = Live::init(&server.url, &[], payload).await.unwrap();
    assert_eq!(socket.message().await.unwrap()["type"], "connection_ack");
    socket
}

/// Starts subscriptions on a socket. Returns the number of those that are refused, by code.
async fn subscribe(socket: &mut Live, ids: &[String]) -> BTreeMap<String, usize> {
    let mut refused = BTreeMap::new();
    for n in 0..ON_EACH {
        socket.subscribe_as(&n.to_string(), EVENTS, json!({ "ids": ids })).await.unwrap();
    }
    // The server reads the messages of a socket in their order.
    socket.subscribe_as("last", "{ server { version } }", Value::Null).await.unwrap();
    loop {
        let message = socket.message().await.unwrap();
        match (message["type"].as_str().unwrap(), message["id"].as_str().unwrap()) {
            ("error" | "next", "last") => return refused,
            ("error", _) => {
                let code = message["payload"][0]["extensions"]["code"].as_str().unwrap().to_owned();
                *refused.entry(code).or_default() += 1;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn subscriptions_hold_bounded_memory_and_other_callers_are_served() {
    let tokens = TokenFile::new();
    let of = |subject| tokens.add(&["--role", "viewer", "--subject", subject]);
    let (attacker, victim) = (of("attacker"), of("victim"));
    let deployment = Deployment::start(1).await;
    let (name, path) = tokens.setting();
    let server = deployment.replica_with(&[(name, &path), ("NOETL_MAX_LIVE_MIB", LIVE_MIB)]).await;
    deployment.feeds_begun().await;
    let before = server.peak_memory() >> 20;
    let enough = CancellationToken::new();
    let attack = async {
        let ids: Vec<String> = (0..1000).map(|n| format!("384976633385{n:06}")).collect();
        let (mut sockets, mut refused) = (Vec::new(), BTreeMap::new());
        for _ in 0..SOCKETS {
            let mut socket = socket(&server, &attacker).await;
            for (code, count) in subscribe(&mut socket, &ids).await {
                *refused.entry(code).or_insert(0) += count;
            }
            sockets.push(socket);
        }
        // Another caller has a share of its own.
        let mut other = socket(&server, &victim).await;
        other.subscribe_as("1", EVENTS, json!({ "ids": ids })).await.unwrap();
        assert_eq!(other.message().await.unwrap()["type"], "next");
        enough.cancel();
        refused
    };
    let innocent = async {
        let mut served = 0;
        while !enough.is_cancelled() {
            let answer = server.send_as(&victim, "{ executions(first: 5) { nodes { id } } }", Value::Null).await;
            assert_eq!(answer.get("errors"), None, "{answer}");
            served += 1;
        }
        served
    };
    let (refused, served) = tokio::join!(attack, innocent);
    let grown = (server.peak_memory() >> 20) - before;
    println!("{grown} MiB; refused: {refused:?}; served: {served}");
    assert_eq!(refused.keys().collect::<Vec<_>>(), ["OVERLOADED"]);
    assert!(served > 0 && refused["OVERLOADED"] > 0);
    assert!(grown < MEMORY_MIB, "{grown} MiB for the subscriptions of one caller");
    a_large_subscription_is_refused_over_every_transport(&server, &victim).await;
}

/// The text of one subscription is limited too.
async fn a_large_subscription_is_refused_over_every_transport(server: &Server, token: &str) {
    let ids = vec!["1".repeat(18); 3_000];
    let mut live = socket(server, token).await;
    live.subscribe(EVENTS, json!({ "ids": ids })).await.unwrap();
    let limit = |error: &Value| error["extensions"]["limit"].clone();
    assert_eq!(limit(&live.errors().await[0]), "subscription_bytes");
    let body = json!({ "query": EVENTS, "variables": { "ids": ids } });
    let post = |path: &str, accept| {
        let request = http_client().post(format!("{}{path}", server.url)).bearer_auth(token);
        request.header("accept", accept).json(&body).send()
    };
    let stream = post("/graphql/stream", "text/event-stream").await.unwrap().text().await.unwrap();
    assert!(stream.contains("subscription_bytes"), "{stream}");
    let parts = post("/graphql", "multipart/mixed;subscriptionSpec=1.0, application/json").await.unwrap();
    let parts = parts.text().await.unwrap();
    assert!(parts.contains("subscription_bytes"), "{parts}");
}
