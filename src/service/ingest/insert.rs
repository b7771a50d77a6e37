//! Inserting events of one shard: one statement, unless the database refuses values of some events.
//!
//! The table of an existing NoETL database can have additional constraints. The events of a refused statement are split
//! in halves until each refused event is alone, and the others are inserted. The work is bounded: after a maximum
//! number of statements or a maximum time, the remaining events are reported as not tried.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_storage::ingest::{self, NewEvent, OtherColumns};
use noetl_storage::pools::Database;

/// Maximum number of statements for one shard's events. It is enough to find any 60 refused events among 5000.
const MAX_STATEMENTS: usize = 1000;
/// Time after which no further statement is tried.
const TIME_LIMIT: Duration = Duration::from_secs(6);

/// Result of inserting one shard's events.
#[derive(Debug, Default)]
pub(super) struct InsertOutcome {
    /// Number of events inserted.
    pub(super) inserted: usize,
    /// Positions and errors of the events that were not inserted.
    pub(super) refused: Vec<(usize, ServiceError)>,
}

impl InsertOutcome {
    /// Inserts events, which must all belong to `shard`.
    pub(super) async fn of(shard: &Database, events: &[NewEvent], columns: &OtherColumns) -> Self {
        let (mut insert, begun) = (Self::default(), Instant::now());
        // A stack: the last part is tried next.
        let mut parts: Vec<Range<usize>> = std::iter::once(0..events.len()).collect();
        for _ in 0..MAX_STATEMENTS {
            let Some(part) = parts.pop() else {
                return insert;
            };
            match ingest::insert(shard, &events[part.clone()], columns).await {
                Ok(inserted) => insert.inserted += usize::try_from(inserted).unwrap_or(usize::MAX),
                Err(error) => match (error.refused_values(), part.len()) {
                    (None, _) => {
                        parts.push(part);
                        insert.refuse(parts, &error.into());
                        return insert;
                    }
                    (Some(why), 1) => insert.refuse([part], &refusal(&why)),
                    (Some(_), length) => {
                        let middle = part.start + length / 2;
                        parts.extend([middle..part.end, part.start..middle]);
                    }
                },
            }
            if begun.elapsed() > TIME_LIMIT {
                break;
            }
        }
        tracing::warn!(database = %shard.name(), found = insert.refused.len(), "stopped searching for refused events");
        insert.refuse(parts, &not_tried(shard));
        insert
    }

    fn refuse(&mut self, parts: impl IntoIterator<Item = Range<usize>>, error: &ServiceError) {
        self.refused.extend(parts.into_iter().flatten().map(|position| (position, error.clone())));
    }
}

fn refusal(why: &str) -> ServiceError {
    Rejection::invalid("", format!("{why}; the event can't be stored")).into()
}

fn not_tried(shard: &Database) -> ServiceError {
    let message = format!(
        "{} refused so many events of this batch that this one was not tried; send it again without the refused ones",
        shard.name()
    );
    Rejection::new(RejectionCode::ShardUnavailable, "", message).into()
}
