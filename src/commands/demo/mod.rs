//! `demo`: a subscription runtime and its worker. They use only the public API, as a user's programs would.
//!
//! The demo registers and activates a source subscription, runs an execution for each message of a source, obeys pause
//! and drain and the limits of the subscription's document, and deactivates the subscription at the end. No message is
//! lost or run twice: each has a dedup key, and an `execute` without a response is sent again with the same key. If the
//! execution exists already and is still running, the worker continues it from its current state, because the process
//! that started it may have died.

mod api;
mod progress;
pub mod script;
pub mod source;
mod worker;

use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use noetl_runtime::supervisor::Signals;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::client::{Client, ClientError, Server};
use api::{Api, Limits, Registered, Spec, Subscription, has_ended};
use progress::Progress;
use source::{Message, Source, SourceError};
use worker::Worker;

/// Maximum number of messages in flight if the document of the subscription sets none.
const IN_FLIGHT: usize = 64;
/// Playbook if neither the options nor the document of the subscription name one.
const PLAYBOOK: &str = "samples/orders/process";
/// Interval at which the subscription's status is read. A pause stops the intake within a second.
const WATCH: Duration = Duration::from_millis(500);
/// Time by which a start may be late without shifting the following ones.
const SLACK: Duration = Duration::from_millis(100);
/// First pause before a failed call is repeated; it doubles up to [`LAST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Longest pause before a failed call is repeated.
const LAST_RETRY: Duration = Duration::from_secs(5);

/// Options of `demo`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The caller needs the roles worker and viewer.
    #[command(flatten)]
    server: Server,
    /// Catalog path, of kind subscription, to register
    #[arg(long, default_value = "samples/orders/inbox")]
    subscription: String,
    /// Catalog path of the playbook to execute for each message [default: `dispatch.playbook` in the document of the
    /// subscription, else `samples/orders/process`]
    #[arg(long)]
    playbook: Option<String>,
    /// Source of the messages: `samples` (generated), `-` (lines of standard input), `nats:SUBJECT`, or a file of
    /// lines. If a line is a JSON object with an `id`, this id is the message's dedup key
    #[arg(long, default_value = "samples")]
    source: Source,
    /// URL of the broker of a `nats:` source
    #[arg(long, default_value = "nats://127.0.0.1:4222")]
    nats_url: String,
    /// Number of generated messages per second (0.01 to 10000)
    #[arg(long, default_value_t = 5.0)]
    rate: f64,
    /// Treatment of the executions
    #[arg(long, value_enum, default_value_t = Finish::Run)]
    finish: Finish,
    /// Time from one report of the worker to the next, in milliseconds
    #[arg(long, default_value_t = 300)]
    pace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Finish {
    /// Run each execution as a worker would, with simulated tools
    Run,
    /// Start each execution and leave it running
    Leave,
    /// Start each execution and cancel it
    Cancel,
}

/// Reason why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A request was refused or got no response.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// The source can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Signals can't be received.
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Takes messages until the source ends, the subscription is drained or deactivated, or a signal asks it to stop.
pub(super) async fn run(options: Options) -> Result<(), DemoError> {
    let api = Api(Client::new(&options.server)?);
    let Registered { subscription, spec } = api.register(&options.subscription).await?;
    let Spec { dispatch, limits } = spec.unwrap_or_default();
    let active = match subscription.status.as_str() {
        "DRAINING" => subscription,
        _ => api.transition("activate", &subscription.id).await?,
    };
    let messages = options.source.open(&options.nats_url, options.rate).await?;
    let runtime = Runtime {
        api,
        subscription: active.id.clone(),
        playbook: options.playbook.or(dispatch.playbook).unwrap_or_else(|| PLAYBOOK.to_owned()),
        limits,
        finish: options.finish,
        worker: Worker::new(Duration::from_millis(options.pace)),
    };
    eprintln!("subscription {} of {} takes messages; Ctrl-C ends it", active.id, options.subscription);
    let mut progress = Progress::new(active.status);
    runtime.take(messages, &mut progress).await?;
    if progress.status != "DEACTIVATED" {
        let ended = runtime.api.transition("deactivate", &runtime.subscription).await?;
        progress.status = ended.status;
    }
    progress.finish();
    Ok(())
}

struct Runtime {
    api: Api,
    subscription: String,
    playbook: String,
    limits: Limits,
    finish: Finish,
    worker: Worker,
}

impl Runtime {
    async fn take(
        &self,
        messages: impl Stream<Item = Result<Message, SourceError>>,
        progress: &mut Progress,
    ) -> Result<(), DemoError> {
        let mut messages = std::pin::pin!(messages);
        let mut running = FuturesUnordered::new();
        let mut watch = interval(WATCH);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signals = Signals::listen()?;
        let in_flight = self.limits.max_in_flight.unwrap_or(IN_FLIGHT);
        let pause =
            self.limits.max_dispatch_per_second.map_or(Duration::ZERO, |most| Duration::from_secs(1) / most.max(1));
        let mut next = Instant::now();
        let mut open = true;
        while open || !running.is_empty() {
            let takes = open && progress.status == "ACTIVE" && running.len() < in_flight;
            tokio::select! {
                message = async { sleep_until(next).await; messages.next().await }, if takes => match message {
                    Some(message) => {
                        progress.taken += 1;
                        next = if next + SLACK < Instant::now() { Instant::now() } else { next } + pause;
                        running.push(self.execute(message?));
                    }
                    None => open = false,
                },
                Some(outcome) = running.next(), if !running.is_empty() => progress.count(outcome),
                _ = watch.tick() => {
                    // If there is no response, the next tick tries again.
                    if let Ok(Subscription { status, .. }) = self.api.subscription(&self.subscription).await {
                        open = open && status != "DRAINING" && status != "DEACTIVATED";
                        progress.status = status;
                    }
                }
                _ = signals.next() => {
                    if !open {
                        break;
                    }
                    open = false;
                }
            }
            progress.show(running.len());
        }
        Ok(())
    }

    /// Runs one message until it ends. Failed requests are repeated.
    async fn execute(&self, message: Message) -> Outcome {
        // Two deliveries of a message share one execution, and only one of them runs it.
        if !self.worker.begin(&message.id) {
            return Outcome::Duplicate;
        }
        let outcome = self.finish(&message).await;
        self.worker.end(&message.id);
        outcome.unwrap_or_else(|refusal| {
            eprintln!("\nmessage {} was refused: {refusal}", message.id);
            Outcome::Refused
        })
    }

    async fn finish(&self, message: &Message) -> Result<Outcome, ClientError> {
        let (run, duplicate) =
            with_retries(async || self.api.execute(&self.playbook, &self.subscription, message).await).await?;
        if duplicate && (self.finish == Finish::Leave || has_ended(&run.status)) {
            return Ok(Outcome::Duplicate);
        }
        match self.finish {
            Finish::Run => self.worker.run(&self.api, run).await,
            Finish::Leave => Ok(Outcome::Left),
            Finish::Cancel => {
                // It is refused if the execution has ended.
                let _ = with_retries(async || self.api.cancel(&run.id).await).await;
                Ok(Outcome::Left)
            }
        }
    }
}

/// Repeats a request, with backoff, until the server carries it out or refuses it.
async fn with_retries<T>(ask: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut pause = FIRST_RETRY;
    loop {
        match ask().await {
            Err(ClientError::Failed(_) | ClientError::Unreachable(_)) => {
                sleep(pause).await;
                pause = (pause * 2).min(LAST_RETRY);
            }
            answered => return answered,
        }
    }
}

/// Result of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The worker did not run it to its end.
    Left,
    Completed,
    Failed,
    Duplicate,
    Refused,
}
