//! Test environment: each test has a deployment of its own, replicas are real processes, clients use only the API.

mod clock;
mod deployment;
pub mod feed;
mod live;
mod log;
pub mod messages;
pub mod outbox;
pub mod proxy;
pub mod server;
pub mod tokens;
pub mod worker;
pub mod writer;

pub use deployment::Deployment;
pub use live::Live;
pub use log::LifecycleEvent;
pub use server::{Server, binary, pass};
pub use tokens::TokenFile;

use std::time::Duration;

/// Time limit of every wait. A test that waits longer fails.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Calls `probe` until it returns `Some`. Panics with `what` after [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < give_up, "timed out while waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
