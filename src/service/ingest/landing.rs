//! Getting a shard's events into its log: one statement, unless the database refuses values of some.
//!
//! A table of an existing NoETL database may have constraints of its own. A refused statement is cut in halves until each
//! offender stands alone, and the others land. The work is bounded: past a number of statements, or a time, what is left
//! is answered as not tried.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::storage::ingest::{self, NewEvent};
use crate::storage::pools::Database;

/// Statements for one shard's events: enough to single out 60 offenders anywhere among 5000 events.
const MAX_STATEMENTS: usize = 1000;
/// How long offenders are looked for.
const PATIENCE: Duration = Duration::from_secs(6);

/// What became of one shard's events.
#[derive(Debug, Default)]
pub(super) struct Landing {
    /// How many were stored.
    pub(super) inserted: usize,
    /// Why one was not, by its position.
    pub(super) refused: Vec<(usize, ServiceError)>,
}

impl Landing {
    /// Inserts the events, which are of one shard.
    pub(super) async fn of(shard: &Database, events: &[NewEvent]) -> Self {
        let (mut landing, begun) = (Self::default(), Instant::now());
        // The part to try next is the last one.
        let mut parts: Vec<Range<usize>> = std::iter::once(0..events.len()).collect();
        for _ in 0..MAX_STATEMENTS {
            let Some(part) = parts.pop() else {
                return landing;
            };
            match ingest::insert(shard, &events[part.clone()]).await {
                Ok(inserted) => landing.inserted += usize::try_from(inserted).unwrap_or(usize::MAX),
                Err(error) => match (error.refused_values(), part.len()) {
                    (None, _) => {
                        parts.push(part);
                        landing.refuse(parts, &error.into());
                        return landing;
                    }
                    (Some(why), 1) => landing.refuse([part], &refusal(&why)),
                    (Some(_), length) => {
                        let middle = part.start + length / 2;
                        parts.extend([middle..part.end, part.start..middle]);
                    }
                },
            }
            if begun.elapsed() > PATIENCE {
                break;
            }
        }
        tracing::warn!(database = %shard.name(), found = landing.refused.len(), "gave up looking for refused events");
        landing.refuse(parts, &not_tried(shard));
        landing
    }

    fn refuse(&mut self, parts: impl IntoIterator<Item = Range<usize>>, error: &ServiceError) {
        self.refused.extend(parts.into_iter().flatten().map(|position| (position, error.clone())));
    }
}

fn refusal(why: &str) -> ServiceError {
    Rejection::invalid("", format!("{why}; the event can't be stored as it is")).into()
}

fn not_tried(shard: &Database) -> ServiceError {
    let message = format!(
        "{} refused so many events of this batch that this one was not tried; leave those out and send it again",
        shard.name()
    );
    Rejection::new(RejectionCode::ShardUnavailable, "", message).into()
}
