//! The durable consumer of a shard's projectors, and the checks that keep it working.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Config, PullConsumer, pull};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};
use tokio::time::sleep;

use super::BATCH;
use noetl_runtime::supervisor::TaskError;

/// Consumer that all replicas share. NoETL's own projector uses `noetl_projector`.
const CONSUMER: &str = "noetl_graphql_projector";
/// Time after which an unacknowledged message is delivered again.
pub(super) const ACK_WAIT: Duration = Duration::from_secs(30);
/// Time from one check of the consumer to the next.
const CHECK_EVERY: Duration = Duration::from_secs(3);
/// Number of consecutive checks without a message after which the projector counts as stalled.
const CHECKS_UNTIL_STALLED: u32 = 3;

/// Another program changed the consumer.
#[derive(Debug, thiserror::Error)]
#[error("another program changed the settings of the consumer {CONSUMER}; they are corrected")]
struct SettingsChanged;

/// Messages that this replica has received from the consumer.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    received: AtomicU64,
    busy: AtomicBool,
}

impl Receipts {
    /// Records that messages arrived and are being processed.
    pub(super) fn begin(&self, messages: usize) {
        self.received.fetch_add(messages as u64, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
    }

    /// Records that the projector waits for messages again.
    pub(super) fn end(&self) {
        self.busy.store(false, Ordering::Relaxed);
    }
}

/// Returns the number of messages at the beginning of the stream that are gone and that no projector may have received:
/// they expired or were deleted before.
pub(super) async fn missed(stream: &Stream<()>) -> Result<u64, TaskError> {
    let first = stream.get_info().await?.state.first_sequence;
    let acknowledged = match stream.consumer_info(CONSUMER).await {
        Ok(info) => info.ack_floor.stream_sequence,
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => 0,
        Err(error) => return Err(error.into()),
    };
    Ok(if first > acknowledged + 1 { first - 1 } else { 0 })
}

/// Opens the consumer of a stream. Creates it if it does not exist, and corrects its settings.
pub(super) async fn open(stream: &Stream<()>) -> Result<PullConsumer, TaskError> {
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: 20 * i64::try_from(BATCH)?,
        ..pull::Config::default()
    };
    match stream.create_consumer(config.clone()).await {
        Ok(consumer) => Ok(consumer),
        // Some settings can't be changed. A new consumer starts with the oldest message, which does no harm.
        Err(error) if is_fixed(error.kind()) => {
            tracing::warn!(consumer = CONSUMER, %error, "replacing a consumer whose settings another program changed");
            stream.delete_consumer(CONSUMER).await?;
            Ok(stream.create_consumer(config).await?)
        }
        Err(error) => Err(error.into()),
    }
}

fn is_fixed(kind: ConsumerErrorKind) -> bool {
    let codes = [
        ErrorCode::CONSUMER_CREATE,
        ErrorCode::CONSUMER_NAME_EXIST,
        ErrorCode::CONSUMER_EXISTING_ACTIVE,
        ErrorCode::CONSUMER_REPLACEMENT_WITH_DIFFERENT_NAME,
    ];
    matches!(kind, ConsumerErrorKind::JetStream(error) if codes.contains(&error.error_code()))
}

/// Checks the consumer until its settings change or it can't be read. After each check, calls `stalled` with the reason
/// if this replica receives nothing although the stream grows and messages wait, else with `None`.
pub(super) async fn watch(
    stream: &Stream<()>,
    consumer: &PullConsumer,
    receipts: &Receipts,
    stalled: impl Fn(Option<String>),
) -> Result<Infallible, TaskError> {
    let settings: &Config = &consumer.cached_info().config;
    let (mut seen, mut end, mut checks) = (receipts.received.load(Ordering::Relaxed), u64::MAX, 0);
    loop {
        sleep(CHECK_EVERY).await;
        let last = stream.get_info().await?.state.last_sequence;
        let info = consumer.get_info().await?;
        if info.config != *settings {
            return Err(SettingsChanged.into());
        }
        let (received, busy) = (receipts.received.load(Ordering::Relaxed), receipts.busy.load(Ordering::Relaxed));
        let waiting = info.num_pending + info.num_ack_pending as u64;
        if received > seen || busy || waiting == 0 {
            checks = 0;
        } else if last > end {
            checks += 1;
        }
        (seen, end) = (received, last);
        stalled((checks >= CHECKS_UNTIL_STALLED).then(|| {
            format!("the consumer {CONSUMER} delivers nothing although the stream grows; {waiting} messages wait")
        }));
    }
}
