//! Wake-ups for tasks that wait for a shard's events or outbox rows.
//!
//! A wake-up only saves time. It can be missed, for example if another process wrote the rows, so its receiver must
//! also poll.

use std::sync::Arc;

use tokio::sync::Notify;

use noetl_domain::shard::ShardIndex;

/// Two wake-up signals per shard: one for its feed, one for its outbox. A signal wakes one waiting task. If none waits,
/// the next wait returns at once.
#[derive(Debug, Clone)]
pub struct Wakes {
    feeds: Arc<[Notify]>,
    outboxes: Arc<[Notify]>,
}

impl Wakes {
    /// Creates the signals for this many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        let bells = || (0..shards).map(|_| Notify::new()).collect();
        Self { feeds: bells(), outboxes: bells() }
    }

    /// Signals that a shard has events to publish.
    pub fn ring(&self, shard: ShardIndex) {
        ring(&self.feeds, shard);
    }

    /// Signals that a shard has outbox rows to claim.
    pub fn ring_outbox(&self, shard: ShardIndex) {
        ring(&self.outboxes, shard);
    }

    /// Waits until a shard's feed is signalled. Returns at once if it was signalled since the last wait.
    pub async fn rung(&self, shard: ShardIndex) {
        rung(&self.feeds, shard).await;
    }

    /// Waits until a shard's outbox is signalled. Returns at once if it was signalled since the last wait.
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
