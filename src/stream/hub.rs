//! One consumer per replica and shard: the hub takes each event from the broker once and shares it with every reader.
//!
//! A reader registers and learns in the same moment where the hub stands, so what it replays and what it is then handed
//! meet without gap or overlap. Positions only grow, also across a broker that lost messages: the hub then goes back to
//! the first message of the new epoch. While nobody reads, nothing is taken: a replica without readers costs the broker
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::pull::Ordered;
use futures::TryStreamExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::cursor::Position;
use super::delivered::decode;
use super::ring::{Place, Ring};
use super::source::{self, Extent, ReadError, ShardStream};
use crate::domain::shard::ShardIndex;
use crate::storage::pools::Databases;

/// Bytes of events that all rings of a replica keep together for readers that are behind.
const RING_BYTES: usize = 32 << 20;
const AFTER_FAILURE: Duration = Duration::from_millis(250);
/// How long a feed goes on without readers: one who reconnects should find it running.
const REST_AFTER: Duration = Duration::from_secs(10);
const LOOK_AT_CONNECTION: Duration = Duration::from_millis(500);
/// Quiet looks at the connection after which the stream itself is looked at.
const LOOKS_PER_CHECK: u32 = 4;

/// The live feeds of all shards on this replica.
#[derive(Debug, Clone)]
pub struct Hub {
    client: async_nats::Client,
    databases: Databases,
    feeds: Arc<[Feed]>,
}

#[derive(Debug)]
struct Feed {
    ring: Arc<Ring>,
    /// Whether the broker said to those who wait that there is no stream: what it holds when there is one was published
    /// since.
    missing: AtomicBool,
}

impl Hub {
    /// A hub that takes no events before [`Hub::run`].
    #[must_use]
    pub fn new(client: async_nats::Client, databases: Databases) -> Self {
        let each = RING_BYTES / databases.shards().len().max(1);
        let feed = |_| Feed { ring: Arc::new(Ring::new(each)), missing: AtomicBool::new(false) };
        let feeds = databases.shards().iter().map(feed).collect();
        Self { client, databases, feeds }
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> ShardIndex {
        ShardIndex::try_from(self.feeds.len()).unwrap_or(ShardIndex::MAX)
    }

    /// Whether the broker is connected.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Where a shard's feed stands on this replica; `None` while nobody reads it, or its stream was not found.
    #[must_use]
    pub fn head(&self, shard: ShardIndex) -> Option<Position> {
        self.feed(shard).ring.head()
    }

    /// Whether the broker said that there is no such stream.
    pub(super) fn is_missing(&self, shard: ShardIndex) -> bool {
        self.feed(shard).missing.load(Ordering::Relaxed)
    }

    /// Registers a reader; waits until the hub has found the shard's stream. Answers the last event before the first that
    /// the place hands out.
    pub(super) async fn register(&self, shard: ShardIndex) -> (Position, Place) {
        self.feed(shard).ring.join().await
    }

    /// The shard's stream, to replay from.
    pub(super) async fn stream(&self, shard: ShardIndex) -> Result<ShardStream, ReadError> {
        ShardStream::open(self.client.clone(), shard).await
    }

    /// The databases that complete what was too large for a stream.
    pub(super) fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Feeds one shard's readers until `stop`.
    pub async fn run(self, shard: ShardIndex, stop: CancellationToken) {
        let feed = self.feed(shard);
        let following = async {
            loop {
                feed.begin_when_wanted().await;
                if let Err(error) = self.follow(shard).await {
                    tracing::debug!(shard, %error, "the live feed pauses");
                    feed.missing.fetch_or(error.missing, Ordering::Relaxed);
                    sleep(AFTER_FAILURE).await;
                }
            }
        };
        let _: Option<std::convert::Infallible> = stop.run_until_cancelled(following).await;
    }

    /// Takes events until nobody has read them for a while.
    async fn follow(&self, shard: ShardIndex) -> Result<(), ReadError> {
        let connects = source::connects(&self.client);
        let stream = self.stream(shard).await?;
        let extent = stream.extent().await?;
        let mut head = self.find_head(shard, &stream, extent).await?;
        let start = stream.resume(head, extent).await?.min(extent.last);
        let mut messages = stream.follow(start + 1).await?;
        let mut vigil = Vigil { stream: &stream, begun: extent, quiet: 0, overdue: false };
        let mut read = Instant::now();
        while read.elapsed() < REST_AFTER {
            if self.feed(shard).ring.is_read() {
                read = Instant::now();
            }
            if source::connects(&self.client) != connects {
                return Err(ReadError::of(shard, "the connection was lost"));
            }
            let Some(message) = next(shard, &mut messages).await? else {
                if vigil.finds_change(head).await? {
                    return Err(ReadError::of(shard, "the stream is not what it was"));
                }
                continue;
            };
            vigil.overdue = false;
            let delivered = decode(&self.databases, shard, head, &message).await?;
            // A consumer that is made anew before it has given anything begins with the stream.
            if delivered.position.sequence <= start {
                return Err(ReadError::of(shard, "its consumer began anew"));
            }
            if delivered.position <= head {
                continue;
            }
            if delivered.position.epoch > head.epoch {
                stream.check_epoch(head, delivered.position).await?;
            }
            head = delivered.position;
            let bytes = self.feed(shard).ring.put(Arc::new(delivered));
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            metrics::gauge!("noetl_stream_buffered_bytes", "shard" => shard.to_string()).set(bytes);
        }
        Ok(())
    }

    /// Where the hub stands; when it begins, behind the stream's last message.
    async fn find_head(&self, shard: ShardIndex, stream: &ShardStream, extent: Extent) -> Result<Position, ReadError> {
        let feed = self.feed(shard);
        if let Some(head) = feed.ring.head() {
            return Ok(head);
        }
        let head = if feed.missing.load(Ordering::Relaxed) {
            Position { epoch: 0, sequence: extent.first - 1 }
        } else {
            stream.end(extent).await?
        };
        feed.ring.begin(head);
        Ok(head)
    }

    fn feed(&self, shard: ShardIndex) -> &Feed {
        &self.feeds[usize::from(shard)]
    }
}

impl Feed {
    /// Rests while nobody reads.
    async fn begin_when_wanted(&self) {
        if self.ring.rest() {
            self.missing.store(false, Ordering::Relaxed);
            self.ring.wanted().await;
        }
    }
}

/// The next message; `None` when none came for a while.
async fn next(shard: ShardIndex, messages: &mut Ordered) -> Result<Option<async_nats::jetstream::Message>, ReadError> {
    let Ok(next) = timeout(LOOK_AT_CONNECTION, messages.try_next()).await else {
        return Ok(None);
    };
    let message = next.map_err(|error| ReadError::of(shard, error))?;
    message.map(Some).ok_or_else(|| ReadError::of(shard, "the consumer ended"))
}

/// Whether a consumer that gives nothing has nothing to give.
struct Vigil<'a> {
    stream: &'a ShardStream,
    /// What the stream held when the consumer was made.
    begun: Extent,
    /// Looks since then that found no message.
    quiet: u32,
    /// Whether the last one found that the stream holds messages that did not come.
    overdue: bool,
}

impl Vigil<'_> {
    /// Whether the stream was made anew, became shorter, or twice in a row held what did not come.
    async fn finds_change(&mut self, head: Position) -> Result<bool, ReadError> {
        self.quiet += 1;
        if !self.overdue && !self.quiet.is_multiple_of(LOOKS_PER_CHECK) {
            return Ok(false);
        }
        let found = self.stream.extent().await?;
        let shorter = found.last < head.sequence && found.last != self.begun.last;
        let unseen = found.last > head.sequence.max(self.begun.last);
        let still = unseen && self.overdue;
        self.overdue = unseen;
        Ok(found.created != self.begun.created || shorter || still)
    }
}
