//! One consumer per replica and shard: the hub takes each event from the broker once and shares it with every reader.
//!
//! A reader registers and learns in the same moment where the hub stands, so what it replays and what it is then handed
//! meet without gap or overlap. A reader that falls behind by more than the ring holds is told so and replays.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::cursor::Position;
use super::replay::{Delivered, ReadError, ShardStream, broker};
use crate::domain::shard::ShardIndex;
use crate::storage::pools::Databases;

/// Events that a reader may be behind before it must replay.
const RING: usize = 4096;
const AFTER_FAILURE: Duration = Duration::from_millis(250);
const LOOK_AT_CONNECTION: Duration = Duration::from_millis(500);

/// The live feeds of all shards on this replica.
#[derive(Debug, Clone)]
pub struct Hub {
    client: async_nats::Client,
    databases: Databases,
    feeds: Arc<[Feed]>,
}

#[derive(Debug)]
struct Feed {
    /// Where the hub stands; `None` until it has found the stream.
    head: Mutex<Option<Position>>,
    ring: broadcast::Sender<Arc<Delivered>>,
    found: watch::Sender<bool>,
}

/// A reader's place at the hub.
#[derive(Debug)]
pub struct Registration {
    /// The last event before the first that `live` hands out.
    pub head: Position,
    /// The events from there on.
    pub live: broadcast::Receiver<Arc<Delivered>>,
}

impl Hub {
    /// A hub that takes no events before [`Hub::run`].
    #[must_use]
    pub fn new(client: async_nats::Client, databases: Databases) -> Self {
        let feed =
            |_| Feed { head: Mutex::new(None), ring: broadcast::Sender::new(RING), found: watch::Sender::new(false) };
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

    /// Where a shard's feed stands on this replica; `None` while its stream was not found.
    #[must_use]
    pub fn head(&self, shard: ShardIndex) -> Option<Position> {
        *self.feed(shard).head()
    }

    /// Registers a reader; waits until the hub has found the shard's stream.
    pub async fn register(&self, shard: ShardIndex) -> Registration {
        let feed = self.feed(shard);
        let mut found = feed.found.subscribe();
        loop {
            // The lock makes head and receiver agree: the hub holds it while it moves the head and shares the event.
            if let Some(head) = *feed.head() {
                return Registration { head, live: feed.ring.subscribe() };
            }
            if found.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The shard's stream, to replay from.
    pub async fn stream(&self, shard: ShardIndex) -> Result<ShardStream, ReadError> {
        ShardStream::open(self.client.clone(), self.databases.clone(), shard).await
    }

    /// Feeds one shard's readers until `stop`.
    pub async fn run(self, shard: ShardIndex, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Err(error) = self.follow(shard) => {
                    tracing::debug!(shard, %error, "the live feed pauses");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(AFTER_FAILURE) => {}
            }
        }
    }

    async fn follow(&self, shard: ShardIndex) -> Result<std::convert::Infallible, ReadError> {
        let connects = self.connects();
        let stream = self.stream(shard).await?;
        let extent = stream.extent().await?;
        let feed = self.feed(shard);
        let start = match *feed.head() {
            // A stream that ends before the head lost messages: what it says anew is all fresh.
            Some(head) if head.sequence <= extent.last => head.sequence,
            Some(_) => extent.first.saturating_sub(1),
            None => extent.last,
        };
        let mut messages = stream.from(start + 1).await?;
        if feed.head().is_none() {
            let epoch = 0;
            *feed.head() = Some(Position { epoch, sequence: start });
            feed.found.send_replace(true);
        }
        loop {
            // The broker forgets the consumer when it restarts, and the client is slow to notice.
            if self.connects() != connects {
                return Err(broker(shard, "the connection was lost"));
            }
            let Ok(next) = timeout(LOOK_AT_CONNECTION, messages.try_next()).await else { continue };
            let message = next.map_err(|error| broker(shard, error))?;
            let message = message.ok_or_else(|| broker(shard, "the consumer ended"))?;
            let delivered = Arc::new(stream.decode(&message).await?);
            let mut head = feed.head();
            *head = Some(delivered.position);
            // No readers is no error.
            drop(feed.ring.send(delivered));
        }
    }

    /// How often the broker's connection has come up.
    fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    fn feed(&self, shard: ShardIndex) -> &Feed {
        &self.feeds[usize::from(shard)]
    }
}

impl Feed {
    fn head(&self) -> MutexGuard<'_, Option<Position>> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
