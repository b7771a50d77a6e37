//! Notice of foreign messages in a stream. The cursor shows it for a while, and it is logged only if it is not shown
//! yet.

use std::time::Duration;

use tokio::time::Instant;

use noetl_domain::feed::FeedOwner;
use noetl_domain::shard::ShardIndex;

/// Time for which the cursor shows the notice after the last foreign message.
const NOTICE_DURATION: Duration = Duration::from_mins(1);

/// Foreign messages in a part of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Foreign {
    /// Number of messages that this feed did not publish.
    pub(super) count: u64,
    /// Number of those that a tailer of another feed published.
    pub(super) of_feeds: u64,
    /// Database that published the last of these.
    pub(super) owner: Option<FeedOwner>,
}

impl Foreign {
    /// Adds a message, found before the ones that were added earlier. `owner` is the database whose tailer published
    /// it.
    pub(super) fn add(&mut self, owner: Option<FeedOwner>) {
        self.count += 1;
        self.of_feeds += u64::from(owner.is_some());
        self.owner = self.owner.or(owner);
    }
}

/// Messages in a stream that no tailer of the feed published. They do no harm: the tailer appends after them, and readers
/// skip them.
#[derive(Debug)]
pub(super) struct ForeignMessages {
    stream: String,
    found: Foreign,
    last: Option<Instant>,
}

impl ForeignMessages {
    /// Creates the notice for a stream in which none were found yet.
    pub(super) fn new(stream: String) -> Self {
        Self { stream, found: Foreign::default(), last: None }
    }

    /// Counts foreign messages that were found.
    pub(super) fn found(&mut self, shard: ShardIndex, found: Foreign) {
        if found.count == 0 {
            return;
        }
        let label = shard.to_string();
        metrics::counter!("noetl_tailer_foreign_messages_total", "shard" => label.clone()).increment(found.count);
        if found.of_feeds > 0 {
            metrics::counter!("noetl_tailer_other_feed_messages_total", "shard" => label).increment(found.of_feeds);
        }
        let shown = self.text();
        self.found.count += found.count;
        self.found.of_feeds += found.of_feeds;
        self.found.owner = found.owner.or(self.found.owner);
        self.last = Some(Instant::now());
        if shown.is_none() {
            let notice = self.text().unwrap_or_default();
            tracing::warn!(shard, notice, "foreign messages in the event stream; the feed continues after them");
        }
    }

    /// Returns the notice for the cursor, if foreign messages were found recently.
    pub(super) fn text(&self) -> Option<String> {
        self.last.filter(|last| last.elapsed() < NOTICE_DURATION)?;
        let (stream, Foreign { count, of_feeds, owner }) = (&self.stream, self.found);
        let Some(owner) = owner else {
            return Some(format!("another client publishes to the event stream: {count} foreign messages so far"));
        };
        Some(format!(
            "another client publishes to the event stream: {count} foreign messages so far, {of_feeds} of them by the \
             feed {} (system identifier {}); set NOETL_EVENT_STREAM_PREFIX in one of the two deployments, so that they \
             do not share the stream {stream}",
            owner.feed, owner.system_identifier
        ))
    }
}
