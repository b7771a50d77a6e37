//! Status of the event stream.

use async_graphql::SimpleObject;
use futures::future::join_all;

use crate::context::Services;
use crate::scalars::{BigInt, Time};
use noetl_domain::shard::ShardIndex;
use noetl_feed::read::hub::Hub;
use noetl_runtime::causes::WithCauses;
use noetl_storage::pools::Database;
use noetl_storage::tail::{self, TailStatus};
use noetl_storage::transactions::{self, Prepared};

/// Status of the event stream.
#[derive(Debug, Clone, SimpleObject)]
pub struct EventStreamStatus {
    /// Whether this replica takes part in publishing events.
    pub enabled: bool,
    /// Whether this replica is connected to the broker.
    pub connected: bool,
    /// Status of each shard's event stream.
    pub shards: Vec<EventStreamShard>,
}

/// Status of one shard's event stream. If the shard can't be read, `lastError` says so and the measured values are 0 or
/// null.
#[derive(Debug, Clone, Default, SimpleObject)]
pub struct EventStreamShard {
    /// Index of the shard.
    shard: ShardIndex,
    /// Name of the broker's stream that stores the shard's events.
    stream: String,
    /// Replica that publishes the shard's events; null if no replica holds the lease.
    leader: Option<String>,
    /// Time at which the leader's lease expires if it is not renewed.
    lease_expires_at: Option<Time>,
    /// Last position of the stream after the last completed batch.
    last_sequence: BigInt,
    /// Number of events published since the feed began.
    published_events: BigInt,
    /// Number of committed events that are not published yet, counted up to 100,000.
    lag_events: BigInt,
    /// Age in seconds of the oldest event that is not published yet; 0 if there is none.
    lag_seconds: f64,
    /// Age in seconds of the oldest open write transaction; null if there is none.
    oldest_open_transaction_seconds: Option<f64>,
    /// Number of prepared transactions that are neither committed nor rolled back. Their events are published after
    /// they commit.
    prepared_transactions: BigInt,
    /// Age in seconds of the oldest prepared transaction; null if there is none.
    oldest_prepared_transaction_seconds: Option<f64>,
    /// Epoch of the feed. It increases when earlier positions of the stream become invalid.
    feed_epoch: i32,
    /// Last publishing error; null after the next success.
    last_error: Option<String>,
}

impl EventStreamShard {
    /// Reads the status of a shard's stream, which has this name.
    async fn read(database: &Database, shard: ShardIndex, stream: String) -> Self {
        match tokio::try_join!(tail::status(database), transactions::prepared(database)) {
            // Without a tail, the feed has not begun.
            Ok((tail, prepared)) => {
                let status = tail.map(Self::from).unwrap_or_default();
                let Prepared { count, oldest_seconds } = prepared;
                let (prepared_transactions, oldest_prepared_transaction_seconds) = (BigInt(count), oldest_seconds);
                Self { shard, stream, prepared_transactions, oldest_prepared_transaction_seconds, ..status }
            }
            Err(error) => {
                tracing::warn!(shard, error = %WithCauses(&error), "the tail cursor can't be read");
                let last_error = Some(format!("shard {shard} can't be reached"));
                Self { shard, stream, last_error, ..Self::default() }
            }
        }
    }
}

impl From<TailStatus> for EventStreamShard {
    fn from(tail: TailStatus) -> Self {
        Self {
            leader: tail.leader,
            lease_expires_at: tail.lease_until.map(Time),
            last_sequence: BigInt(tail.last_sequence),
            published_events: BigInt(tail.published_events),
            lag_events: BigInt(tail.lag_events),
            lag_seconds: tail.lag_seconds,
            oldest_open_transaction_seconds: tail.oldest_open_transaction_seconds,
            feed_epoch: tail.feed_epoch,
            last_error: tail.last_error,
            ..Self::default()
        }
    }
}

/// Returns the status of the event stream of each shard. The shards are read in parallel.
pub(super) async fn event_stream(services: &Services) -> EventStreamStatus {
    let names = &services.replica.stream_names;
    let shards = services.databases.shards().iter().zip(0..);
    let read = shards.map(|(database, shard)| EventStreamShard::read(database, shard, names.stream(shard)));
    EventStreamStatus {
        enabled: services.replica.event_stream_enabled,
        connected: services.hub.as_ref().is_some_and(Hub::connected),
        shards: join_all(read).await,
    }
}
