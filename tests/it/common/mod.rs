//! What tests stand on: a deployment of their own, replicas that are real processes, clients that only use the API.

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

/// Longer than anything here may take; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Tries until `probe` answers, and panics with `what` after [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
