//! What is strange about a stream, said for a while and not with every batch.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::shard::ShardIndex;

/// For how long the cursor says so.
const SAID_FOR: Duration = Duration::from_mins(1);

/// Messages that no tailer published. They harm nobody: the feed goes on behind them, and readers skip them.
#[derive(Debug, Default)]
pub(super) struct ForeignMessages {
    count: u64,
    last: Option<Instant>,
}

impl ForeignMessages {
    /// Some were found.
    pub(super) fn found(&mut self, shard: ShardIndex, count: u64) {
        if count == 0 {
            return;
        }
        metrics::counter!("noetl_tailer_foreign_messages_total", "shard" => shard.to_string()).increment(count);
        if self.text().is_none() {
            tracing::warn!(shard, count, "somebody else publishes on the event stream; going on behind it");
        }
        self.count += count;
        self.last = Some(Instant::now());
    }

    /// What the cursor is to say.
    pub(super) fn text(&self) -> Option<String> {
        self.last.filter(|last| last.elapsed() < SAID_FOR)?;
        Some(format!("somebody else publishes on the event stream: {} foreign messages so far", self.count))
    }
}
