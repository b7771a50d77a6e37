//! One consumer per replica and shard: the hub reads each event from the broker once and shares it with every reader.
//!
//! Registration returns the hub's head at the same moment, so the replayed events and the live events meet without gap
//! or overlap. Positions only grow, even if the broker lost messages: the hub then goes back to the first message of
//! the new epoch. Without readers the hub reads nothing from the broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Ordered;
use futures::{FutureExt, TryStreamExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::read::delivered::decode;
use crate::read::error::ReadError;
use crate::read::interests::Interest;
use crate::read::opener::Opener;
use crate::read::ring::{Ring, RingReader};
use crate::read::source::{Extent, ShardStream};
use crate::read::stored::StoredFeed;
use crate::read::worker::Worker;
use crate::wire::cursor::Position;
use crate::wire::names::StreamNames;
use crate::wire::streams;
use noetl_domain::feed::FeedId;
use noetl_domain::shard::ShardIndex;
use noetl_storage::pools::Databases;

/// Pause after a failure of a feed.
const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// Interval at which the identity of a feed is requested until the shard's database is available and the feed has begun.
const IDENTITY_RETRY: Duration = Duration::from_secs(1);
/// Time that a feed keeps running without readers, so that a reader that reconnects finds it running.
const IDLE_SHUTDOWN: Duration = Duration::from_secs(10);
/// Interval at which the connection to the broker is checked.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Number of checks without a message after which the stream itself is checked.
const CONNECTION_CHECKS_PER_STREAM_CHECK: u32 = 4;

/// Live feeds of all shards on this replica.
#[derive(Debug, Clone)]
pub struct Hub {
    client: async_nats::Client,
    databases: Databases,
    feeds: Arc<[Feed]>,
}

#[derive(Debug)]
struct Feed {
    ring: Arc<Ring>,
    stored: StoredFeed,
    /// True if the broker responded, while readers waited, that the stream does not exist. All events of a stream that
    /// is created later are then new to these readers.
    missing: AtomicBool,
    /// Access to the stream, and the identity of the feed.
    opener: Opener,
}

impl Hub {
    /// Creates a hub. It reads no events before [`Hub::run`] and [`Hub::replay`]. `ring_bytes` is the size of the ring of
    /// each shard in bytes of events; the ring keeps the events for readers that lag.
    #[must_use]
    pub fn new(client: async_nats::Client, names: &StreamNames, databases: Databases, ring_bytes: usize) -> Self {
        let feed = |shard| Feed {
            ring: Arc::new(Ring::new(ring_bytes)),
            stored: StoredFeed::new(shard, ring_bytes / 2),
            missing: AtomicBool::new(false),
            opener: Opener::new(shard, client.clone(), names.clone(), databases.clone()),
        };
        let feeds = (0..).zip(databases.shards()).map(|(shard, _)| feed(shard)).collect();
        Self { client, databases, feeds }
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> ShardIndex {
        ShardIndex::try_from(self.feeds.len()).unwrap_or(ShardIndex::MAX)
    }

    /// Returns true if the broker is connected.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Returns the position of a shard's feed on this replica; `None` without readers, and until the stream was found.
    #[must_use]
    pub fn head(&self, shard: ShardIndex) -> Option<Position> {
        self.feed(shard).ring.head()
    }

    /// Returns true if the broker responded that the stream does not exist.
    pub(super) fn is_missing(&self, shard: ShardIndex) -> bool {
        self.feed(shard).missing.load(Ordering::Relaxed)
    }

    /// Registers a reader; waits until the hub has found the shard's stream. Returns the position before the first
    /// event that the place delivers.
    pub(super) async fn register(&self, shard: ShardIndex, interest: Interest) -> (Position, RingReader) {
        self.feed(shard).ring.join(interest).await
    }

    /// Returns the stored messages of a shard, for replays.
    pub(super) fn stored(&self, shard: ShardIndex) -> &StoredFeed {
        &self.feed(shard).stored
    }

    /// Returns the databases.
    pub(super) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Returns the identity of a shard's feed; `None` until it was read from the shard.
    pub(super) fn identity(&self, shard: ShardIndex) -> Option<FeedId> {
        self.feed(shard).opener.identity()
    }

    /// Reads stored messages for the replays of one shard's readers until `stop`.
    pub async fn replay(self, shard: ShardIndex, stop: CancellationToken) {
        let Feed { opener, stored, .. } = self.feed(shard);
        Worker { opener, stored }.run(stop).await;
    }

    /// Delivers live events to one shard's readers until `stop`.
    pub async fn run(self, shard: ShardIndex, stop: CancellationToken) {
        let feed = self.feed(shard);
        let following = async {
            loop {
                feed.wait_for_reader().await;
                if let Err(error) = self.follow(shard).await {
                    metrics::counter!("noetl_stream_interruptions_total", "shard" => shard.to_string()).increment(1);
                    if error.missing {
                        tracing::debug!(shard, %error, "the stream of a live feed does not exist yet");
                    } else {
                        tracing::warn!(shard, %error, "a live feed was interrupted and will be retried");
                    }
                    feed.missing.fetch_or(error.missing, Ordering::Relaxed);
                    sleep(AFTER_FAILURE).await;
                }
            }
        };
        let identifying = async {
            while feed.opener.identity().is_none() {
                feed.opener.identify().await;
                sleep(IDENTITY_RETRY).await;
            }
            std::future::pending().await
        };
        let both = async {
            tokio::select! {
                never = following => never,
                never = identifying => never,
            }
        };
        let _: Option<std::convert::Infallible> = stop.run_until_cancelled(both.boxed()).await;
    }

    /// Reads events until the shard has had no readers for [`IDLE_SHUTDOWN`].
    async fn follow(&self, shard: ShardIndex) -> Result<(), ReadError> {
        let connects = streams::connects(&self.client);
        self.feed(shard).opener.identify().await;
        let stream = self.feed(shard).opener.open().await?;
        let extent = stream.opened_extent();
        self.stored(shard).forget();
        let mut head = self.find_head(shard, &stream).await?;
        let start = stream.resume(head).await?.min(extent.last);
        let mut messages = stream.follow(start + 1).await?;
        let mut check = ConsumerCheck { stream: &stream, begun: extent, quiet: 0, overdue: false };
        let mut read = Instant::now();
        while read.elapsed() < IDLE_SHUTDOWN {
            if self.feed(shard).ring.is_read() {
                read = Instant::now();
            }
            if streams::connects(&self.client) != connects {
                return Err(ReadError::of(shard, "the connection was lost"));
            }
            if self.identity(shard) != stream.feed() {
                return Err(ReadError::of(shard, "the identity of the feed was found"));
            }
            let Some(message) = next(shard, &mut messages).await? else {
                if check.detects_change(head).await? {
                    return Err(ReadError::of(
                        shard,
                        "the stream was recreated, lost messages, or holds messages that were not delivered",
                    ));
                }
                continue;
            };
            check.overdue = false;
            let delivered = decode(&self.databases, shard, stream.feed(), head, &message)?;
            // A consumer that is recreated before its first message starts with the stream's first message.
            if delivered.position.sequence <= start {
                return Err(ReadError::of(shard, "the consumer restarted at the stream's first message"));
            }
            if delivered.position <= head {
                continue;
            }
            if delivered.position.epoch > head.epoch {
                stream.check_epoch(head.epoch, delivered.position.sequence).await?;
                self.stored(shard).forget();
            }
            head = delivered.position;
            let bytes = self.feed(shard).ring.put(Arc::new(delivered));
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            metrics::gauge!("noetl_stream_buffered_bytes", "shard" => shard.to_string()).set(bytes);
        }
        Ok(())
    }

    /// Returns the hub's position. If the feed starts, that is after the stream's last message, or before its first if
    /// the stream did not exist when readers joined.
    async fn find_head(&self, shard: ShardIndex, stream: &ShardStream) -> Result<Position, ReadError> {
        let feed = self.feed(shard);
        if let Some(head) = feed.ring.head() {
            return Ok(head);
        }
        let head = if feed.missing.load(Ordering::Relaxed) {
            Position { epoch: 0, sequence: stream.opened_extent().first - 1 }
        } else {
            stream.end().await?
        };
        feed.ring.begin(head);
        Ok(head)
    }

    fn feed(&self, shard: ShardIndex) -> &Feed {
        &self.feeds[usize::from(shard)]
    }
}

impl Feed {
    /// Resets the ring if it has no readers, and waits for one.
    async fn wait_for_reader(&self) {
        if self.ring.reset_unread() {
            self.missing.store(false, Ordering::Relaxed);
            self.ring.wanted().await;
        }
    }
}

/// Returns the next message; `None` if none came within [`CONNECTION_CHECK_INTERVAL`].
async fn next(shard: ShardIndex, messages: &mut Ordered) -> Result<Option<async_nats::jetstream::Message>, ReadError> {
    let Ok(next) = timeout(CONNECTION_CHECK_INTERVAL, messages.try_next()).await else {
        return Ok(None);
    };
    let message = next.map_err(|error| ReadError::of(shard, error))?;
    message.map(Some).ok_or_else(|| ReadError::of(shard, "the consumer ended"))
}

/// Check of a consumer that delivers nothing: compares it with the stream.
struct ConsumerCheck<'a> {
    stream: &'a ShardStream,
    /// Extent of the stream when the consumer was created.
    begun: Extent,
    /// Number of waits since then without a message.
    quiet: u32,
    /// True if the last check found messages in the stream that were not delivered.
    overdue: bool,
}

impl ConsumerCheck<'_> {
    /// Returns true if the stream was recreated, became shorter, or held undelivered messages in two checks in a row.
    async fn detects_change(&mut self, head: Position) -> Result<bool, ReadError> {
        self.quiet += 1;
        if !self.overdue && !self.quiet.is_multiple_of(CONNECTION_CHECKS_PER_STREAM_CHECK) {
            return Ok(false);
        }
        let found = self.stream.extent().await?;
        let shorter = found.last < head.sequence && found.last != self.begun.last;
        // The last messages of a stream may have been deleted.
        let unseen =
            found.last > head.sequence && self.stream.mark_within(head.sequence + 1, found.last + 1).await?.is_some();
        let still = unseen && self.overdue;
        self.overdue = unseen;
        Ok(found.created != self.begun.created || shorter || still)
    }
}
