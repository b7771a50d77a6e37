//! `demo`: a subscription runtime that a user could have written, over the public API only.
//!
//! It registers and activates a source subscription, runs an execution for each message of a source, honours pause and
//! drain, and deactivates at the end. No message is lost or run twice: each carries a dedup key, and one whose execute
//! did not answer is sent again under the same key.

mod api;
mod progress;
mod source;

use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use api::{Api, ApiError, Executed, Subscription};
use progress::Progress;
use source::{Message, Source, SourceError};

/// Messages whose execute is awaited at a time.
const IN_FLIGHT: usize = 16;
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
    /// What to do with the executions, as no worker runs them
    #[arg(long, value_enum, default_value_t = Finish::Leave)]
    finish: Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Finish {
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
    /// Ctrl-C can't be received.
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Takes messages until the source ends, the subscription is drained or deactivated, or Ctrl-C.
pub(super) async fn run(options: Options) -> Result<(), DemoError> {
    let api = Api::new(&options.url);
    let registered = api.register(&options.subscription).await?;
    let active =
        if registered.state == "DRAINING" { registered } else { api.transition("activate", &registered.id).await? };
    let messages = options.source.open(&options.nats_url, options.rate).await?;
    let runtime = Runtime { api, subscription: active.id.clone(), playbook: options.playbook, finish: options.finish };
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

struct Runtime {
    api: Api,
    subscription: String,
    playbook: String,
    finish: Finish,
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

    /// Runs one message to an answer, however often the server has to be asked.
    async fn execute(&self, message: Message) -> Result<Outcome, DemoError> {
        let mut pause = FIRST_RETRY;
        loop {
            match self.api.execute(&self.playbook, &self.subscription, &message).await {
                Ok(executed) => return self.finish(executed).await,
                Err(ApiError::Refused(refusal)) => {
                    eprintln!("\nmessage {} was refused: {refusal}", message.id);
                    return Ok(Outcome::Refused);
                }
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
            }
        }
    }

    async fn finish(&self, executed: Executed) -> Result<Outcome, DemoError> {
        if executed.duplicate {
            return Ok(Outcome::Duplicate);
        }
        if self.finish == Finish::Cancel {
            match self.api.cancel(&executed.id).await {
                Ok(()) | Err(ApiError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Outcome::Started)
    }
}

/// What came of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Started,
    Duplicate,
    Refused,
}
