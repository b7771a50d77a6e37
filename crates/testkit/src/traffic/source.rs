//! Sources of messages.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::client::Client;
use super::{PLAYBOOK, Traffic};

const EXECUTE: &str = "mutation($input: ExecuteInput!) { done: execute(input: $input) {
    executionId outcome differs userErrors { code message retryable } } }";
/// Dedup window in seconds; longer than any run.
const WINDOW: u64 = 86_400;

/// Sends one message after another until the traffic stops.
pub(super) async fn send(traffic: &Traffic, mut client: Client<'_>) {
    loop {
        traffic.in_flight.acquire().await.expect("the semaphore is open").forget();
        if traffic.is_stopped() {
            traffic.in_flight.add_permits(1);
            return;
        }
        let message = traffic.next.fetch_add(1, Ordering::Relaxed);
        start(traffic, &mut client, message).await;
    }
}

/// Sends the messages from `next` on again that were sent before. Several sources share `next`.
pub(super) async fn repeat(traffic: &Traffic, mut client: Client<'_>, next: &AtomicU64) {
    let sent = traffic.next.load(Ordering::Relaxed);
    loop {
        let message = next.fetch_add(1, Ordering::Relaxed);
        if message >= sent {
            return;
        }
        start(traffic, &mut client, message).await;
    }
}

/// Starts the execution of a message, at times with several requests.
async fn start(traffic: &Traffic, client: &mut Client<'_>, message: u64) {
    let variables = json!({ "input": {
        "entry": { "path": PLAYBOOK },
        "parentExecutionId": traffic.subscription,
        "workload": { "n": message },
        "dedup": { "key": format!("message-{message}"), "windowSeconds": WINDOW },
    } });
    if client.once_in(10) {
        client.send_and_vanish(EXECUTE, &variables).await;
    }
    if client.once_in(8) {
        for payload in client.until_done_twice(EXECUTE, &variables).await {
            traffic.note_started(message, execution(&payload));
        }
    } else {
        let payload = client.until_done(EXECUTE, &variables).await;
        traffic.note_started(message, execution(&payload));
    }
}

fn execution(payload: &Value) -> i64 {
    assert_ne!(payload["differs"], true, "{payload}");
    payload["executionId"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{payload}"))
}
