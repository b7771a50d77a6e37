//! Storing events of workers ([`noetl_use_cases::ingest::ProjectEvents`]), together with those of concurrent calls.

mod columns;
mod insert;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::ids::Ids;
use super::moves::repeated_for_each;
use super::outbox::forward::{current_ids, followed_ids};
use super::shards::by_shard;
use columns::Columns;
use insert::{InsertBatches, Landed, STALE, other_execution};
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::outbox::OutboxId;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Caller;
use noetl_domain::workflow::is_known_type;
use noetl_runtime::coalesce::Coalescer;
use noetl_runtime::wake::WakeUps;
use noetl_storage::ingest::{NewEvent, OtherColumns, Writer};
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Ref};
use noetl_storage::pools::{Database, Databases};
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::ingest::{Batch, Draft, EventDraft, IngestOutcome, MAX_EVENTS, ProjectEvents};
use noetl_use_cases::outbox::ClaimRef;

/// Use case that stores events of workers.
#[derive(Debug, Clone)]
pub struct Ingest {
    databases: Databases,
    wake_ups: WakeUps,
    ids: Arc<Ids>,
    columns: Columns,
    /// By shard.
    inserts: Arc<[Coalescer<InsertBatches>]>,
}

/// Maximum time for which events are inserted again, because the row of their claim is on another shard.
const MOVE_WAIT: Duration = Duration::from_secs(2);
/// Pause before that.
const MOVE_PAUSE: Duration = Duration::from_millis(50);

type Outcome = Result<Landed, ServiceError>;
type Outcomes = Vec<(Entry, Outcome)>;

/// An event of the batch, and all indexes at which it occurs.
struct Entry {
    event: Arc<NewEvent>,
    indexes: Vec<usize>,
}

#[async_trait]
impl ProjectEvents for Ingest {
    #[tracing::instrument(level = "debug", name = "ingest.project", skip_all, fields(count = batch.events.len()))]
    async fn project(&self, batch: Batch, caller: &Caller) -> Result<IngestOutcome, ServiceError> {
        let Batch { events: drafts, claim, strict } = batch;
        if drafts.is_empty() || drafts.len() > MAX_EVENTS {
            let message = format!("a batch has 1 to {MAX_EVENTS} events, not {}", drafts.len());
            return Err(Rejection::invalid("events", message).into());
        }
        let count = drafts.len();
        let with_extra = drafts.iter().flatten().filter_map(EventDraft::execution_of_extra);
        let shards = with_extra.map(|execution| self.databases.index_of(execution)).collect();
        let columns = self.columns.of(&self.databases, shards).await;
        let columns_of = |execution| columns.get(&self.databases.index_of(execution)).map(Arc::as_ref);
        let (entries, rejected) = read(drafts, strict, caller.actor.as_ref(), columns_of);
        let mut outcome = IngestOutcome { rejected, ..IngestOutcome::default() };
        let insert = |entries| self.insert_all(entries, claim, caller);
        for (entry, landed) in repeated_for_each(&self.databases, entries, insert).await {
            let event_type = &entry.event.event_type;
            if landed.is_ok() && !is_known_type(event_type) {
                outcome.unknown_types.insert(event_type.clone());
            }
            match landed {
                Ok(Landed::Inserted) => outcome.projected += 1,
                Ok(Landed::Stored) => {}
                Err(error) => outcome.rejected.extend(entry.indexes.into_iter().map(|index| (index, error.clone()))),
            }
        }
        outcome.duplicates = count - outcome.projected - outcome.rejected.len();
        report(&outcome);
        let is_stale = |error: &ServiceError| error.rejected_with() == Some(RejectionCode::StaleLease);
        if outcome.rejected.len() == count && outcome.rejected.values().all(is_stale) {
            return Err(Rejection::new(RejectionCode::StaleLease, "claim", STALE).into());
        }
        Ok(outcome)
    }
}

/// Returns whether an event did not find the row of its claim.
fn missed((_, outcome): &(Entry, Outcome)) -> bool {
    let code = outcome.as_ref().err().and_then(ServiceError::rejected_with);
    matches!(code, Some(RejectionCode::StaleLease | RejectionCode::InvalidInput))
}

impl Ingest {
    /// Creates the use case.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, wake_ups: WakeUps) -> Self {
        let insert = |(shard, database): (ShardIndex, &Arc<Database>)| {
            let (database, wake_ups, ids) = (Arc::clone(database), wake_ups.clone(), Arc::clone(&ids));
            Coalescer::new(InsertBatches { shard, database, wake_ups, ids })
        };
        let inserts = (0..).zip(databases.shards()).map(insert).collect();
        Self { databases, wake_ups, ids, columns: Columns::default(), inserts }
    }

    /// Inserts events on their shards. Returns the outcome of each.
    async fn insert_all(&self, entries: Vec<Entry>, claim: Option<ClaimRef>, caller: &Caller) -> Outcomes {
        match claim {
            Some(claim) => self.insert_under_claim(entries, claim, caller).await,
            None => self.insert_by_shard(entries, caller).await,
        }
    }

    /// Inserts events under a claim. Its row may move to another shard meanwhile: for a moment, the map has the new shard and
    /// the old one does not know the row's new id, or the map is of before. So events of the row's execution that do not
    /// find the row are inserted again.
    async fn insert_under_claim(&self, entries: Vec<Entry>, claim: ClaimRef, caller: &Caller) -> Outcomes {
        let failed = |entries: Vec<Entry>, error: &ServiceError| -> Outcomes {
            entries.into_iter().map(|entry| (entry, Err(error.clone()))).collect()
        };
        let ids = current_ids(&self.databases, [claim.id]).await;
        if let Some(error) = ids.failed.values().next() {
            return failed(entries, error);
        }
        let (mut row, begun) = (ids.of(claim.id), Instant::now());
        let mut outcomes = self.insert_with_row(entries, row, claim.lease, caller).await;
        while outcomes.iter().any(missed) && begun.elapsed() < MOVE_WAIT {
            let (again, done): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(missed);
            outcomes = done;
            let map = self.databases.map();
            let (followed, execution) = match self.row_of(claim).await {
                Ok(found) => found,
                Err(error) => {
                    outcomes.extend(failed(again.into_iter().map(|(entry, _)| entry).collect(), &error));
                    break;
                }
            };
            let is_moving = |(entry, _): &(Entry, Outcome)| {
                let of = entry.event.execution_id;
                execution == Some(of) && map.shard_of(of) != followed.shard
            };
            if again.iter().any(is_moving) {
                self.databases.request_new_map();
                let _ = timeout(MOVE_PAUSE, self.databases.map_changed(map.version())).await;
            } else if followed == row {
                outcomes.extend(again);
                break;
            }
            row = followed;
            let again = again.into_iter().map(|(entry, _)| entry).collect();
            outcomes.extend(self.insert_with_row(again, row, claim.lease, caller).await);
        }
        outcomes
    }

    /// Returns the current id of a claim's row, and the execution of the row.
    async fn row_of(&self, claim: ClaimRef) -> Result<(OutboxId, Option<Id>), ServiceError> {
        let ids = followed_ids(&self.databases, [claim.id]).await;
        let row = ids.of(claim.id);
        if let Some(error) = ids.failed.into_values().next() {
            return Err(error);
        }
        let execution = outbox::execution_of(&self.databases.shards()[usize::from(row.shard)], row.number).await?;
        Ok((row, execution))
    }

    /// Inserts events under a lease on an outbox row. Those of other shards are of other executions.
    async fn insert_with_row(&self, entries: Vec<Entry>, row: OutboxId, lease: i64, caller: &Caller) -> Outcomes {
        let is_here = |entry: &Entry| self.databases.index_of(entry.event.execution_id) == row.shard;
        let (mut held, others): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(is_here);
        for entry in &mut held {
            Arc::make_mut(&mut entry.event).claim = Some(Ref { outbox_id: row.number, lease_token: lease });
        }
        let mut outcomes = self.insert_by_shard(held, caller).await;
        outcomes.extend(others.into_iter().map(|entry| (entry, Err(other_execution().into()))));
        outcomes
    }

    async fn insert_by_shard(&self, entries: Vec<Entry>, caller: &Caller) -> Outcomes {
        let with_extra = entries.iter().filter(|entry| entry.event.others.is_some());
        let shards = with_extra.map(|entry| self.databases.index_of(entry.event.execution_id)).collect();
        let columns = self.columns.of(&self.databases, shards).await;
        let shards = by_shard(&self.databases, entries, |entry| entry.event.execution_id).into_iter();
        let inserts = shards.map(async |(shard, entries)| {
            let events = entries.iter().map(|one| Arc::clone(&one.event)).collect();
            let columns = columns.get(&shard).map(Arc::as_ref);
            (self.insert(shard, events, columns, caller).await, entries)
        });
        let mut landed = Vec::new();
        for (inserted, entries) in join_all(inserts).await {
            let outcomes = inserted.unwrap_or_else(|error| entries.iter().map(|_| Err(error.clone())).collect());
            landed.extend(entries.into_iter().zip(outcomes));
        }
        landed
    }

    /// Inserts events of one shard, together with those of concurrent calls. Events with values of other columns are
    /// inserted in a transaction of their own.
    async fn insert(
        &self,
        shard: ShardIndex,
        events: Vec<Arc<NewEvent>>,
        columns: Option<&OtherColumns>,
        caller: &Caller,
    ) -> Result<Vec<Result<Landed, ServiceError>>, ServiceError> {
        let index = usize::from(shard);
        let writer = Writer { scope: caller.scope.clone(), imports: caller.imports };
        if events.iter().any(|event| event.others.is_some()) {
            let inserted = || self.wake_ups.wake_feed(shard);
            return insert::insert(
                &self.databases.shards()[index],
                &writer,
                events,
                columns,
                LockWait::Long,
                &self.ids,
                inserted,
            )
            .await;
        }
        let bytes = events.iter().map(|event| event.size()).sum();
        self.inserts[index].run(caller.actor.clone(), writer, events, bytes).await
    }
}

/// Counts the events of a batch for the metrics.
fn report(outcome: &IngestOutcome) {
    metrics::counter!("noetl_events_projected_total").increment(outcome.projected as u64);
    metrics::counter!("noetl_events_duplicate_total").increment(outcome.duplicates as u64);
    metrics::counter!("noetl_events_rejected_total").increment(outcome.rejected.len() as u64);
}

/// Refuses an event of an unknown type.
fn known(event: NewEvent) -> Result<NewEvent, Rejection> {
    if is_known_type(&event.event_type) {
        return Ok(event);
    }
    let message =
        format!("the type {:?} is not known, and strict is set; docs/guide/events.md has the types", event.event_type);
    Err(Rejection::invalid("type", message))
}

/// Validates the events. Returns the valid ones in the order of the batch, and the errors of the others by index. Events
/// that equal the first one with their id or key share its entry. Others with the id or key follow later, and the database
/// compares them with the stored one.
fn read<'a>(
    drafts: Vec<Draft>,
    strict: bool,
    by: Option<&Actor>,
    columns_of: impl Fn(Id) -> Option<&'a OtherColumns>,
) -> (Vec<Entry>, BTreeMap<usize, ServiceError>) {
    let mut firsts = BTreeMap::<(Id, Id, Option<String>), Entry>::new();
    let (mut others, mut rejected) = (Vec::new(), BTreeMap::new());
    let check = |event: NewEvent| if strict { known(event) } else { Ok(event) };
    for (index, draft) in drafts.into_iter().enumerate() {
        match draft.and_then(|draft| draft.read(by, &columns_of)).and_then(check) {
            Ok(event) => match firsts.entry((event.execution_id, event.event_id, event.key.clone())) {
                Vacant(first) => drop(first.insert(Entry { event: Arc::new(event), indexes: vec![index] })),
                Occupied(mut first) if *first.get().event == event => first.get_mut().indexes.push(index),
                Occupied(_) => others.push(Entry { event: Arc::new(event), indexes: vec![index] }),
            },
            Err(rejection) => drop(rejected.insert(index, rejection.into())),
        }
    }
    let mut entries: Vec<Entry> = firsts.into_values().chain(others).collect();
    entries.sort_unstable_by_key(|entry| entry.indexes.first().copied());
    (entries, rejected)
}
