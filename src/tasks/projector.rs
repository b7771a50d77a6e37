//! Keeps executions' snapshots and the list of executions current: for every event of a shard's stream it advances the
//! execution, then acknowledges.
//!
//! A message only says whose log has grown; the events come from the shard. So a message that comes again, or to two
//! replicas, or late, or for which the process died before it acknowledged, does no harm. What could not be advanced is
//! given back and comes again later.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, Message};
use futures::StreamExt;
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::domain::ids::Id;
use crate::domain::shard::ShardIndex;
use crate::service::projections::{Advances, Projections};
use crate::stream::names;

/// The consumer that all replicas share.
const CONSUMER: &str = "noetl_projector";
/// Messages that are taken at a time.
const BATCH: usize = 1000;
/// The shortest time from one batch to the next: an execution whose events come one by one is not stored for each.
const PACE: Duration = Duration::from_millis(50);
/// After how long a message that nobody answered comes again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long the broker holds a request for messages; it gives a sign of life ten times.
const PULL: Duration = Duration::from_secs(20);
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

impl Projector {
    /// Projects until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        while let Some(ended) = stop.run_until_cancelled(self.consume()).await {
            if let Err(error) = ended {
                tracing::info!(shard = self.shard, error, "the projector has no stream now");
            }
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Takes messages until the broker has none to give any more.
    async fn consume(&self) -> Result<(), BoxError> {
        let consumer = self.consumer().await?;
        let messages =
            consumer.stream().max_messages_per_batch(BATCH).expires(PULL).heartbeat(PULL / 10).messages().await?;
        let mut batches = messages.ready_chunks(BATCH);
        while let Some(batch) = batches.next().await {
            let next = Instant::now() + PACE;
            let messages: Vec<Message> = batch.into_iter().collect::<Result<_, _>>()?;
            self.project(messages).await?;
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
            max_ack_pending: 4 * i64::try_from(BATCH)?,
            ..pull::Config::default()
        };
        Ok(stream.get_or_create_consumer(CONSUMER, config).await?)
    }

    async fn project(&self, messages: Vec<Message>) -> Result<(), BoxError> {
        let ids: BTreeSet<Id> = messages.iter().filter_map(execution).collect();
        let advances = if ids.is_empty() { Advances::new() } else { self.projections.advance(ids).await? };
        if let Some(pending) = messages.last().and_then(|last| Some(last.info().ok()?.pending)) {
            let shard = self.shard.to_string();
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!("noetl_projector_pending_messages", "shard" => shard).set(pending as f64);
        }
        for message in &messages {
            message.ack_with(answer(message, &advances)).await?;
        }
        Ok(())
    }
}

/// Whose log a message tells of; `None`: no execution's.
fn execution(message: &Message) -> Option<Id> {
    let whose = serde_json::from_slice::<Whose>(&message.payload).ok();
    if whose.is_none() {
        metrics::counter!("noetl_projector_foreign_messages_total").increment(1);
    }
    whose.map(|whose| whose.execution_id)
}

/// Done, unless the execution could not be advanced for a reason that may pass.
fn answer(message: &Message, advances: &Advances) -> AckKind {
    let advance = execution(message).and_then(|id| advances.get(&id));
    match advance {
        Some(Err(error)) if !error.is_rejection() => {
            metrics::counter!("noetl_projector_deferred_messages_total").increment(1);
            let delivered = message.info().map_or(1, |info| info.delivered).clamp(1, 16).unsigned_abs();
            tracing::warn!(%error, delivered, "an execution can't be advanced now");
            AckKind::Nak(Some(RETRY.saturating_mul(1 << (delivered - 1)).min(LAST_RETRY)))
        }
        _ => {
            metrics::counter!("noetl_projector_messages_total").increment(1);
            AckKind::Ack
        }
    }
}
