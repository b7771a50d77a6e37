//! Health of the system for dashboards. A replica reads it about once a second at most, for any number of readers with
//! the same tenant.

use std::time::Duration;

use async_graphql::{Result, SimpleObject};
use async_stream::stream;
use futures::Stream;
use moka::future::Cache;
use tokio::time::{MissedTickBehavior, interval};

use super::event_stream::{EventStreamStatus, event_stream};
use super::shards::{Shard, shards};
use crate::context::Services;
use crate::errors::field_error;
use crate::outbox::stats::OutboxStats;
use crate::scalars::Time;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::clock;
use noetl_use_cases::error::Rejection;

/// The health of the whole system, as one replica sees it.
#[derive(Debug, Clone, SimpleObject)]
pub struct SystemStatus {
    /// Time at which the status was read.
    pub at: Time,
    /// Always null: the status has no position in the event feed.
    pub cursor: Option<String>,
    /// Health of every shard.
    pub shards: Vec<Shard>,
    /// Status of the event stream.
    pub event_stream: EventStreamStatus,
    /// Numbers of outbox entries that the caller may read; null if they could not be counted.
    pub outbox: Option<OutboxStats>,
}

/// Maximum age of a returned status. It is less than the shortest period.
const MAX_AGE: Duration = Duration::from_millis(900);

/// Maximum number of scopes whose status is cached.
const MAX_SCOPES: u64 = 1000;

/// Cache of the latest status of a replica, by the scope whose outbox rows are counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StatusCache(Cache<Scope, SystemStatus>);

impl Default for StatusCache {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_SCOPES).time_to_live(MAX_AGE).build())
    }
}

impl StatusCache {
    /// Returns the status, and reads it again if it is too old. Concurrent callers wait for the same read.
    async fn get(&self, services: &Services, scope: &Scope) -> SystemStatus {
        let read = async {
            metrics::counter!("noetl_status_polls_total").increment(1);
            let (event_stream, outbox) = tokio::join!(event_stream(services), OutboxStats::read(services, scope));
            let outbox = outbox
                .inspect_err(|error| tracing::warn!(error = %WithCauses(error), "the outbox can't be counted"))
                .ok();
            SystemStatus { at: Time(clock::now()), cursor: None, shards: shards(services), event_stream, outbox }
        };
        self.0.get_with(scope.clone(), read).await
    }
}

/// Period of a reader that names none, in seconds.
pub(super) const DEFAULT_SECONDS: i32 = 2;

/// Parses the period of a reader.
pub(super) fn period(seconds: i32) -> Result<Duration> {
    match u64::try_from(seconds) {
        Ok(seconds @ 1..=60) => Ok(Duration::from_secs(seconds)),
        _ => Err(field_error(Rejection::invalid("everySeconds", "everySeconds must be 1 to 60"))),
    }
}

/// Returns the status immediately, and then after each `period`.
pub(super) fn watch(
    services: Services,
    cache: StatusCache,
    scope: Scope,
    period: Duration,
) -> impl Stream<Item = SystemStatus> {
    stream! {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            yield cache.get(&services, &scope).await;
        }
    }
}
