//! Inserting events of one shard. Events that the database refuses are reported, and the others are inserted.
//!
//! After each statement, the events whose ids or keys were stored before are compared with the stored ones, in a later
//! transaction snapshot. An insert waits for a concurrent one with the same id or key, so the later snapshot sees its event.
//!
//! Events with keys get ids from the server's clock before the statement. Only if the statement finds larger ids in their
//! log, they get others after these, and are inserted by a second statement. An event whose key is stored already leaves
//! its id unused.
//!
//! Concurrent small batches share the statements ([`noetl_runtime::coalesce`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bisection::{Bisection, Cause, not_tried};
use crate::ids::Ids;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::TenancyError;
use noetl_runtime::coalesce::SharedWork;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::ingest::{
    self, BEGINS_AFTER, LOCKED_LOGS, Logs, NewEvent, NotAllowed, Numbering, OtherColumns, Writer,
};
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
pub(super) struct InsertBatches {
    pub(super) shard: ShardIndex,
    pub(super) database: Arc<Database>,
    pub(super) wake_ups: WakeUps,
    pub(super) ids: Arc<Ids>,
}

impl SharedWork for InsertBatches {
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
        insert(&self.database, writer, events, None, LockWait::of(shared), &self.ids, inserted).await
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
    mut events: Vec<Arc<NewEvent>>,
    columns: Option<&OtherColumns>,
    lock_wait: LockWait,
    ids: &Ids,
    inserted: impl Fn(),
) -> Result<Outcomes, ServiceError> {
    let (numbering, outcomes) = (Numbering::Ascending, vec![Ok(Landed::Stored); events.len()]);
    let mut insert = Insert { shard, writer, columns, lock_wait, inserted, numbering, outcomes };
    let with_key = events.iter().enumerate().filter(|(_, event)| event.key.is_some());
    let with_key: Vec<(usize, Id)> = with_key.map(|(index, _)| (index, Id::new(0))).collect();
    insert.number(&mut events, &with_key, ids).await;
    let numbered: Vec<usize> = (0..events.len()).filter(|index| insert.outcomes[*index].is_ok()).collect();
    let late = insert.run_all(&events, &numbered).await;
    if !late.is_empty() {
        insert.number(&mut events, &late, ids).await;
        let late = late.into_iter().map(|(index, _)| index);
        let numbered: Vec<usize> = late.filter(|index| insert.outcomes[*index].is_ok()).collect();
        insert.numbering = Numbering::Any;
        insert.run_all(&events, &numbered).await;
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
    numbering: Numbering,
    outcomes: Outcomes,
}

/// Events that are still to be inserted, by the indexes of their outcomes.
#[derive(Default)]
struct Left {
    /// Events whose logs do not exist.
    without_log: Vec<usize>,
    /// Events with keys whose ids must be larger, and the largest ids of their logs.
    late: Vec<(usize, Id)>,
}

impl<I: Fn()> Insert<'_, I> {
    /// Gives ids to events with keys, in their order. Each is larger than the given id, and than the one before in its log.
    /// An event that gets no id fails.
    async fn number(&mut self, events: &mut [Arc<NewEvent>], floors: &[(usize, Id)], ids: &Ids) {
        let mut last = BTreeMap::<Id, Id>::new();
        for (index, floor) in floors {
            let event = &mut events[*index];
            let floor = last.get(&event.execution_id).map_or(*floor, |last| *floor.max(last));
            match ids.next_after(floor).await {
                Ok(id) => {
                    last.insert(event.execution_id, id);
                    Arc::make_mut(event).event_id = id;
                }
                Err(error) => self.outcomes[*index] = Err(error),
            }
        }
    }

    /// Inserts the events with these indexes, those of logs that do not exist after the others. Returns the late ones, in
    /// their order.
    async fn run_all(&mut self, events: &[Arc<NewEvent>], indexes: &[usize]) -> Vec<(usize, Id)> {
        let of = |indexes: &[usize]| indexes.iter().map(|index| Arc::clone(&events[*index])).collect::<Vec<_>>();
        let Left { without_log, mut late } = if indexes.len() == events.len() {
            self.run(events, indexes, Logs::Existing).await
        } else {
            self.run(&of(indexes), indexes, Logs::Existing).await
        };
        let mut by_log: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
        for index in without_log {
            by_log.entry(events[index].execution_id).or_default().push(index);
        }
        let logs: Vec<Vec<usize>> = by_log.into_values().collect();
        for part in logs.chunks(LOCKED_LOGS) {
            let indexes = part.concat();
            late.extend(self.run(&of(&indexes), &indexes, Logs::Locked).await.late);
        }
        late.sort_unstable();
        late
    }

    /// Inserts events; `indexes` are those of their outcomes. Returns those that are still to be inserted.
    async fn run(&mut self, events: &[Arc<NewEvent>], indexes: &[usize], logs: Logs) -> Left {
        let (mut search, mut left) = (Bisection::of(events.len()), Left::default());
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
                left.without_log.extend(written.without_log.into_iter().map(|index| indexes[index]));
                left.late.extend(written.late.into_iter().map(|(index, log_end)| (indexes[index], log_end)));
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
        left
    }

    /// Inserts events in one statement, and compares those that are stored already.
    async fn write(&self, events: &[Arc<NewEvent>], logs: Logs) -> Result<Written, StorageError> {
        let (shard, writer) = (self.shard, self.writer);
        let (columns, lock_wait, numbering) = (self.columns, self.lock_wait, self.numbering);
        let inserted = ingest::insert(shard, writer, events, columns, lock_wait, logs, numbering).await?;
        let not_allowed: BTreeMap<usize, NotAllowed> =
            inserted.refused.iter().map(|one| (index(one.position), one.why)).collect();
        let new: BTreeSet<usize> = inserted.positions.iter().map(|position| index(*position)).collect();
        let late: BTreeMap<usize, Id> = inserted.late.iter().map(|one| (index(one.position), one.log_end)).collect();
        let is_repeated =
            |index: &usize| !new.contains(index) && !not_allowed.contains_key(index) && !late.contains_key(index);
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
        Ok(Written { inserted: new, refused, without_log, late })
    }
}

/// Result of one statement, by indexes in its events.
struct Written {
    inserted: BTreeSet<usize>,
    refused: Vec<(usize, Rejection)>,
    /// Events whose logs do not exist. They are to be inserted with the locks of these logs.
    without_log: Vec<usize>,
    /// Events with keys that need larger ids, and the largest ids of their logs.
    late: BTreeMap<usize, Id>,
}

/// Returns the index of a position that is counted from 1.
fn index(position: i64) -> usize {
    usize::try_from(position - 1).unwrap_or_default()
}

/// Creates the rejection of an event whose id or key is stored with other content.
fn other_content(event: &NewEvent, fields: &[String]) -> Rejection {
    if fields.is_empty() {
        return Rejection::invalid("", "a unique constraint of the table refuses the event; the event can't be stored");
    }
    let (field, name) = match &event.key {
        Some(key) => ("idempotencyKey", format!("the event with the key {key:?}")),
        None => ("eventId", format!("event {}", event.event_id)),
    };
    let (execution, fields) = (event.execution_id, fields.join(", "));
    let message = format!("{name} of execution {execution} is stored with other content; it differs in: {fields}");
    Rejection::new(RejectionCode::EventIdConflict, field, message)
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
