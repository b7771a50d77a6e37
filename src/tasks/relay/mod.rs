//! Delivers one shard's outbox rows to the broker, as any worker would: claims a batch, publishes it, settles it.
//!
//! Delivery is at least once: a row is settled as published when a stream has acknowledged it. If a relay crashes before it
//! settles a row, the row is published again, and the stream drops the duplicate if it comes within the stream's dedup
//! window (`DEDUP` in `publisher.rs` for the stream that a relay creates).
//!
//! Rows of one execution are published one after the other, and a refused row holds back the rows after it; executions
//! don't wait for each other. A refused row waits for its backoff, and is DEAD after its last attempt. If the broker refuses
//! for reasons of its own, the row waits for [`BROKER_REFUSED`], and no attempt is counted. While the broker can't be
//! reached, nothing is claimed. Every replica runs a relay, and no two relays hold the same claim.

mod lost;
mod publisher;

use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use noetl_domain::backoff::DEFAULT_MAX_SECONDS;
use noetl_domain::outbox::RELAY;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_feed::wire::names::SubjectPrefix;
use noetl_feed::wire::notifications::NotificationStream;
use noetl_runtime::crash_point;
use noetl_runtime::supervisor::GRACE;
use noetl_runtime::wake::WakeUps;
use noetl_service::outbox::Outbox;
use noetl_storage::outbox::DEFAULT_LEASE_SECONDS;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::{Claim, ClaimRef, ClaimRows, ClaimedRow, FailedDelivery, SettleClaims};
use publisher::{ACK_TIMEOUT, DEDUP, NotReady, Publisher};

pub use lost::LostNotifications;

/// Maximum rows of one claim.
const BATCH: i64 = 500;
/// Time in which rows of a batch are published. The remaining rows are released.
const TURN: Duration = Duration::from_secs(10);
const _: () = assert!(
    TURN.as_secs() + ACK_TIMEOUT.as_secs() < DEFAULT_LEASE_SECONDS.unsigned_abs() as u64,
    "all rows of a batch are settled within the lease"
);
const _: () = assert!(ACK_TIMEOUT.as_secs() < GRACE.as_secs(), "published rows are settled before a shutdown ends");
const _: () = assert!(
    DEDUP.as_secs() > DEFAULT_LEASE_SECONDS.unsigned_abs() as u64 + DEFAULT_MAX_SECONDS.unsigned_abs() as u64,
    "the stream recognises a row that is published again after a lease and the longest backoff"
);
/// Maximum number of executions whose rows are in flight to the broker.
const WINDOW: usize = 256;
/// Shortest idle poll interval; it doubles up to [`IDLE_POLL`].
const BUSY_POLL: Duration = Duration::from_millis(20);
/// Longest idle poll interval.
const IDLE_POLL: Duration = Duration::from_secs(1);
/// Time after which a row is tried again that the broker refused for reasons of its own.
const BROKER_REFUSED: Duration = Duration::from_secs(5);
/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Relay of one shard on this replica.
#[derive(Debug)]
pub struct Relay {
    shard: ShardIndex,
    outbox: Outbox,
    wake_ups: WakeUps,
    publisher: Publisher,
}

/// Result of publishing a batch.
#[derive(Debug, Default)]
struct Delivered {
    published: Vec<ClaimRef>,
    refused: Vec<FailedDelivery>,
    /// Rows that the broker refused for reasons of its own.
    postponed: Vec<FailedDelivery>,
    /// Rows that were held back by a refused row of their execution, or by the end of the turn.
    untried: Vec<ClaimRef>,
}

/// Reason why the relay pauses.
#[derive(Debug, thiserror::Error)]
enum PauseReason {
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error("rows can't be claimed: {0}")]
    Claim(#[source] ServiceError),
    #[error("the shard can't be reached")]
    ShardUnavailable,
    #[error("the broker refuses rows: {0}")]
    Broker(String),
    #[error("rows become claimable again when their leases expire: {0}")]
    Settle(#[source] ServiceError),
}

impl Relay {
    /// Creates the relay of a shard. `wake_ups` are the wake-ups from writers on this replica, and `inbox_prefix` is that of
    /// the client.
    #[must_use]
    pub fn new(
        shard: ShardIndex,
        outbox: Outbox,
        wake_ups: WakeUps,
        client: async_nats::Client,
        stream: NotificationStream,
        inbox_prefix: Option<SubjectPrefix>,
    ) -> Self {
        Self { shard, outbox, wake_ups, publisher: Publisher::new(client, stream, inbox_prefix) }
    }

    /// Relays until `stop`. Then settles the rows in flight to the broker, and releases the rest of the batch.
    pub async fn run(mut self, stop: CancellationToken) {
        let (mut idle, mut logged) = (BUSY_POLL, None);
        while !stop.is_cancelled() {
            match self.turn(&stop).await {
                Ok(rows) => {
                    logged = None;
                    idle = if rows == 0 { self.wait(idle, &stop).await } else { BUSY_POLL };
                }
                Err(reason) => {
                    self.log(&reason, &mut logged);
                    metrics::counter!("noetl_outbox_relay_pauses_total").increment(1);
                    let _ = timeout(AFTER_FAILURE, stop.cancelled()).await;
                }
            }
        }
    }

    /// Logs the reason of a pause. A stream that can't be used is a warning, unless the last warning, `logged`, was the
    /// same. The state of the broker and of the databases is logged elsewhere.
    fn log(&self, reason: &PauseReason, logged: &mut Option<String>) {
        let error = reason.to_string();
        let is_of_stream = matches!(reason, PauseReason::NotReady(cause) if !matches!(cause, NotReady::Disconnected));
        if is_of_stream && logged.as_ref() != Some(&error) {
            tracing::warn!(
                shard = self.shard,
                error,
                "no outbox row is relayed until the stream of notifications can be used"
            );
            *logged = Some(error);
        } else {
            tracing::debug!(shard = self.shard, error, "the outbox can't be relayed now");
        }
    }

    /// Claims, publishes and settles a batch. Returns its number of rows.
    async fn turn(&mut self, stop: &CancellationToken) -> Result<usize, PauseReason> {
        self.publisher.ready().await?;
        let claim = Claim {
            limit: BATCH,
            lease_seconds: DEFAULT_LEASE_SECONDS.into(),
            shard: Some(self.shard.into()),
            max_attempts: None,
            subjects: None,
            claimant: Some(RELAY.to_owned()),
        };
        let claims = self.outbox.claim(claim, &Scope::Unrestricted).await.map_err(PauseReason::Claim)?;
        if !claims.unavailable.is_empty() {
            return Err(PauseReason::ShardUnavailable);
        }
        let count = claims.rows.len();
        if count > 0 {
            let gauge = metrics::gauge!("noetl_outbox_relay_in_flight", "shard" => self.shard.to_string());
            gauge.set(f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
            let delivered = self.deliver(claims.rows, stop).await;
            crash_point::reach("relay.published");
            let postponed = delivered.postponed.first().map(|row| row.error.clone());
            let settled = self.settle(delivered).await;
            gauge.set(0.0);
            settled.map_err(PauseReason::Settle)?;
            postponed.map_or(Ok(()), |error| Err(PauseReason::Broker(error)))?;
        }
        Ok(count)
    }

    async fn deliver(&mut self, rows: Vec<ClaimedRow>, stop: &CancellationToken) -> Delivered {
        let (publisher, end) = (&self.publisher, Instant::now() + TURN);
        let over = move || stop.is_cancelled() || Instant::now() >= end;
        let logs = stream::iter(by_execution(rows)).map(async |rows| publish_in_order(publisher, rows, &over).await);
        let delivered = logs.buffer_unordered(WINDOW).fold(Delivered::default(), async |mut all, one| {
            all.published.extend(one.published);
            all.refused.extend(one.refused);
            all.postponed.extend(one.postponed);
            all.untried.extend(one.untried);
            all
        });
        let delivered = delivered.await;
        if let Some(FailedDelivery { claim, error }) = delivered.refused.first() {
            tracing::warn!(row = %claim.id, error, refused = delivered.refused.len(), "outbox rows were refused");
            self.publisher.invalidate_stream();
        }
        if let Some(FailedDelivery { claim, error }) = delivered.postponed.first() {
            tracing::warn!(row = %claim.id, error, postponed = delivered.postponed.len(), "the broker refuses outbox rows");
            self.publisher.invalidate_stream();
        }
        delivered
    }

    async fn settle(&self, delivered: Delivered) -> Result<(), ServiceError> {
        let published = self.outbox.mark_published(&delivered.published, &Scope::Unrestricted).await;
        if !delivered.refused.is_empty() {
            let refused = self.outbox.mark_failed(&delivered.refused, DEFAULT_MAX_SECONDS.into(), &Scope::Unrestricted);
            refused.await?.failed.into_values().next().map_or(Ok(()), Err)?;
        }
        if let Some(FailedDelivery { error, .. }) = delivered.postponed.first() {
            let claims: Vec<ClaimRef> = delivered.postponed.iter().map(|row| row.claim).collect();
            self.outbox.release(&claims, BROKER_REFUSED, Some(error)).await?;
        }
        if !delivered.untried.is_empty() {
            self.outbox.release(&delivered.untried, Duration::ZERO, None).await?;
        }
        published?.failed.into_values().next().map_or(Ok(()), Err)
    }

    /// Waits for a wake-up or for the idle poll. Returns the next idle poll interval.
    async fn wait(&self, idle: Duration, stop: &CancellationToken) -> Duration {
        tokio::select! {
            () = stop.cancelled() => idle,
            () = self.wake_ups.outbox_woken(self.shard) => BUSY_POLL,
            () = sleep(idle) => (idle * 2).min(IDLE_POLL),
        }
    }
}

/// Groups the rows by execution and keeps their order. A row without an execution is a group of its own.
fn by_execution(rows: Vec<ClaimedRow>) -> Vec<Vec<ClaimedRow>> {
    let mut groups: Vec<Vec<ClaimedRow>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for leased in rows {
        let fresh = groups.len();
        let place = leased.row.execution_id.map_or(fresh, |execution| *places.entry(execution).or_insert(fresh));
        if place == fresh {
            groups.push(Vec::new());
        }
        groups[place].push(leased);
    }
    groups
}

async fn publish_in_order(publisher: &Publisher, rows: Vec<ClaimedRow>, over: &impl Fn() -> bool) -> Delivered {
    let mut delivered = Delivered::default();
    for leased in rows {
        let claim = ClaimRef { id: leased.id, lease: leased.row.lease_token };
        if !delivered.refused.is_empty() || !delivered.postponed.is_empty() || over() {
            delivered.untried.push(claim);
            continue;
        }
        match publisher.publish(&leased).await {
            Ok(()) => delivered.published.push(claim),
            Err(refusal) => {
                let rows = if refusal.is_of_broker() { &mut delivered.postponed } else { &mut delivered.refused };
                rows.push(FailedDelivery { claim, error: refusal.to_string() });
            }
        }
    }
    delivered
}
