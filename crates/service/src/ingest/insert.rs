//! Inserting events of one shard. Events that the database refuses are reported, and the others are inserted.
//!
//! After each statement, the events whose ids were stored before are compared with the stored ones, in a later
//! transaction snapshot. An insert waits for a concurrent one with the same id, so the later snapshot sees its event.
//!
//! Concurrent small batches share the statements ([`noetl_runtime::coalesce`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bisection::{Bisection, Cause, not_tried};
use noetl_domain::actor::Actor;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Scope, TenancyError};
use noetl_runtime::coalesce::Flight;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::ingest::{self, Foreign, NewEvent, OtherColumns};
use noetl_storage::ingest_conflicts;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::pools::Database;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

/// Outcome of an event that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landed {
    /// The event was inserted.
    Inserted,
    /// The event was stored before, with the same content.
    Stored,
}

/// Outcomes of events, in their order.
type Outcomes = Vec<Result<Landed, ServiceError>>;

/// Inserts events that have no values of other columns. Concurrent calls share the statements.
pub(super) struct InsertFlight {
    pub(super) shard: ShardIndex,
    pub(super) database: Arc<Database>,
    pub(super) wake_ups: WakeUps,
}

impl Flight for InsertFlight {
    type Caller = Option<Actor>;
    type Kind = Scope;
    type Item = Arc<NewEvent>;
    type Output = Result<Landed, ServiceError>;
    type Error = ServiceError;

    async fn carry_out(
        &self,
        scope: &Scope,
        events: Vec<Arc<NewEvent>>,
        shared: bool,
    ) -> Result<Outcomes, ServiceError> {
        let inserted = || self.wake_ups.wake_feed(self.shard);
        insert(&self.database, scope, &events, None, LockWait::of(shared), inserted).await
    }

    fn may_be_caused_by_one_call(error: &ServiceError) -> bool {
        error.unavailable().is_none() || error.bucket_moves().is_some()
    }
}

/// Inserts the events in the scope, and calls `inserted` if any was inserted. All events must belong to `shard`.
pub(super) async fn insert(
    shard: &Database,
    scope: &Scope,
    events: &[Arc<NewEvent>],
    columns: Option<&OtherColumns>,
    lock_wait: LockWait,
    inserted: impl Fn(),
) -> Result<Outcomes, ServiceError> {
    let mut outcomes: Outcomes = events.iter().map(|_| Ok(Landed::Stored)).collect();
    let mut search = Bisection::of(events.len());
    while let Some(part) = search.next_part() {
        let written = write(shard, scope, &events[part.clone()], columns, lock_wait).await;
        let recorded = written.map(|written| {
            for index in &written.inserted {
                outcomes[part.start + index] = Ok(Landed::Inserted);
            }
            if !written.inserted.is_empty() {
                inserted();
            }
            for (index, error) in written.refused {
                outcomes[part.start + index] = Err(error.into());
            }
        });
        search.record(part, recorded);
    }
    for unwritten in search.unwritten(shard) {
        let error = match unwritten.cause {
            Cause::Failed(error) if unwritten.positions.len() == events.len() => return Err(error.into()),
            Cause::Refused(error) => refusal(error),
            Cause::Failed(error) => error.into(),
            Cause::NotTried => not_tried(shard),
        };
        for position in unwritten.positions {
            outcomes[position] = Err(error.clone());
        }
    }
    Ok(outcomes)
}

/// Result of one statement.
struct Written {
    /// Indexes of the inserted events.
    inserted: BTreeSet<usize>,
    /// Rejections by index in the statement's events.
    refused: Vec<(usize, Rejection)>,
}

/// Inserts events in one statement, and compares those that are stored already.
async fn write(
    shard: &Database,
    scope: &Scope,
    events: &[Arc<NewEvent>],
    columns: Option<&OtherColumns>,
    lock_wait: LockWait,
) -> Result<Written, StorageError> {
    let inserted = ingest::insert(shard, scope, events, columns, lock_wait).await?;
    let foreign: BTreeMap<usize, Foreign> = inserted.foreign.iter().map(|one| (index(one.position), *one)).collect();
    let new: BTreeSet<usize> = inserted.positions.iter().map(|position| index(*position)).collect();
    let repeated: Vec<usize> =
        (0..events.len()).filter(|index| !new.contains(index) && !foreign.contains_key(index)).collect();
    let mut refused: Vec<_> =
        foreign.into_iter().map(|(index, foreign)| (index, not_in_scope(&events[index], foreign))).collect();
    if !repeated.is_empty() {
        let compared: Vec<&NewEvent> = repeated.iter().map(|index| events[*index].as_ref()).collect();
        let conflicts = ingest_conflicts::find(shard, scope, &compared, columns).await?;
        let differing = conflicts.into_iter().map(|conflict| (repeated[index(conflict.position)], conflict.fields));
        refused.extend(differing.map(|(index, fields)| (index, other_content(&events[index], &fields))));
    }
    Ok(Written { inserted: new, refused })
}

/// Returns the index of a position that is counted from 1.
fn index(position: i64) -> usize {
    usize::try_from(position - 1).unwrap_or_default()
}

/// Creates the rejection of an event whose id is stored with other content.
fn other_content(event: &NewEvent, fields: &[String]) -> Rejection {
    let (id, execution, fields) = (event.event_id, event.execution_id, fields.join(", "));
    let message = format!("event {id} of execution {execution} is stored with other content; it differs in: {fields}");
    Rejection::new(RejectionCode::EventIdConflict, "eventId", message)
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
