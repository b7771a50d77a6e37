//! One leader per shard in the whole deployment, which publishes the shard's committed events ([`super::batches`]).
//!
//! The lease only decides which replica tries: the fence in every cursor write and the expected sequence in every publish
//! make a stale leader harmless. While the broker does not work, the leader stays the same, and shows the lag.

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::publish::error::{PublishError, StandBack};
use crate::publish::leader::Leader;
use crate::publish::publisher::StreamSettings;
use crate::publish::repeated::Failures;
use crate::publish::rivals::Rivals;
use crate::wake_ups;
use crate::wire::names::StreamNames;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::pools::{Database, RENEWAL_DEADLINE};
use noetl_storage::tail::{self, TailCursor};
use noetl_storage::triggers;

/// Duration of the lease. After a leader is killed, another replica takes over within this time plus one
/// [`STANDBY_POLL`].
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// Interval at which the leader renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(1);
const _: () = assert!(3 * RENEW_EVERY.as_millis() <= LEASE.as_millis(), "a late renewal does not lose the lease");
const _: () = assert!(
    RENEW_EVERY.as_millis() + RENEWAL_DEADLINE.as_millis() < LEASE.as_millis(),
    "a renewal over a lost connection is repeated over another one before the lease expires"
);
/// Interval at which the lag is reported as metrics.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Interval at which a replica that is not the leader tries to take the lease.
const STANDBY_POLL: Duration = Duration::from_secs(1);
/// Pause after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
const _: () = assert!(AFTER_FAILURE.as_millis() < LEASE.as_millis(), "a leader that keeps its lease continues");
/// Time after which a leader that the broker hinders gives way: the cause may be its own, such as its rights there.
const KEEP_FOR: Duration = Duration::from_secs(20);
/// Pause of a leader that gives way to a replica that can publish.
const GIVE_WAY: Duration = Duration::from_secs(2);
const _: () = assert!(GIVE_WAY.as_millis() > STANDBY_POLL.as_millis(), "another replica tries within the pause");
/// Time for which the lease must have been free before a replica without a connection to the broker takes it.
const FREE_FOR: Duration = Duration::from_secs(5);
const _: () = assert!(
    FREE_FOR.as_millis() > GIVE_WAY.as_millis(),
    "the last leader is the next one if no replica has a connection"
);
/// Interval of the checks whether a leader that stands back may publish.
const STAND_BACK: Duration = Duration::from_secs(2);
/// Time without progress after which a leader whose publishes are refused gives up, so that the cursor shows the reason.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Settings of a tailer.
#[derive(Debug, Clone, Copy)]
pub struct TailSettings {
    /// Approximate maximum number of events in flight to the broker.
    pub batch: usize,
    /// Longest poll interval of an idle leader.
    pub poll: Duration,
    /// True if a feed that starts for the first time begins with the oldest event.
    pub backfill: bool,
    /// Settings of streams that are created.
    pub stream: StreamSettings,
}

/// Tailer of one shard on this replica.
#[derive(Debug)]
pub struct Tailer {
    /// Shard whose events it publishes.
    pub shard: ShardIndex,
    /// Database of the shard.
    pub database: Arc<Database>,
    /// Connection to the broker.
    pub client: async_nats::Client,
    /// Names of the streams.
    pub names: StreamNames,
    /// Holder of the lease; unique to this process.
    pub owner: String,
    /// Settings.
    pub settings: TailSettings,
    /// Wake-ups from writers on this replica.
    pub local: WakeUps,
    /// Wake-ups from writers on other replicas.
    pub remote: WakeUps,
}

/// Cause for which a leader stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeadershipLost {
    #[error("another replica took over")]
    Fenced,
    #[error("the broker lost acknowledged events")]
    BrokerLost,
    #[error("the connection to the broker was lost, and acknowledgements with it")]
    Reconnected,
    #[error("another copy of this database published to the stream")]
    Overtaken,
    #[error(
        "nothing could be appended to the stream {stream} for {} s, because other messages arrive all the time; find the \
         client that publishes them",
        REFUSED_FOR.as_secs()
    )]
    Refused { stream: String },
    #[error(transparent)]
    StandBack(#[from] StandBack),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl LeadershipLost {
    /// Returns whether the broker is the cause, which most often hinders every other replica as well.
    fn is_of_broker(&self) -> bool {
        match self {
            Self::BrokerLost | Self::Reconnected | Self::Refused { .. } | Self::Publish(_) => true,
            Self::Fenced | Self::Overtaken | Self::StandBack(_) | Self::Storage(_) => false,
        }
    }
}

impl Tailer {
    /// Publishes as the leader, or stands by, until `stop`. Then releases the lease.
    pub async fn run(self, stop: CancellationToken) {
        self.show_leadership(false);
        let (mut begun, mut led, mut failures) = (false, false, Failures::default());
        let mut reports = interval(REPORT_EVERY);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            let turn = async {
                if !begun {
                    self.enable_triggers().await;
                    tail::begin(&self.database, self.settings.backfill).await?;
                    self.check_rights().await?;
                    begun = true;
                }
                let free_for = if led || self.is_connected() { Duration::ZERO } else { FREE_FOR };
                tail::acquire(&self.database, &self.owner, LEASE.as_secs_f64(), free_for.as_secs_f64()).await
            };
            match turn.await {
                Ok(Some(cursor)) => {
                    led = true;
                    Box::pin(self.lead(cursor, &mut failures, &mut reports, &stop)).await;
                }
                Ok(None) => {
                    if led {
                        self.show_leadership(false);
                        led = false;
                    }
                    self.stand_by(&stop).await;
                }
                Err(error) => {
                    // The failures of a database that is down are logged elsewhere.
                    if self.database.health().down.is_some() {
                        tracing::debug!(shard = self.shard, %error, "the lease can't be requested now");
                    } else {
                        tracing::warn!(shard = self.shard, %error, "the lease of a feed can't be requested now");
                    }
                    pause(AFTER_FAILURE, &stop).await;
                }
            }
        }
    }

    /// Forwards wake-ups to the leader until it is time to request the lease again.
    async fn stand_by(&self, stop: &CancellationToken) {
        let passing_on = async {
            loop {
                self.local.feed_woken(self.shard).await;
                wake_ups::forward(&self.client, &self.names, self.shard).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = passing_on => {}
            () = sleep(STANDBY_POLL) => {}
        }
    }

    /// Publishes until `stop`, or until this leader must stop. After a failure of the broker it keeps the lease for
    /// [`KEEP_FOR`], unless it has lost its connection to the broker.
    async fn lead(
        &self,
        cursor: TailCursor,
        failures: &mut Failures,
        reports: &mut Interval,
        stop: &CancellationToken,
    ) {
        let fence = cursor.fence;
        if failures.is_recent() {
            tracing::debug!(shard = self.shard, fence, batch = cursor.batch, "tries again to lead the event feed");
        } else {
            tracing::info!(shard = self.shard, fence, batch = cursor.batch, "became the leader of the event feed");
        }
        self.show_leadership(true);
        let outcome = tokio::select! {
            () = stop.cancelled() => None,
            lost = self.keep_lease(fence) => Some(lost),
            never = self.report_lag(reports) => match never {},
            Err(error) = self.publish_unless_rivals(cursor) => Some(error),
        };
        let failure = outcome.as_ref().map(|lost| WithCauses(lost).to_string());
        match &failure {
            Some(error) if failures.is_new(error) => {
                tracing::warn!(shard = self.shard, fence, error, "stopped being the leader of the event feed");
            }
            Some(error) => tracing::debug!(shard = self.shard, fence, error, "the failure lasts"),
            None => {}
        }
        let reason = outcome.as_ref().map(ToString::to_string);
        let of_broker = outcome.as_ref().is_some_and(LeadershipLost::is_of_broker);
        if of_broker && self.is_connected() && !failures.have_lasted(KEEP_FOR) {
            if let Err(error) = tail::note_error(&self.database, fence, reason.as_deref()).await {
                tracing::debug!(shard = self.shard, %error, "the reason of the failure was not stored");
            }
            pause(AFTER_FAILURE, stop).await;
            if !stop.is_cancelled() {
                return;
            }
        }
        // A leader that gives way shows the lag until another replica is the leader.
        if !of_broker || stop.is_cancelled() {
            self.show_leadership(false);
        }
        if let Err(error) = tail::release(&self.database, fence, reason.as_deref()).await {
            tracing::debug!(shard = self.shard, %error, "the lease was not released and will expire");
        }
        match outcome {
            Some(LeadershipLost::StandBack(reason)) => {
                let labels = [("shard", self.shard.to_string()), ("because", reason.label().to_owned())];
                metrics::counter!("noetl_tailer_stood_back_total", &labels).increment(1);
                pause(STAND_BACK, stop).await;
            }
            Some(_) if of_broker => pause(GIVE_WAY, stop).await,
            Some(_) => pause(AFTER_FAILURE, stop).await,
            None => {}
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Publishes as [`Self::publish`] does, unless another copy of the database does so.
    async fn publish_unless_rivals(&self, cursor: TailCursor) -> Result<std::convert::Infallible, LeadershipLost> {
        let this = Leader::of(&cursor);
        let stand_back = |other: Leader| StandBack::Rival { stream: self.names.stream(self.shard), other, this };
        let met = Rivals::meet(self.client.clone(), self.names.leaders(self.shard), this).await?;
        let mut rivals = met.map_err(stand_back)?;
        tokio::select! {
            leader = rivals.answer() => Err(stand_back(leader?).into()),
            ended = self.publish(cursor) => ended,
        }
    }

    /// Renews the lease until another replica has it, or until it has expired because the renewals failed.
    async fn keep_lease(&self, fence: i64) -> LeadershipLost {
        let mut ticks = interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expires = Instant::now() + LEASE;
        loop {
            ticks.tick().await;
            let requested = Instant::now();
            match tail::renew(&self.database, fence, LEASE.as_secs_f64()).await {
                Ok(true) => expires = requested + LEASE,
                Ok(false) => return LeadershipLost::Fenced,
                Err(error) if Instant::now() >= expires => return error.into(),
                Err(error) => tracing::debug!(shard = self.shard, fence, %error, "the lease could not be renewed yet"),
            }
        }
    }

    /// Sets the gauge of the leadership. The next leader reports the lag, so this one no longer does.
    fn show_leadership(&self, is_leader: bool) {
        let shard = self.shard.to_string();
        metrics::gauge!("noetl_tailer_is_leader", "shard" => shard.clone()).set(f64::from(u8::from(is_leader)));
        if !is_leader {
            metrics::gauge!("noetl_tailer_lag_events", "shard" => shard.clone()).set(0);
            metrics::gauge!("noetl_tailer_lag_seconds", "shard" => shard.clone()).set(0);
            metrics::gauge!("noetl_tailer_oldest_open_transaction_seconds", "shard" => shard).set(0);
        }
    }

    /// Reports the lag as metrics every [`REPORT_EVERY`], also over several leaderships. The renewal of the lease does not
    /// wait for it.
    async fn report_lag(&self, reports: &mut Interval) -> std::convert::Infallible {
        loop {
            reports.tick().await;
            let Ok(Some(status)) = tail::status(&self.database).await else { continue };
            let shard = self.shard.to_string();
            let events = u32::try_from(status.lag_events).unwrap_or(u32::MAX);
            metrics::gauge!("noetl_tailer_lag_events", "shard" => shard.clone()).set(events);
            metrics::gauge!("noetl_tailer_lag_seconds", "shard" => shard.clone()).set(status.lag_seconds);
            metrics::gauge!("noetl_tailer_oldest_open_transaction_seconds", "shard" => shard)
                .set(status.oldest_open_transaction_seconds.unwrap_or_default());
        }
    }

    /// Enables the triggers of events and fences for every writer, if a restore disabled them. The feed works without them.
    async fn enable_triggers(&self) {
        match triggers::enable(&self.database).await {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => tracing::warn!(
                shard = self.shard,
                triggers = changed.join(", "),
                "triggers were disabled for some writers and are enabled again; rows that were restored meanwhile with \
                 transaction ids of another server are not published if the feed has passed these ids"
            ),
            Err(error) => tracing::warn!(shard = self.shard, %error, "the triggers can't be enabled"),
        }
    }

    /// Warns if the age of open transactions will not include those of other roles.
    async fn check_rights(&self) -> Result<(), StorageError> {
        if !tail::sees_transactions(&self.database).await? {
            tracing::warn!(
                shard = self.shard,
                "the role does not see the open transactions of other roles; GRANT pg_read_all_stats to it"
            );
        }
        Ok(())
    }
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    stop.run_until_cancelled(sleep(duration)).await;
}
