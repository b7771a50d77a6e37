//! Set-up of the tests and benchmarks of `noetl-graphql`: each test has a deployment of its own, replicas are real
//! processes, and clients use only the API. Everything that two test files need is here, so that no test file uses
//! another.
//!
//! `NOETL_TEST_PG` names the PostgreSQL server on which deployments create their databases.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock, tasks and the environment directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::missing_panics_doc, reason = "every function panics if its step of a test fails")]
#![allow(clippy::must_use_candidate, clippy::new_without_default, reason = "only tests call these functions")]
#![allow(clippy::similar_names, reason = "similar names such as `won` and `one` are clear in tests")]

pub mod broker_cluster;
mod broker_store;
mod clock;
pub mod copies;
mod database_rows;
mod deployment;
pub mod dumps;
pub mod feed;
mod history;
pub mod levels;
mod live;
mod many_rows;
mod memory;
pub mod messages;
pub mod mover;
pub mod moves;
pub mod outbox;
pub mod pages;
pub mod plans;
mod postgres;
pub mod projections;
pub mod proxy;
pub mod random;
pub mod recorder;
pub mod recordings;
mod server;
mod sessions;
mod sources;
mod test_database;
mod tokens;
pub mod traffic;
mod watched_check;
pub mod worker;
pub mod writer;

pub use broker_store::copy_folder;
pub use clock::slow_clock;
pub use database_rows::{LifecycleEvent, QUIET};
pub use deployment::Deployment;
pub use live::{Handshake, Live};
pub use postgres::{NOT_DURABLE, limit_files, own_postgres};
pub use server::{Server, binary, execute_input, http_client, sleep_in_scenario};
pub use sources::{repository, sources};
pub use tokens::TokenFile;
pub use watched_check::Checked;

use std::time::Duration;

use serde_json::Value;

/// Time limit of every wait. A test that waits longer fails.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Calls `probe` until it returns `Some`, every 20 ms at first and every 100 ms after 2 s, because a call costs the server
/// more than the wait. Panics with `what` after [`WAIT_TIMEOUT`].
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = tokio::time::Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        let waited = begun.elapsed();
        assert!(waited < WAIT_TIMEOUT, "timed out while waiting for: {what}");
        tokio::time::sleep((waited / 20).clamp(Duration::from_millis(20), Duration::from_millis(100))).await;
    }
}

/// Sends a mutation as a client does: again while an error of its payload is retryable, as the errors of a busy database
/// are. Such a mutation may have been carried out. Returns the last payload, and the number of times that it was sent.
pub async fn repeated(mut mutation: impl AsyncFnMut() -> Value) -> (Value, usize) {
    let mut times = 0;
    let payload = eventually("the mutation is carried out or refused", async || {
        times += 1;
        let payload = mutation().await;
        (payload["userErrors"][0]["retryable"] != true).then_some(payload)
    })
    .await;
    (payload, times)
}

/// Returns the code of the first error of a response, or `none`.
pub fn error_code(response: &Value) -> &str {
    response["errors"][0]["extensions"]["code"].as_str().unwrap_or("none")
}

/// Returns the number that an environment variable has, or the default.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Returns the second value if the environment variable `NOETL_LONG_TESTS` is set, as `make soak` does, else the first one.
/// For tests that need many rows or rounds to find rare faults, and that keep the same promise with fewer.
#[must_use]
pub fn size<T>(short: T, long: T) -> T {
    if std::env::var_os("NOETL_LONG_TESTS").is_some() { long } else { short }
}
