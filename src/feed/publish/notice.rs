//! Notice of foreign messages in a stream. The cursor shows it for a while, and it is logged only if it is not shown
//! yet.

use std::time::Duration;

use tokio::time::Instant;

use noetl_domain::shard::ShardIndex;

/// Time for which the cursor shows the notice after the last foreign message.
const NOTICE_DURATION: Duration = Duration::from_mins(1);

/// Messages in a stream that no tailer published. They do no harm: the tailer appends after them, and readers skip
/// them.
#[derive(Debug, Default)]
pub(super) struct ForeignMessages {
    count: u64,
    last: Option<Instant>,
}

impl ForeignMessages {
    /// Counts `count` foreign messages that were found.
    pub(super) fn found(&mut self, shard: ShardIndex, count: u64) {
        if count == 0 {
            return;
        }
        metrics::counter!("noetl_tailer_foreign_messages_total", "shard" => shard.to_string()).increment(count);
        if self.text().is_none() {
            tracing::warn!(
                shard,
                count,
                "another client publishes to the event stream; the feed continues after its messages"
            );
        }
        self.count += count;
        self.last = Some(Instant::now());
    }

    /// Returns the notice for the cursor, if foreign messages were found recently.
    pub(super) fn text(&self) -> Option<String> {
        self.last.filter(|last| last.elapsed() < NOTICE_DURATION)?;
        Some(format!("another client publishes to the event stream: {} foreign messages so far", self.count))
    }
}
