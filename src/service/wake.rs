//! Hints that a shard has fresh events. A hint is only ever a shortcut: whoever waits for it polls as well.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::domain::shard::ShardIndex;

/// One bell per shard; ringing wakes the one who waits, or the next who comes to wait.
#[derive(Debug, Clone)]
pub struct Wakes(Arc<[Notify]>);

impl Wakes {
    /// Bells for this many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Notify::new()).collect())
    }

    /// Says that a shard has fresh events.
    pub fn ring(&self, shard: ShardIndex) {
        if let Some(bell) = self.0.get(usize::from(shard)) {
            bell.notify_one();
        }
    }

    /// Returns when a shard's bell has rung since the last time.
    pub async fn rung(&self, shard: ShardIndex) {
        match self.0.get(usize::from(shard)) {
            Some(bell) => bell.notified().await,
            None => std::future::pending().await,
        }
    }
}
