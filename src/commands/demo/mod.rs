//! `demo`: a subscription runtime and its worker, as a user could have written them, over the public API only.
//!
//! It registers and activates a source subscription, runs an execution for each message of a source, honours pause and
//! drain, and deactivates at the end. No message is lost or run twice: each carries a dedup key, and one whose execute
//! did not answer is sent again under the same key. An execution that is there already, and still running, is run on from
//! where it stands: whoever started it may have died.

mod api;
mod progress;
mod script;
mod source;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use api::{Api, ApiError, Executed, Subscription};
use progress::Progress;
use source::{Message, Source, SourceError};
use worker::Worker;

/// Messages that are run at a time.
const IN_FLIGHT: usize = 64;
/// How often the subscription's state is read.
const WATCH: Duration = Duration::from_secs(1);
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// What `demo` can be told.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The server
    #[arg(long, default_value = "http://127.0.0.1:8082")]
    url: String,
    /// File with the token of a caller that is a worker and a viewer, where the server asks for one
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// The catalog path of kind subscription to register
    #[arg(long, default_value = "samples/orders/inbox")]
    subscription: String,
    /// The catalog path to run for each message
    #[arg(long, default_value = "samples/orders/process")]
    playbook: String,
    /// Where messages come from: `samples` (made up), `-` (lines of standard input), `nats:SUBJECT`, or a file of lines;
    /// a line may be a JSON object, whose `id` is then the message's
    #[arg(long, default_value = "samples")]
    source: Source,
    /// The broker of a `nats:` source
    #[arg(long, default_value = "nats://127.0.0.1:4222")]
    nats_url: String,
    /// Made-up messages per second
    #[arg(long, default_value_t = 5.0)]
    rate: f64,
    /// What to do with the executions
    #[arg(long, value_enum, default_value_t = Finish::Run)]
    finish: Finish,
    /// How long the worker takes from one report to the next, in milliseconds
    #[arg(long, default_value_t = 80)]
    pace: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Finish {
    /// Run them, as a worker would, with pretended tools
    Run,
    /// Leave them running
    Leave,
    /// Cancel each
    Cancel,
}

/// Why the demo stopped.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The server said no, or said nothing.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The source can't be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The token can't be read.
    #[error("{path} holds no token that can be read: {source}")]
    Token {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Ctrl-C can't be received.
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Takes messages until the source ends, the subscription is drained or deactivated, or Ctrl-C.
pub(super) async fn run(options: Options) -> Result<(), DemoError> {
    let token = options.token_file.map(read_token).transpose()?;
    let api = Api::new(&options.url, token);
    let registered = api.register(&options.subscription).await?;
    let active =
        if registered.state == "DRAINING" { registered } else { api.transition("activate", &registered.id).await? };
    let messages = options.source.open(&options.nats_url, options.rate).await?;
    let runtime = Runtime {
        api,
        subscription: active.id.clone(),
        playbook: options.playbook,
        finish: options.finish,
        worker: Worker::new(Duration::from_millis(options.pace)),
    };
    eprintln!("subscription {} of {} takes messages; Ctrl-C ends it", active.id, options.subscription);
    let mut progress = Progress::new(active.state);
    runtime.take(messages, &mut progress).await?;
    if progress.state != "DEACTIVATED" {
        let ended = runtime.api.transition("deactivate", &runtime.subscription).await?;
        progress.state = ended.state;
    }
    progress.finish();
    Ok(())
}

fn read_token(path: PathBuf) -> Result<String, DemoError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(DemoError::Token { path, source }),
    }
}

struct Runtime {
    api: Api,
    subscription: String,
    playbook: String,
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
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut open = true;
        while open || !running.is_empty() {
            let takes = open && progress.state == "ACTIVE" && running.len() < IN_FLIGHT;
            tokio::select! {
                message = messages.next(), if takes => match message {
                    Some(message) => {
                        progress.taken += 1;
                        running.push(self.execute(message?));
                    }
                    None => open = false,
                },
                Some(outcome) = running.next(), if !running.is_empty() => progress.count(outcome?),
                _ = watch.tick() => {
                    // A server that does not answer now is asked again at the next tick.
                    if let Ok(Subscription { state, .. }) = self.api.subscription(&self.subscription).await {
                        open = open && state != "DRAINING" && state != "DEACTIVATED";
                        progress.state = state;
                    }
                }
                _ = interrupts.recv() => {
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

    /// Runs one message to its end, however often the server has to be asked.
    async fn execute(&self, message: Message) -> Result<Outcome, DemoError> {
        let asked = patiently(async || self.api.execute(&self.playbook, &self.subscription, &message).await).await;
        match asked {
            Ok(executed) => Ok(self.finish(executed).await?),
            Err(refusal) => {
                eprintln!("\nmessage {} was refused: {refusal}", message.id);
                Ok(Outcome::Refused)
            }
        }
    }

    async fn finish(&self, executed: Executed) -> Result<Outcome, ApiError> {
        // Two deliveries of a message are one execution, which one of them runs.
        if !self.worker.begin(&executed.id) {
            return Ok(Outcome::Duplicate);
        }
        let outcome = self.settle(&executed).await;
        self.worker.end(&executed.id);
        outcome
    }

    async fn settle(&self, executed: &Executed) -> Result<Outcome, ApiError> {
        if executed.duplicate
            && (self.finish == Finish::Leave || self.worker.has_ended(&self.api, &executed.id).await?)
        {
            return Ok(Outcome::Duplicate);
        }
        match self.finish {
            Finish::Run => self.worker.run(&self.api, &executed.id).await,
            Finish::Leave => Ok(Outcome::Started),
            Finish::Cancel => {
                // One that has ended meanwhile can't be cancelled any more.
                match patiently(async || self.api.cancel(&executed.id).await).await {
                    Ok(()) => Ok(Outcome::Started),
                    Err(_) => Ok(Outcome::EndedElsewhere),
                }
            }
        }
    }
}

/// Asks until the server can do it; fails when it refuses.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, ApiError>) -> Result<T, ApiError> {
    let mut pause = FIRST_RETRY;
    loop {
        match ask().await {
            Err(ApiError::Failed(_) | ApiError::Unreachable(_)) => {
                sleep(pause).await;
                pause = (pause * 2).min(LAST_RETRY);
            }
            answered => return answered,
        }
    }
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Started,
    Completed,
    Failed,
    EndedElsewhere,
    Duplicate,
    Refused,
}
