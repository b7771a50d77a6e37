//! Inserting events of one shard. Events that the database refuses are reported, and the others are inserted.

use crate::service::bisection::{Bisection, Cause, not_tried};
use crate::service::error::{Rejection, ServiceError};
use noetl_storage::error::StorageError;
use noetl_storage::ingest::{self, NewEvent, OtherColumns};
use noetl_storage::pools::Database;

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
    pub(super) async fn of(shard: &Database, events: &[NewEvent], columns: Option<&OtherColumns>) -> Self {
        let (mut insert, mut search) = (Self::default(), Bisection::of(events.len()));
        while let Some(part) = search.next_part() {
            let inserted = ingest::insert(shard, &events[part.clone()], columns).await;
            let inserted = inserted.map(|inserted| insert.inserted += usize::try_from(inserted).unwrap_or(usize::MAX));
            search.record(part, inserted);
        }
        for unwritten in search.unwritten(shard) {
            let error = match unwritten.cause {
                Cause::Refused(error) => refusal(error),
                Cause::Failed(error) => error.into(),
                Cause::NotTried => not_tried(shard),
            };
            insert.refused.extend(unwritten.positions.into_iter().map(|position| (position, error.clone())));
        }
        insert
    }
}

fn refusal(error: StorageError) -> ServiceError {
    match error.refused_values() {
        Some(why) => Rejection::invalid("", format!("{why}; the event can't be stored")).into(),
        None => error.into(),
    }
}
