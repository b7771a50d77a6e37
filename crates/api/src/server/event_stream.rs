//! Status of the event stream.

use async_graphql::{Object, SimpleObject};

use super::feed_status::{self, FeedStatus};
use crate::context::Services;
use crate::scalars::{BigInt, Time};
use noetl_domain::shard::ShardIndex;
use noetl_feed::read::hub::Hub;
use noetl_runtime::causes::WithCauses;
use noetl_storage::tail::TailStatus;
use noetl_use_cases::error::ServiceError;

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

/// Status of one shard's event stream.
#[derive(Debug, Clone)]
pub struct EventStreamShard {
    /// Index of the shard.
    pub shard: ShardIndex,
    /// Name of its stream.
    pub stream: String,
    /// Status of the feed; `None` if it could not be read.
    pub status: Option<FeedStatus>,
}

impl EventStreamShard {
    fn read<T: Default>(&self, field: impl Fn(&TailStatus) -> T) -> T {
        self.status.as_ref().and_then(|status| status.tail.as_ref()).map(field).unwrap_or_default()
    }
}

/// Status of one shard's event stream. If the shard can't be read, `lastError` says so and the measured values are 0 or
/// null.
#[Object]
impl EventStreamShard {
    /// Index of the shard.
    async fn shard(&self) -> u16 {
        self.shard
    }

    /// Name of the broker's stream that stores the shard's events.
    async fn stream(&self) -> String {
        self.stream.clone()
    }

    /// Replica that publishes the shard's events; null if no replica holds the lease.
    async fn leader(&self) -> Option<String> {
        self.read(|status| status.leader.clone())
    }

    /// Time at which the leader's lease expires if it is not renewed.
    async fn lease_expires_at(&self) -> Option<Time> {
        self.read(|status| status.lease_until).map(Time)
    }

    /// Last position of the stream after the last completed batch.
    async fn last_sequence(&self) -> BigInt {
        BigInt(self.read(|status| status.last_sequence))
    }

    /// Number of events published since the feed began.
    async fn published_events(&self) -> BigInt {
        BigInt(self.read(|status| status.published_events))
    }

    /// Number of committed events that are not published yet, counted up to 100,000.
    async fn lag_events(&self) -> BigInt {
        BigInt(self.read(|status| status.lag_events))
    }

    /// Age in seconds of the oldest event that is not published yet; 0 if there is none.
    async fn lag_seconds(&self) -> f64 {
        self.read(|status| status.lag_seconds)
    }

    /// Age in seconds of the oldest open write transaction; null if there is none.
    async fn oldest_open_transaction_seconds(&self) -> Option<f64> {
        self.read(|status| status.oldest_open_transaction_seconds)
    }

    /// Number of prepared transactions that are neither committed nor rolled back. Their events are published after
    /// they commit.
    async fn prepared_transactions(&self) -> BigInt {
        BigInt(self.status.as_ref().map_or(0, |status| status.prepared.count))
    }

    /// Age in seconds of the oldest prepared transaction; null if there is none.
    async fn oldest_prepared_transaction_seconds(&self) -> Option<f64> {
        self.status.as_ref()?.prepared.oldest_seconds
    }

    /// Epoch of the feed. It increases when earlier positions of the stream become invalid.
    async fn feed_epoch(&self) -> i32 {
        self.read(|status| status.feed_epoch)
    }

    /// Last publishing error; null after the next success.
    async fn last_error(&self) -> Option<String> {
        match &self.status {
            None => Some(format!("shard {} can't be reached", self.shard)),
            Some(_) => self.read(|status| status.last_error.clone()),
        }
    }
}

impl EventStreamShard {
    fn new(shard: ShardIndex, stream: String, status: Result<FeedStatus, ServiceError>) -> Self {
        let status = status
            .inspect_err(|error| tracing::warn!(shard, error = %WithCauses(error), "the tail cursor can't be read"))
            .ok();
        Self { shard, stream, status }
    }
}

/// Returns the status of the event stream of each shard.
pub(super) async fn event_stream(services: &Services) -> EventStreamStatus {
    let statuses = feed_status::status(&services.databases).await;
    let names = &services.replica.stream_names;
    EventStreamStatus {
        enabled: services.replica.event_stream_enabled,
        connected: services.hub.as_ref().is_some_and(Hub::connected),
        shards: statuses
            .into_iter()
            .map(|(shard, status)| EventStreamShard::new(shard, names.stream(shard), status))
            .collect(),
    }
}
