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
pub struct WakeUps {
    feeds: Arc<[Notify]>,
    outboxes: Arc<[Notify]>,
}

impl WakeUps {
    /// Creates the signals for this many shards.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        let signals = || (0..shards).map(|_| Notify::new()).collect();
        Self { feeds: signals(), outboxes: signals() }
    }

    /// Signals that a shard has events to publish.
    pub fn wake_feed(&self, shard: ShardIndex) {
        notify(&self.feeds, shard);
    }

    /// Signals that a shard has outbox rows to claim.
    pub fn wake_outbox(&self, shard: ShardIndex) {
        notify(&self.outboxes, shard);
    }

    /// Waits until a shard's feed is signalled. Returns at once if it was signalled since the last wait.
    pub async fn feed_woken(&self, shard: ShardIndex) {
        notified(&self.feeds, shard).await;
    }

    /// Waits until a shard's outbox is signalled. Returns at once if it was signalled since the last wait.
    pub async fn outbox_woken(&self, shard: ShardIndex) {
        notified(&self.outboxes, shard).await;
    }
}

fn notify(signals: &[Notify], shard: ShardIndex) {
    if let Some(signal) = signals.get(usize::from(shard)) {
        signal.notify_one();
    }
}

async fn notified(signals: &[Notify], shard: ShardIndex) {
    match signals.get(usize::from(shard)) {
        Some(signal) => signal.notified().await,
        None => std::future::pending().await,
    }
}
