//! Health of the system for dashboards. A replica reads it about once a second at most, for any number of readers.

use std::time::Duration;

use async_graphql::Result;
use async_stream::stream;
use futures::Stream;
use moka::future::Cache;
use tokio::time::{MissedTickBehavior, interval};

use crate::graphql::errors::fault;
use crate::graphql::query::health;
use crate::graphql::schema::Services;
use crate::graphql::types::outbox::OutboxStats;
use crate::graphql::types::server::SystemStatus;
use crate::runtime::clock;
use crate::service::error::Rejection;

/// Maximum age of a returned status. It is less than the shortest period.
const FRESH: Duration = Duration::from_millis(900);

/// Latest status of a replica. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LatestStatus(Cache<(), SystemStatus>);

impl Default for LatestStatus {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(1).time_to_live(FRESH).build())
    }
}

impl LatestStatus {
    /// Returns the status, and reads it again if it is too old. Concurrent callers wait for the same read.
    async fn get(&self, services: &Services) -> SystemStatus {
        let read = async {
            metrics::counter!("noetl_status_polls_total").increment(1);
            let (event_stream, outbox) = tokio::join!(health::event_stream(services), OutboxStats::read(services));
            let outbox = outbox.inspect_err(|error| tracing::warn!(%error, "the outbox can't be counted")).ok();
            SystemStatus { at: clock::now(), shards: health::shards(services), event_stream, outbox }
        };
        self.0.get_with((), read).await
    }
}

/// Parses the period of a reader.
pub(super) fn period(seconds: i32) -> Result<Duration> {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..=60) => Ok(Duration::from_secs(seconds)),
        _ => Err(fault(Rejection::invalid("everySeconds", "everySeconds must be 1 to 60"))),
    }
}

/// Returns the status immediately, and then after each `period`.
pub(super) fn watch(services: Services, latest: LatestStatus, period: Duration) -> impl Stream<Item = SystemStatus> {
    stream! {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            yield latest.get(&services).await;
        }
    }
}
