//! Hints that a shard has fresh events, or fresh outbox rows. A hint is only ever a shortcut: whoever waits for it polls
//! as well.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::domain::shard::ShardIndex;

/// Bells per shard, one for its feed and one for its outbox; ringing wakes the one who waits, or the next who comes to
/// wait.
#[derive(Debug, Clone)]
pub struct Wakes {
    feeds: Arc<[Notify]>,
    outboxes: Arc<[Notify]>,
}

impl Wakes {
    /// Bells for this many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        let bells = || (0..shards).map(|_| Notify::new()).collect();
        Self { feeds: bells(), outboxes: bells() }
    }

    /// Says that a shard has fresh events.
    pub fn ring(&self, shard: ShardIndex) {
        ring(&self.feeds, shard);
    }

    /// Says that a shard has fresh outbox rows.
    pub fn ring_outbox(&self, shard: ShardIndex) {
        ring(&self.outboxes, shard);
    }

    /// Returns when a shard's feed has been rung since the last time.
    pub async fn rung(&self, shard: ShardIndex) {
        rung(&self.feeds, shard).await;
    }

    /// Returns when a shard's outbox has been rung since the last time.
    pub async fn outbox_rung(&self, shard: ShardIndex) {
        rung(&self.outboxes, shard).await;
    }
}

fn ring(bells: &[Notify], shard: ShardIndex) {
    if let Some(bell) = bells.get(usize::from(shard)) {
        bell.notify_one();
    }
}

async fn rung(bells: &[Notify], shard: ShardIndex) {
    match bells.get(usize::from(shard)) {
        Some(bell) => bell.notified().await,
        None => std::future::pending().await,
    }
}
