//! Named background tasks that live and die together.
//!
//! Every task gets the soft token and ends when it is cancelled; what has not ended within the grace period is aborted.
//! A task that ends, fails or panics before the soft token is cancelled takes the whole process down.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// How long tasks have to end by themselves.
const GRACE: Duration = Duration::from_secs(10);

/// What a task's failure is reported as.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

/// Starts and ends the tasks of one process.
#[derive(Debug, Default)]
pub struct Supervisor {
    tasks: JoinSet<(&'static str, Result<(), TaskError>)>,
    soft: CancellationToken,
}

/// A task ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum EndedEarly {
    /// With an error, or with none.
    #[error("task {name} ended early{}", .error.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    Task {
        /// Which.
        name: &'static str,
        /// Why, if it said so.
        error: Option<TaskError>,
    },
    /// By a panic, or because it was aborted.
    #[error("a task panicked")]
    Panic(#[from] JoinError),
    /// Signals can't be received.
    #[error("signals can't be received")]
    Signals(#[from] std::io::Error),
}

impl Supervisor {
    /// Cancelled when the tasks are to end.
    #[must_use]
    pub fn soft(&self) -> CancellationToken {
        self.soft.clone()
    }

    /// Starts a task that ends when the soft token is cancelled.
    pub fn start<E: Into<TaskError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.tasks.spawn(async move { (name, task.await.map_err(Into::into)) });
    }

    /// Waits for SIGINT, SIGTERM, a task that ends early, or `ended`, which says why the process can't go on; then ends
    /// all tasks.
    pub async fn run(mut self, ended: impl Future<Output = EndedEarly>) -> Result<(), EndedEarly> {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let outcome = tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            () = self.soft.cancelled() => Ok(()),
            Some(ended) = self.tasks.join_next() => Err(early(ended)),
            error = ended => Err(error),
        };
        if outcome.is_ok() {
            tracing::info!("stopping");
        }
        self.soft.cancel();
        let drained = async { while self.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(GRACE) => tracing::warn!("tasks did not end in time and are aborted"),
            _ = interrupt.recv() => tracing::warn!("interrupted again; tasks are aborted"),
        }
        self.tasks.shutdown().await;
        outcome
    }
}

fn early(ended: Result<(&'static str, Result<(), TaskError>), JoinError>) -> EndedEarly {
    match ended {
        Ok((name, outcome)) => EndedEarly::Task { name, error: outcome.err() },
        Err(panic) => panic.into(),
    }
}
