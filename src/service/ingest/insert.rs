//! Inserting events of one shard. Events that the database refuses are reported, and the others are inserted.

use crate::service::bisection::{Bisection, Cause, not_tried};
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::tenant::{Scope, TenancyError};
use noetl_storage::error::StorageError;
use noetl_storage::ingest::{self, Foreign, NewEvent, OtherColumns};
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
    /// Inserts the events in the scope. All events must belong to `shard`.
    pub(super) async fn of(
        shard: &Database,
        scope: &Scope,
        events: &[NewEvent],
        columns: Option<&OtherColumns>,
    ) -> Self {
        let (mut insert, mut search) = (Self::default(), Bisection::of(events.len()));
        while let Some(part) = search.next_part() {
            let inserted = ingest::insert(shard, scope, &events[part.clone()], columns).await;
            let inserted = inserted.map(|inserted| {
                insert.inserted += usize::try_from(inserted.events).unwrap_or(usize::MAX);
                for foreign in inserted.foreign {
                    let position = part.start + usize::try_from(foreign.position - 1).unwrap_or_default();
                    insert.refused.push((position, not_in_scope(&events[position], foreign).into()));
                }
            });
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

/// Creates the rejection of an event that is not in the caller's scope. The execution of another tenant does not exist
/// for the caller.
fn not_in_scope(event: &NewEvent, foreign: Foreign) -> Rejection {
    if foreign.named {
        return Rejection::new(RejectionCode::ForeignTenant, "tenantId", TenancyError::Foreign.to_string());
    }
    Rejection::not_found("executionId", format!("there is no execution {}", event.execution_id))
}

fn refusal(error: StorageError) -> ServiceError {
    match error.refused_values() {
        Some(why) => Rejection::invalid("", format!("{why}; the event can't be stored")).into(),
        None => error.into(),
    }
}
