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
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::TenancyError;
use noetl_runtime::coalesce::Flight;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::ingest::{self, BEGINS_AFTER, LOCKED_LOGS, Logs, NewEvent, NotAllowed, OtherColumns, Writer};
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

/// Reasons that a claim does not hold its row.
pub(super) const STALE: &str = "this lease does not hold the entry: it was released, another caller has claimed it since, \
                                or it does not exist";

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
    type Kind = Writer;
    type Item = Arc<NewEvent>;
    type Output = Result<Landed, ServiceError>;
    type Error = ServiceError;

    async fn carry_out(
        &self,
        writer: &Writer,
        events: Vec<Arc<NewEvent>>,
        shared: bool,
    ) -> Result<Outcomes, ServiceError> {
        let inserted = || self.wake_ups.wake_feed(self.shard);
        insert(&self.database, writer, &events, None, LockWait::of(shared), inserted).await
    }

    fn may_be_caused_by_one_call(error: &ServiceError) -> bool {
        error.unavailable().is_none() || error.bucket_moves().is_some()
    }
}

/// Inserts the events that the writer may insert, and calls `inserted` if any was inserted. All events must belong to
/// `shard`. Those of logs that do not exist are inserted after the others.
pub(super) async fn insert(
    shard: &Database,
    writer: &Writer,
    events: &[Arc<NewEvent>],
    columns: Option<&OtherColumns>,
    lock_wait: LockWait,
    inserted: impl Fn(),
) -> Result<Outcomes, ServiceError> {
    let mut insert =
        Insert { shard, writer, columns, lock_wait, inserted, outcomes: vec![Ok(Landed::Stored); events.len()] };
    let all: Vec<usize> = (0..events.len()).collect();
    let without_log = insert.run(events, &all, Logs::Existing).await;
    let mut by_log: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    for index in without_log {
        by_log.entry(events[index].execution_id).or_default().push(index);
    }
    let logs: Vec<Vec<usize>> = by_log.into_values().collect();
    for part in logs.chunks(LOCKED_LOGS) {
        let indexes = part.concat();
        let of_part: Vec<_> = indexes.iter().map(|index| Arc::clone(&events[*index])).collect();
        insert.run(&of_part, &indexes, Logs::Locked).await;
    }
    // An error of the database is that of the whole call.
    let failed =
        |outcome: &Result<Landed, ServiceError>| outcome.as_ref().err().filter(|error| !error.is_rejection()).cloned();
    match insert.outcomes.first().and_then(failed) {
        Some(error) if insert.outcomes.iter().all(|outcome| failed(outcome).is_some()) => Err(error),
        _ => Ok(insert.outcomes),
    }
}

/// An insert of several statements.
struct Insert<'a, I> {
    shard: &'a Database,
    writer: &'a Writer,
    columns: Option<&'a OtherColumns>,
    lock_wait: LockWait,
    inserted: I,
    outcomes: Outcomes,
}

impl<I: Fn()> Insert<'_, I> {
    /// Inserts events; `indexes` are those of their outcomes. Returns the indexes of those whose logs do not exist.
    async fn run(&mut self, events: &[Arc<NewEvent>], indexes: &[usize], logs: Logs) -> Vec<usize> {
        let (mut search, mut without_log) = (Bisection::of(events.len()), Vec::new());
        while let Some(part) = search.next_part() {
            let written = self.write(&events[part.clone()], logs).await;
            let indexes = &indexes[part.clone()];
            let recorded = written.map(|written| {
                for index in &written.inserted {
                    self.outcomes[indexes[*index]] = Ok(Landed::Inserted);
                }
                if !written.inserted.is_empty() {
                    (self.inserted)();
                }
                for (index, error) in written.refused {
                    self.outcomes[indexes[index]] = Err(error.into());
                }
                without_log.extend(written.without_log.into_iter().map(|index| indexes[index]));
            });
            search.record(part, recorded);
        }
        for unwritten in search.unwritten(self.shard) {
            let error = match unwritten.cause {
                Cause::Refused(error) => refusal(error),
                Cause::Failed(error) => error.into(),
                Cause::NotTried => not_tried(self.shard),
            };
            for position in unwritten.positions {
                self.outcomes[indexes[position]] = Err(error.clone());
            }
        }
        without_log
    }

    /// Inserts events in one statement, and compares those that are stored already.
    async fn write(&self, events: &[Arc<NewEvent>], logs: Logs) -> Result<Written, StorageError> {
        let (shard, writer) = (self.shard, self.writer);
        let inserted = ingest::insert(shard, writer, events, self.columns, self.lock_wait, logs).await?;
        let not_allowed: BTreeMap<usize, NotAllowed> =
            inserted.refused.iter().map(|one| (index(one.position), one.why)).collect();
        let new: BTreeSet<usize> = inserted.positions.iter().map(|position| index(*position)).collect();
        let is_repeated = |index: &usize| !new.contains(index) && !not_allowed.contains_key(index);
        let repeated: Vec<usize> = (0..events.len()).filter(is_repeated).collect();
        let (mut refused, mut without_log) = (Vec::new(), Vec::new());
        for (index, why) in not_allowed {
            if why == NotAllowed::NoLog && logs == Logs::Existing {
                without_log.push(index);
            } else {
                refused.push((index, rejection(&events[index], why)));
            }
        }
        if !repeated.is_empty() {
            let compared: Vec<&NewEvent> = repeated.iter().map(|index| events[*index].as_ref()).collect();
            let conflicts = ingest_conflicts::find(shard, &writer.scope, &compared, self.columns).await?;
            let differing = conflicts.into_iter().map(|conflict| (repeated[index(conflict.position)], conflict.fields));
            refused.extend(differing.map(|(index, fields)| (index, other_content(&events[index], &fields))));
        }
        Ok(Written { inserted: new, refused, without_log })
    }
}

/// Result of one statement, by indexes in its events.
struct Written {
    inserted: BTreeSet<usize>,
    refused: Vec<(usize, Rejection)>,
    /// Events whose logs do not exist. They are to be inserted with the locks of these logs.
    without_log: Vec<usize>,
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

/// Creates the rejection of an event that its writer may not insert. The execution of another tenant does not exist for the
/// caller.
fn rejection(event: &NewEvent, why: NotAllowed) -> Rejection {
    let id = event.execution_id;
    match why {
        NotAllowed::NamesOtherTenant => {
            Rejection::new(RejectionCode::ForeignTenant, "tenantId", TenancyError::Foreign.to_string())
        }
        NotAllowed::LogOfOtherTenant => Rejection::not_found("executionId", format!("there is no execution {id}")),
        NotAllowed::NoLog => {
            let seconds = BEGINS_AFTER.as_secs();
            let message = format!(
                "there is no execution {id}; the events of an execution that this server did not start are accepted \
                 {seconds} s after the time of its id, or with the capability IMPORT"
            );
            Rejection::not_found("executionId", message)
        }
        NotAllowed::StaleLease => Rejection::new(RejectionCode::StaleLease, "", STALE),
        NotAllowed::OtherExecution => other_execution(),
    }
}

/// Creates the rejection of an event whose claim is of another execution.
pub(super) fn other_execution() -> Rejection {
    Rejection::invalid("executionId", "the claim is of an outbox entry of another execution")
}

fn refusal(error: StorageError) -> ServiceError {
    match error.refused_values() {
        Some(why) => Rejection::invalid("", format!("{why}; the event can't be stored")).into(),
        None => error.into(),
    }
}
