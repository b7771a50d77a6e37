//! Keeps executions' snapshots and the list of executions current: for every event of a shard's stream it advances the
//! execution, then acknowledges.
//!
//! A message only says whose log has grown; the events come from the shard. So a message that comes again, or to two
//! replicas, or late, or for which the process died before it acknowledged, does no harm. What could not be advanced is
//! given back and comes again later.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{self, AckKind, Message};
use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::domain::ids::Id;
use crate::domain::shard::ShardIndex;
use crate::service::fault;
use crate::service::projections::{Advances, Projections};
use crate::stream::names;
use noetl_json::{self as json, Typed};

/// The consumer that all replicas share.
const CONSUMER: &str = "noetl_projector";
/// Messages that are taken at a time.
const BATCH: usize = 1000;
/// Bytes of messages on their way at a time.
const MAX_BYTES: usize = 4 << 20;
/// The shortest time from one batch to the next: an execution whose events come one by one is not stored for each.
const PACE: Duration = Duration::from_millis(50);
/// After how long a message that nobody answered comes again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long the broker holds a request for messages; it gives a sign of life ten times.
const PULL: Duration = Duration::from_secs(20);
/// How often an execution is tried whose state can't be stored for a reason of its own.
const ATTEMPTS: u32 = 8;
const RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(5);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The projector of one shard.
#[derive(Debug, Clone)]
pub struct Projector {
    /// Whose stream.
    pub shard: ShardIndex,
    /// The broker.
    pub client: async_nats::Client,
    /// What advances executions.
    pub projections: Projections,
}

/// All that it reads of a message.
#[derive(Debug, Deserialize)]
struct Whose {
    execution_id: Id,
}

impl Typed for Whose {}

/// A message without its payload, which may be large.
struct Told {
    /// Whose log has grown; `None`: no execution's.
    execution: Option<Id>,
    /// How often the message was handed out.
    delivered: u32,
    /// How many messages are behind it.
    pending: u64,
    acker: Acker,
}

impl Told {
    fn of(message: Message) -> Self {
        let whose = json::parse::<Whose>(&message.payload).ok();
        if whose.is_none() {
            metrics::counter!("noetl_projector_foreign_messages_total").increment(1);
        }
        let info = message.info().map(|info| (u32::try_from(info.delivered).unwrap_or(1), info.pending));
        let (delivered, pending) = info.unwrap_or((1, 0));
        Self { execution: whose.map(|whose| whose.execution_id), delivered, pending, acker: message.split().1 }
    }

    /// Done, unless the execution could not be advanced for a reason that may pass.
    fn answer(&self, advances: &Advances) -> AckKind {
        match self.execution.and_then(|id| advances.get(&id)) {
            // Its state is still read exactly, from the log; a later event tries again.
            Some(Err(error)) if error.unavailable().is_none() && self.delivered >= ATTEMPTS => {
                metrics::counter!("noetl_projector_given_up_messages_total").increment(1);
                AckKind::Ack
            }
            Some(Err(error)) if !error.is_rejection() => {
                metrics::counter!("noetl_projector_deferred_messages_total").increment(1);
                tracing::warn!(%error, delivered = self.delivered, "an execution can't be advanced now");
                let doublings = self.delivered.clamp(1, 16) - 1;
                AckKind::Nak(Some(RETRY.saturating_mul(1 << doublings).min(LAST_RETRY)))
            }
            _ => {
                metrics::counter!("noetl_projector_messages_total").increment(1);
                AckKind::Ack
            }
        }
    }
}

impl Projector {
    /// Projects until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut told = None;
        while let Some(ended) = stop.run_until_cancelled(self.consume()).await {
            let reason = ended.err().map(|error| error.to_string());
            if reason.is_some() && reason != told {
                tracing::info!(shard = self.shard, reason, "the projector has no stream now");
            }
            told = reason;
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Takes messages until the broker has none to give any more.
    async fn consume(&self) -> Result<(), BoxError> {
        let consumer = self.consumer().await?;
        // A message larger than what was asked for would never come.
        let bytes = MAX_BYTES.max(2 * self.client.server_info().max_payload);
        let pulled = consumer.stream().max_messages_per_batch(BATCH).max_bytes_per_batch(bytes);
        let messages = pulled.expires(PULL).heartbeat(PULL / 10).messages().await?;
        let mut batches = messages.map_ok(Told::of).ready_chunks(BATCH);
        while let Some(batch) = batches.next().await {
            let next = Instant::now() + PACE;
            self.project(batch.into_iter().collect::<Result<_, _>>()?).await?;
            sleep_until(next).await;
        }
        Ok(())
    }

    async fn consumer(&self) -> Result<PullConsumer, BoxError> {
        let stream = jetstream::new(self.client.clone()).get_stream_no_info(names::stream(self.shard)).await?;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: 20 * i64::try_from(BATCH)?,
            ..pull::Config::default()
        };
        Ok(stream.get_or_create_consumer(CONSUMER, config).await?)
    }

    async fn project(&self, told: Vec<Told>) -> Result<(), BoxError> {
        let ids: BTreeSet<Id> = told.iter().filter_map(|one| one.execution).collect();
        fault::reach("projector.taken");
        let advances = if ids.is_empty() { Advances::new() } else { self.projections.advance(ids).await? };
        fault::reach("projector.advanced");
        if let Some(last) = told.last() {
            let shard = self.shard.to_string();
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!("noetl_projector_pending_messages", "shard" => shard).set(last.pending as f64);
        }
        for one in &told {
            one.acker.ack_with(one.answer(&advances)).await?;
        }
        Ok(())
    }
}
