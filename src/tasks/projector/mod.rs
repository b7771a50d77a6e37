//! Keeps executions' snapshots and the list of executions current: for every event of a shard's stream it advances the
//! execution, then acknowledges the message.
//!
//! A message only names an execution whose log has grown; the events are read from the shard. So a message does no harm
//! if it is a duplicate, late, or delivered to two replicas, or if the process crashes before it acknowledges.
//!
//! While a database is unavailable, the projector keeps the messages and tries again every second. So snapshots and lists
//! are current soon after its return, however long it was away. If an execution could not be advanced for another
//! reason, its messages are returned to the broker and delivered again later, each time after a longer pause.
//!
//! Messages that expired before a projector received them are missed. Then a pass over the logs of the shard fills the list.
//!
//! Source subscriptions have logs too, but no state that is stored, so their events are only acknowledged.
//!
//! The consumer belongs to this product. If another program changes its settings, they are corrected. If the consumer
//! delivers nothing although the stream grows, the replica is reported as not ready.

mod consumer;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::stream::Stream;
use async_nats::jetstream::{AckKind, Message};
use futures::{FutureExt, StreamExt, TryStreamExt};
use serde::Deserialize;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use consumer::{ACK_WAIT, Receipts};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::is_of_subscription;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_feed::wire::names::StreamNames;
use noetl_feed::wire::streams;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::crash_point;
use noetl_runtime::stalls::Stalls;
use noetl_runtime::supervisor::TaskError;
use noetl_service::projections::Projections;
use noetl_use_cases::projections::{AdvanceProjections, Advances};
use plain_json::{self as json, Typed};

/// Maximum number of messages in a batch.
const BATCH: usize = 1000;
/// Maximum bytes of messages that are requested at a time.
const MAX_BYTES: usize = 4 << 20;
/// Shortest time from one batch to the next, unless a whole batch waits. So the state of an execution whose events arrive
/// one by one is not stored for each event, and lists lag less than a second behind the events.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which the broker holds a request for messages; it sends ten heartbeats in this time.
const PULL_EXPIRY: Duration = Duration::from_secs(20);
/// Number of deliveries after which a message is given up if its execution can't be stored although the databases are
/// available.
const MAX_DELIVERIES: u32 = 8;
/// Interval of the searches for missed messages.
const MISSED_EVERY: Duration = Duration::from_secs(10);
/// Pause after a failure, and before a message is delivered again; the latter doubles up to [`MAX_RETRY`].
const RETRY: Duration = Duration::from_secs(1);
/// Longest pause before a message is delivered again.
const MAX_RETRY: Duration = Duration::from_mins(1);

/// Projector of one shard.
#[derive(Debug, Clone)]
pub struct Projector {
    /// Shard whose stream the projector reads.
    pub shard: ShardIndex,
    /// Connection to the broker.
    pub client: async_nats::Client,
    /// Names of the streams.
    pub names: StreamNames,
    /// Service that advances executions.
    pub projections: Projections,
    /// Record of the tasks that make no progress.
    pub stalls: Stalls,
}

/// Part of a message that the projector reads.
#[derive(Debug, Deserialize)]
struct EventExecution {
    execution_id: Id,
    #[serde(default)]
    event_type: String,
}

impl Typed for EventExecution {}

/// Message without its payload, which may be large.
struct Notification {
    /// Execution whose log has grown; `None` if the message is not an event, or one of a source subscription.
    execution: Option<Id>,
    /// Number of times that the message was delivered.
    delivered: u32,
    /// Number of messages after it in the stream.
    pending: u64,
    acker: Acker,
}

impl Notification {
    fn of(message: Message) -> Self {
        let event = json::parse::<EventExecution>(&message.payload).ok();
        if event.is_none() {
            metrics::counter!("noetl_projector_foreign_messages_total").increment(1);
        }
        let info = message.info().map(|info| (u32::try_from(info.delivered).unwrap_or(1), info.pending));
        let (delivered, pending) = info.unwrap_or((1, 0));
        let event = event.filter(|event| !is_of_subscription(&event.event_type));
        Self { execution: event.map(|event| event.execution_id), delivered, pending, acker: message.split().1 }
    }

    /// Returns the acknowledgement: positive unless the execution could not be advanced for a reason that may be
    /// temporary. `None`: a database is unavailable, so the message is kept.
    fn acknowledgement(&self, advances: &Advances) -> Option<AckKind> {
        Some(match self.execution.and_then(|id| Some((id, advances.get(&id)?))) {
            Some((_, Err(error))) if error.unavailable().is_some() => return None,
            // Reads still return the exact state, from the log. A later event tries again.
            Some((execution, Err(error))) if error.timed_out().is_none() && self.delivered >= MAX_DELIVERIES => {
                metrics::counter!("noetl_projector_given_up_messages_total").increment(1);
                let (error, delivered) = (WithCauses(error), self.delivered);
                tracing::warn!(%execution, %error, delivered, "the projector gave up an execution until its next event");
                AckKind::Ack
            }
            Some((execution, Err(error))) if !error.is_rejection() => {
                metrics::counter!("noetl_projector_deferred_messages_total").increment(1);
                let (error, delivered) = (WithCauses(error), self.delivered);
                tracing::warn!(%execution, %error, delivered, "an execution can't be advanced now");
                let doublings = self.delivered.clamp(1, 16) - 1;
                AckKind::Nak(Some(RETRY.saturating_mul(1 << doublings).min(MAX_RETRY)))
            }
            _ => {
                metrics::counter!("noetl_projector_messages_total").increment(1);
                AckKind::Ack
            }
        })
    }
}

impl Projector {
    /// Projects until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let (mut logged, mut missed) = (None, 0);
        while let Some(ended) = stop.run_until_cancelled(self.consume(&mut missed)).await {
            let reason = ended.err().map(|error| error.to_string());
            if reason.is_some() && reason != logged {
                tracing::info!(shard = self.shard, reason, "the projector can't read its stream now");
            }
            logged = reason;
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Processes messages until the consumer ends or fails, or another program changes its settings. `missed` is the number
    /// of missed messages for which a pass over the logs was requested.
    async fn consume(&self, missed: &mut u64) -> Result<(), TaskError> {
        let context = streams::context(self.client.clone(), &self.names);
        let stream = context.get_stream_no_info(self.names.stream(self.shard)).await?;
        // Before the consumer exists: if the request fails, the next attempt finds the same.
        self.cover(consumer::missed(&stream).await?, missed).await?;
        let consumer = consumer::open(&stream).await?;
        let receipts = Receipts::default();
        tokio::select! {
            ended = self.process(&consumer, &receipts) => ended,
            Err(error) = consumer::watch(&stream, &consumer, &receipts, |reason| self.report(reason)) => Err(error),
            Err(error) = self.watch_missed(&stream, missed) => Err(error),
        }
    }

    /// Looks for messages that expire while databases are unavailable.
    async fn watch_missed(&self, stream: &Stream<()>, missed: &mut u64) -> Result<Infallible, TaskError> {
        loop {
            sleep(MISSED_EVERY).await;
            self.cover(consumer::missed(stream).await?, missed).await?;
        }
    }

    /// Has the list filled from the logs if messages were missed since the last request.
    async fn cover(&self, found: u64, missed: &mut u64) -> Result<(), TaskError> {
        if found > *missed {
            self.projections.request_fill(self.shard).await?;
            tracing::warn!(
                shard = self.shard,
                until = found,
                "messages of the event stream were gone before a projector received them; the list of executions is filled \
                 from the logs"
            );
            *missed = found;
        }
        Ok(())
    }

    /// Records or removes the reason why the projector makes no progress.
    fn report(&self, reason: Option<String>) {
        let task = format!("projector of shard {}", self.shard);
        if let Some(reason) = reason {
            if self.stalls.begin(&task, reason.clone()) {
                tracing::error!(shard = self.shard, reason, "the projector is stalled");
            }
        } else if self.stalls.end(&task) {
            tracing::info!(shard = self.shard, "the projector receives messages again");
        }
    }

    async fn process(&self, consumer: &PullConsumer, receipts: &Receipts) -> Result<(), TaskError> {
        // A message larger than the request would never be delivered.
        let bytes = MAX_BYTES.max(2 * self.client.server_info().max_payload);
        let pulled = consumer.stream().max_messages_per_batch(BATCH).max_bytes_per_batch(bytes);
        let messages = pulled.expires(PULL_EXPIRY).heartbeat(PULL_EXPIRY / 10).messages().await?;
        let mut batches = messages.map_ok(Notification::of).ready_chunks(BATCH);
        // Without the limit of the runtime, which lets other tasks run after 128 messages: a batch would end there.
        while let Some(batch) = unconstrained(batches.next()).await {
            let (next, is_full) = (Instant::now() + MIN_BATCH_INTERVAL, batch.len() == BATCH);
            receipts.begin(batch.len());
            let mut kept = self.project(batch.into_iter().collect::<Result<_, _>>()?).await?;
            let mut extended = Instant::now();
            while !kept.is_empty() {
                sleep(RETRY).await;
                // Messages that arrive meanwhile are kept too. Else the broker would deliver them again.
                if kept.len() < BATCH
                    && let Some(Some(batch)) = unconstrained(batches.next()).now_or_never()
                {
                    receipts.begin(batch.len());
                    kept.extend(batch.into_iter().collect::<Result<Vec<_>, _>>()?);
                }
                if extended.elapsed() > ACK_WAIT / 3 {
                    extended = Instant::now();
                    for one in &kept {
                        one.acker.ack_with(AckKind::Progress).await?;
                    }
                }
                kept = self.project(kept).await?;
            }
            receipts.end();
            if !is_full {
                sleep_until(next).await;
            }
        }
        Ok(())
    }

    /// Advances the executions of messages, and acknowledges the messages. Returns those that are kept, because a database
    /// is unavailable.
    async fn project(&self, notifications: Vec<Notification>) -> Result<Vec<Notification>, TaskError> {
        if let Some(last) = notifications.last() {
            let shard = self.shard.to_string();
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!("noetl_projector_pending_messages", "shard" => shard).set(last.pending as f64);
        }
        let ids: BTreeSet<Id> = notifications.iter().filter_map(|one| one.execution).collect();
        crash_point::reach("projector.taken");
        let advances = self.projections.advance(ids, &Scope::Unrestricted).await;
        crash_point::reach("projector.advanced");
        let mut kept = Vec::new();
        for one in notifications {
            match one.acknowledgement(&advances) {
                Some(kind) => one.acker.ack_with(kind).await?,
                None => kept.push(one),
            }
        }
        if !kept.is_empty() {
            metrics::counter!("noetl_projector_deferred_messages_total").increment(kept.len() as u64);
            tracing::debug!(shard = self.shard, messages = kept.len(), "a database is unavailable; tries again");
        }
        Ok(kept)
    }
}
