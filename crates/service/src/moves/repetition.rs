//! Repetition of a statement that a fence refused. Its bucket is being moved to another shard: the caller waits for the
//! end of the fence or for a new map, and routes the statement again.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Time for which a statement is repeated. A mutation responds within 5 s, so the last statement has time.
pub(super) const REPEATED_FOR: Duration = Duration::from_millis(2800);
/// Pause before the first repetition; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause before a repetition.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Time left to repeat a statement, and the pause before the next repetition.
pub(crate) struct Repetition<'d> {
    databases: &'d Databases,
    version: u64,
    begun: Instant,
    pause: Duration,
}

impl<'d> Repetition<'d> {
    /// Begins before the first attempt.
    pub(crate) fn new(databases: &'d Databases) -> Self {
        Self { databases, version: databases.map().version(), begun: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Waits until a statement that a fence refused can be repeated. Returns false at once if the time is over.
    pub(crate) async fn again(&mut self) -> bool {
        if self.begun.elapsed() >= REPEATED_FOR {
            return false;
        }
        self.databases.request_new_map();
        // A pause that ends without a new map: the fence may have been lifted.
        let _ = timeout(self.pause, self.databases.map_changed(self.version)).await;
        self.version = self.databases.map().version();
        self.pause = LONGEST_PAUSE.min(self.pause * 2);
        true
    }
}

/// Runs a statement, and repeats it while a fence refuses it. The statement must take its shard from the current map.
pub(crate) async fn repeated<T, Statement: Future<Output = Result<T, ServiceError>>>(
    databases: &Databases,
    statement: impl Fn() -> Statement,
) -> Result<T, ServiceError> {
    let mut repetition = Repetition::new(databases);
    loop {
        match statement().await {
            Err(error) if error.bucket_moves().is_some() && repetition.again().await => {}
            outcome => return outcome,
        }
    }
}

/// Runs a statement for some items, and repeats it for those that a fence refuses. Returns the outcomes of all. The
/// statement must take the shards of its items from the current map.
pub(crate) async fn repeated_for_each<Item, Done, Statement>(
    databases: &Databases,
    items: Vec<Item>,
    statement: impl Fn(Vec<Item>) -> Statement,
) -> Vec<(Item, Result<Done, ServiceError>)>
where
    Statement: Future<Output = Vec<(Item, Result<Done, ServiceError>)>>,
{
    let mut repetition = Repetition::new(databases);
    let mut outcomes = statement(items).await;
    loop {
        let is_refused = |(_, outcome): &(Item, Result<Done, ServiceError>)| {
            outcome.as_ref().is_err_and(|error| error.bucket_moves().is_some())
        };
        let any_refused = outcomes.iter().any(is_refused);
        if !any_refused || !repetition.again().await {
            return outcomes;
        }
        let (refused, done): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(is_refused);
        outcomes = done;
        outcomes.extend(statement(refused.into_iter().map(|(item, _)| item).collect()).await);
    }
}
