//! Named tasks that start and end together: servers, and the background work that their operations rely on.
//!
//! A shutdown has these steps, in this order:
//!
//! 1. [`draining`](Supervisor::draining) is cancelled: the replica is no longer ready.
//! 2. After SIGTERM, a delay passes in which balancers notice it, while requests are still served.
//! 3. [`closing`](Supervisor::closing) is cancelled: servers take no more connections and end when their operations
//!    have.
//! 4. When the servers have ended, or their time is over, [`soft`](Supervisor::soft) is cancelled: background work
//!    ends.
//! 5. Tasks that have not ended within the grace period are aborted.
//!
//! Another signal in any of these steps aborts all tasks. If a task ends, fails or panics too early, the whole process
//! stops without the delay.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Time that background work has to end by itself. The files in `deploy/` let a process live for this time and 5 s more,
/// after the delay and the deadline of the operations.
pub const GRACE: Duration = Duration::from_secs(10);

/// Cause of a task's failure.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

type Tasks = JoinSet<(&'static str, Result<(), TaskError>)>;

/// Starts and ends the tasks of one process.
#[derive(Debug, Default)]
pub struct Supervisor {
    servers: Tasks,
    background: Tasks,
    draining: CancellationToken,
    closing: CancellationToken,
    soft: CancellationToken,
}

/// Durations of a shutdown.
#[derive(Debug, Clone, Copy)]
pub struct ShutdownTimeouts {
    /// Time after SIGTERM in which balancers notice that the replica is no longer ready.
    pub delay: Duration,
    /// Time that servers have to end their operations.
    pub drain: Duration,
}

/// Cause for which the process ends early.
#[derive(Debug, thiserror::Error)]
pub enum EndedEarly {
    /// A task ended before it was asked to, with or without an error.
    #[error("task {name} ended early{}", .error.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    Task {
        /// Name of the task.
        name: &'static str,
        /// Its error, if it returned one.
        error: Option<TaskError>,
    },
    /// A task panicked or was aborted.
    #[error("a task panicked")]
    Panic(#[from] JoinError),
}

/// A signal that asks the process to stop came first.
#[derive(Debug)]
pub struct Interrupted;

impl Supervisor {
    /// Returns the token that is cancelled when clients should move to another replica.
    #[must_use]
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Returns the token that is cancelled when servers are to end.
    #[must_use]
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    /// Returns the token that is cancelled when background tasks are to end.
    #[must_use]
    pub fn soft(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Starts a background task, which ends when [`soft`](Self::soft) is cancelled.
    pub fn start<E: Into<TaskError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.background.spawn(async move { (name, task.await.map_err(Into::into)) });
    }

    /// Starts a server, which ends when [`closing`](Self::closing) is cancelled and its last operation has ended.
    pub fn serve<E: Into<TaskError>>(
        &mut self,
        name: &'static str,
        server: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.servers.spawn(async move { (name, server.await.map_err(Into::into)) });
    }

    /// Waits for a signal, a task that ends early, or `ended`, which returns the reason that the process must end; then
    /// ends all tasks.
    pub async fn run(
        mut self,
        timeouts: ShutdownTimeouts,
        mut signals: Signals,
        ended: impl Future<Output = EndedEarly>,
    ) -> Result<(), EndedEarly> {
        let (delay, outcome) = tokio::select! {
            kind = signals.next() => (if kind == SignalKind::terminate() { timeouts.delay } else { Duration::ZERO }, Ok(())),
            Some(ended) = self.servers.join_next() => (Duration::ZERO, Err(early(ended))),
            Some(ended) = self.background.join_next() => (Duration::ZERO, Err(early(ended))),
            error = ended => (Duration::ZERO, Err(error)),
        };
        if outcome.is_ok() {
            tracing::info!(?delay, "stopping");
        }
        if self.stop(delay, timeouts.drain, &mut signals).await.is_err() {
            tracing::warn!("received another signal; tasks are aborted");
        }
        for token in [&self.draining, &self.closing, &self.soft] {
            token.cancel();
        }
        self.servers.shutdown().await;
        self.background.shutdown().await;
        outcome
    }

    async fn stop(&mut self, delay: Duration, drain: Duration, signals: &mut Signals) -> Result<(), Interrupted> {
        self.draining.cancel();
        signals.interrupt(sleep(delay)).await?;
        self.closing.cancel();
        if !signals.interrupt(all_ended(&mut self.servers, drain)).await? {
            tracing::warn!("operations did not end in time and are aborted");
        }
        self.servers.abort_all();
        self.soft.cancel();
        if !signals.interrupt(all_ended(&mut self.background, GRACE)).await? {
            tracing::warn!("tasks did not end in time and are aborted");
        }
        Ok(())
    }
}

/// Waits until all tasks have ended; returns false if this takes longer than `limit`.
async fn all_ended(tasks: &mut Tasks, limit: Duration) -> bool {
    let ended = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(limit, ended).await.is_ok()
}

/// SIGINT and SIGTERM, which ask a process to stop. From [`listen`](Self::listen) on they no longer kill the process.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen. A signal that comes before the first wait is not lost.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal, and returns which one it is.
    pub async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }

    /// Runs `step` to its end, unless a signal comes first; then `step` is dropped.
    pub async fn interrupt<T>(&mut self, step: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::select! {
            outcome = Box::pin(step) => Ok(outcome),
            _ = self.next() => Err(Interrupted),
        }
    }
}

fn early(ended: Result<(&'static str, Result<(), TaskError>), JoinError>) -> EndedEarly {
    match ended {
        Ok((name, outcome)) => EndedEarly::Task { name, error: outcome.err() },
        Err(panic) => panic.into(),
    }
}
