//! Input and payload of `projectEvents`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use async_graphql::{ComplexObject, Context, ID, InputObject, InputValueError, MaybeUndefined, Result, SimpleObject};
use chrono::{DateTime, Utc};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::timeout;

use super::types::Event;
use crate::audit::AuditedPayload;
use crate::context::Services;
use crate::errors::{UserError, item_error, read_error, result_or_user_error};
use crate::execution::types::Execution;
use crate::guards::WrittenInput;
use crate::moved_input::{Fields, FromFields, Moved};
use crate::outbox::inputs::OutboxClaimRef;
use crate::outbox::settle::mark_one_published;
use crate::scalars::{Json, JsonInput};
use noetl_domain::event::EventKey;
use noetl_domain::ids::Id;
use noetl_domain::node_id::NodeId;
use noetl_domain::tenant::Caller;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::ingest::{Batch, Draft, EventDraft, IngestOutcome};

/// Batch of events of workers.
#[derive(Debug, InputObject)]
pub struct ProjectEventsInput {
    /// Events of any executions (1 to 5000). Each event is stored or refused independently.
    pub(super) events: Vec<EventInput>,
    /// Claim under which the events were made (default: none). They are stored only while no other caller has claimed the
    /// outbox entry, else they are refused with `STALE_LEASE`. Events of other executions than the entry's are refused.
    pub(super) claim: Option<OutboxClaimRef>,
    /// Whether to mark the entry of the claim as published too, if no event is refused (default: false). Needs the
    /// capability `OUTBOX`.
    pub(super) settle: Option<bool>,
    /// Whether events of unknown types are refused, so that a misspelt type is not stored (default: false). Null, and a
    /// variable without a value, is refused.
    pub(super) strict: MaybeUndefined<bool>,
}

/// An event of a worker, with either `eventId` or `idempotencyKey`. Null counts as absent, and in all ids but
/// `executionId`, so does an empty string.
#[derive(Debug, InputObject)]
pub(super) struct EventInput {
    /// Snowflake id that the worker generated, or that `reserveEventIds` gave. An event that is already in the log with
    /// this id and the same content is skipped. With other content, it is refused with `EVENT_ID_CONFLICT`.
    event_id: Option<ID>,
    /// Key of the event in its execution (1 to 255 bytes), by which a repetition is recognised as by an id. The server
    /// gives the event an id from its clock that is larger than those in the log, and than those of earlier events of the
    /// batch. So an event that ends an execution then replaces a cancellation that came before; with an id that was
    /// reserved before the work, it does not.
    idempotency_key: Option<String>,
    /// Id of the execution or source subscription that the log belongs to.
    execution_id: ID,
    /// Id of the catalog entry. If absent or 0: the entry of the execution if it is known, else 0.
    catalog_id: Option<ID>,
    /// Id of the event that caused this event.
    parent_event_id: Option<ID>,
    /// Id of the execution or source subscription that started the execution (default: the parent of the execution if
    /// it is known).
    parent_execution_id: Option<ID>,
    /// Type of the event, such as `step.enter` (1 to 255 bytes); docs/guide/events.md lists the types. A lifecycle event
    /// of a source subscription is refused, because only transitions write such events.
    #[graphql(name = "type")]
    event_type: String,
    /// Id of the node that the event belongs to.
    node_id: Option<String>,
    /// Name of the node.
    node_name: Option<String>,
    /// Type of the node.
    node_type: Option<String>,
    /// Status after the event. The type decides the state; of the status, errors (`FAILED`, `ERROR`) are read, and
    /// `STARTED` and `RUNNING` of `step.enter`. With `NOETL_EXECUTION_STATUS_FROM_STEPS`, an error in an event of any type
    /// also makes an ended execution FAILED.
    status: Option<String>,
    /// Duration of the reported work, in seconds.
    duration_seconds: Option<f64>,
    /// Time of the event, in the years 1 to 9999 (default: the time at which the event is stored).
    created_at: Option<DateTime<Utc>>,
    /// Input of the reported work.
    context: Option<JsonInput>,
    /// Output of the reported work.
    result: Option<JsonInput>,
    /// Metadata of the event, a map. A value that is not a map is stored as `meta.value`. If the server identifies
    /// callers, it sets `meta.actor` to the subject of the caller, and stores an `actor` that the worker sent as
    /// `meta.extra.sent_actor`.
    meta: Option<JsonInput>,
    /// Error message.
    error: Option<String>,
    /// Stack trace of the error.
    stack_trace: Option<String>,
    /// Additional value, stored as if it was `trace_component` of `extra`.
    trace_component: Option<Json>,
    /// Map of additional values. A value whose name is a column of the table is stored there (NoETL's tables have
    /// columns such as `worker_id`), the others under `meta.extra`.
    extra: Option<Json>,
    /// Tenant of the event (default: the tenant of the caller, else that of the execution if it is known, else
    /// `default`). If the caller has a tenant, an event that names another one is refused, and so is an event of an
    /// execution of another tenant.
    tenant_id: Option<String>,
    /// Organization of the event (default: the organization of the execution if it is known and has the tenant of the
    /// event, else `default`).
    organization_id: Option<String>,
}

/// Batch of events as JSON documents.
#[derive(Debug, InputObject)]
pub(super) struct ProjectEventDocumentsInput {
    /// Events of any executions (1 to 5000). Each is a map with the columns of NoETL's event table as keys, such as
    /// `event_id`, `execution_id`, `event_type` and `duration`; messages of the event stream have this form. Ids and numbers can be
    /// texts, and times without an offset are UTC. `event_key` is the `idempotencyKey`; beside an `event_id`, as in the
    /// messages of events that have both, it is ignored. Values of unknown keys are stored under `meta.extra`. Each event is
    /// stored or refused independently. User errors name a key as `EventInput` does, such as `eventId`.
    pub(super) events: Vec<JsonInput>,
    /// Claim under which the events were made, as in `projectEvents`.
    pub(super) claim: Option<OutboxClaimRef>,
    /// Whether to mark the entry of the claim as published too, as in `projectEvents`.
    pub(super) settle: Option<bool>,
    /// Whether events of unknown types are refused, as in `projectEvents`.
    pub(super) strict: MaybeUndefined<bool>,
}

/// An event of a batch, without a check.
#[derive(Debug)]
struct EventOfBatch(EventDraft);

impl FromFields for EventOfBatch {
    type Described = EventInput;

    fn from_fields(fields: &mut Fields<Self::Described>) -> Result<Self, InputValueError<EventInput>> {
        Ok(Self(EventDraft {
            event_id: id(fields, "eventId")?,
            idempotency_key: fields.optional("idempotencyKey")?,
            execution_id: Some(fields.required::<ID>("executionId")?.0),
            catalog_id: id(fields, "catalogId")?,
            parent_event_id: id(fields, "parentEventId")?,
            parent_execution_id: id(fields, "parentExecutionId")?,
            event_type: Some(fields.required("type")?),
            node_id: fields.optional("nodeId")?,
            node_name: fields.optional("nodeName")?,
            node_type: fields.optional("nodeType")?,
            status: fields.optional("status")?,
            duration: fields.optional::<f64>("durationSeconds")?.map(Value::from),
            timestamp: None,
            created_at: fields.optional::<DateTime<Utc>>("createdAt")?.map(|time| time.to_rfc3339().into()),
            context: fields.optional("context")?.map(|JsonInput(json)| json),
            result: fields.optional("result")?.map(|JsonInput(json)| json),
            meta: fields.optional("meta")?.map(|JsonInput(json)| json),
            error: fields.optional("error")?,
            stack_trace: fields.optional("stackTrace")?,
            trace_component: fields.optional("traceComponent")?.map(|Json(json)| json),
            extra: fields.optional("extra")?.map(|Json(json)| json),
            tenant_id: fields.optional("tenantId")?,
            organization_id: fields.optional("organizationId")?,
        }))
    }
}

fn id(fields: &mut Fields<EventInput>, name: &str) -> Result<Option<String>, InputValueError<EventInput>> {
    Ok(fields.optional(name)?.map(|ID(text)| text))
}

/// Result of a batch of events.
#[derive(Debug, SimpleObject)]
pub(super) struct ProjectEventsPayload {
    #[graphql(flatten)]
    pub(super) outcome: BatchOutcome,
}

/// Result of a batch of events as documents.
#[derive(Debug, SimpleObject)]
pub(super) struct ProjectEventDocumentsPayload {
    #[graphql(flatten)]
    pub(super) outcome: BatchOutcome,
}

/// Result of a batch of events. Each event is counted once: as stored, duplicate or refused.
#[derive(Debug, Default, SimpleObject)]
pub(super) struct BatchOutcome {
    /// Number of events that were stored.
    projected: usize,
    /// Number of events that were already in their log, or earlier in the batch, with the same content.
    duplicates: usize,
    /// Events that were refused, in the order of the batch.
    rejected: Vec<ProjectEventsResult>,
    /// Types of the events in the log (stored or duplicate) that docs/guide/events.md does not list, such as a misspelt
    /// one. These events change no state, except the status of an ended execution with
    /// `NOETL_EXECUTION_STATUS_FROM_STEPS`.
    unknown_types: Vec<String>,
    /// Whether the entry of the claim is marked as published by this request or an earlier one.
    settled: bool,
    /// Executions of the events in the log (stored or duplicate), each once, in the order of the batch, with their states
    /// after it. Source subscriptions, logs that are not an execution's, and executions that could not be read are left
    /// out.
    executions: Vec<Execution>,
    /// Reasons the whole batch was refused; empty if it was carried out. If events are in the log: the reasons the entry
    /// was not settled, or executions could not be read.
    pub(super) user_errors: Vec<UserError>,
    /// Number of the last user errors that are about reads, and not about the batch.
    #[graphql(skip)]
    read_errors: usize,
}

/// An event of a batch that was refused.
#[derive(Debug, SimpleObject)]
#[graphql(complex)]
pub(super) struct ProjectEventsResult {
    /// Index of the event in the batch, counted from 0.
    index: usize,
    /// Id of the event, as the caller gave it.
    event_id: Option<ID>,
    /// Id of the event's execution, as the caller gave it.
    execution_id: Option<ID>,
    /// Reasons the event was refused. An event with a retryable one may be accepted later.
    user_errors: Vec<UserError>,
}

#[ComplexObject]
impl ProjectEventsResult {
    /// The stored event with this id, if the event was refused with `EVENT_ID_CONFLICT`. Null for an event with a key.
    async fn event(&self, ctx: &Context<'_>) -> Result<Option<Event>> {
        match self.conflict() {
            Some(key) => Event::load(ctx, key).await,
            None => Ok(None),
        }
    }
}

impl ProjectEventsResult {
    /// Returns the key of the stored event that the event conflicts with.
    fn conflict(&self) -> Option<EventKey> {
        self.user_errors.iter().find(|error| error.code == RejectionCode::EventIdConflict)?;
        let execution: Id = self.execution_id.as_ref()?.parse().ok()?;
        let event = NodeId::event(self.event_id.as_ref()?, Some(execution)).ok()?;
        Some(EventKey { event_id: event.get(), execution_id: execution.get() })
    }
}

/// Ids of an event, as the caller gave them.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenIds {
    event: Option<ID>,
    execution: Option<ID>,
}

impl BatchOutcome {
    /// Creates the result. A failure to settle the entry, or to read an execution, does not hide the outcome of the events.
    pub(super) async fn new(
        ctx: &Context<'_>,
        given: &[GivenIds],
        outcome: Result<Projected, ServiceError>,
    ) -> Result<Self> {
        let (projected, mut user_errors) = result_or_user_error(outcome)?;
        let Some(Projected { outcome, settled }) = projected else {
            return Ok(Self { user_errors, ..Self::default() });
        };
        let IngestOutcome { projected, duplicates, rejected, unknown_types } = outcome;
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => {
                user_errors.push(item_error(error));
                false
            }
        };
        let (executions, unreadable) = read_executions(ctx, given, &rejected).await;
        let read_errors = unreadable.len();
        user_errors.extend(unreadable);
        let rejected = rejected.into_iter().map(|(index, error)| {
            let GivenIds { event: event_id, execution: execution_id } = given.get(index).cloned().unwrap_or_default();
            let user_errors = vec![item_error(error).of_item("events", index)];
            ProjectEventsResult { index, event_id, execution_id, user_errors }
        });
        Ok(Self {
            projected,
            duplicates,
            rejected: rejected.collect(),
            unknown_types: unknown_types.into_iter().collect(),
            settled,
            executions,
            user_errors,
            read_errors,
        })
    }
}

/// Returns the executions of the events that were not rejected, each once, if the payload's field is selected. Also
/// returns the errors of those that could not be read, each once: all executions of a shard have the same one. The read
/// takes at most half of the request's time, because a `TIMEOUT` of the request hides the outcome of the events.
async fn read_executions(
    ctx: &Context<'_>,
    given: &[GivenIds],
    rejected: &BTreeMap<usize, ServiceError>,
) -> (Vec<Execution>, Vec<UserError>) {
    let (mut executions, mut errors) = (Vec::new(), BTreeMap::<String, ServiceError>::new());
    let selection = || ctx.look_ahead().field("executions");
    if !selection().exists() {
        return (Vec::new(), Vec::new());
    }
    let in_log = given.iter().enumerate().filter(|(index, _)| !rejected.contains_key(index));
    let mut seen = HashSet::new();
    let ids = in_log.filter_map(|(_, ids)| ids.execution.as_ref()?.parse::<Id>().ok()).filter(|id| seen.insert(*id));
    let ids: Vec<Id> = ids.collect();
    let reads = join_all(ids.into_iter().map(|id| Execution::read(ctx, id, selection())));
    let Ok(reads) = timeout(ctx.data_unchecked::<Services>().replica.limits.deadline / 2, reads).await else {
        let message = "the executions were not read in time; try again, or ask for less";
        return (executions, vec![Rejection::new(RejectionCode::Timeout, "", message).into()]);
    };
    for read in reads {
        match read.and_then(|execution| execution.map(Execution::with_known_state).transpose()) {
            Ok(execution) => executions.extend(execution),
            Err(error) => {
                errors.entry(error.to_string()).or_insert(error);
            }
        }
    }
    (executions, errors.into_values().map(read_error).collect())
}

impl AuditedPayload for BatchOutcome {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn refusal(&self) -> Option<&UserError> {
        self.user_errors.first().filter(|_| self.user_errors.len() > self.read_errors)
    }

    fn item_errors(&self) -> impl Iterator<Item = &UserError> {
        self.rejected.iter().flat_map(|result| &result.user_errors)
    }
}

/// The events of a batch with its claim, without a check.
#[derive(Debug)]
pub struct ProjectEvents {
    pub(super) drafts: Vec<Draft>,
    pub(super) claim: Option<OutboxClaimRef>,
    pub(super) settle: bool,
    strict: MaybeUndefined<bool>,
}

/// Result of a batch.
#[derive(Debug)]
pub(super) struct Projected {
    outcome: IngestOutcome,
    /// Whether the entry of the claim was settled, or the reason it was not.
    settled: Result<bool, ServiceError>,
}

impl ProjectEvents {
    /// Stores the events, and then settles the entry of the claim if the batch says so.
    pub(super) async fn carry_out(
        self,
        services: &Services,
        written: &WrittenInput<'_>,
        caller: &Caller,
    ) -> Result<Projected, ServiceError> {
        let strict = written.guard("strict", self.strict)?.unwrap_or(false);
        let claim = self.claim.map(|claim| claim.parse("claim")).transpose()?;
        if let Some(claim) = claim {
            services.outbox.check_id("claim.entryId", claim.id)?;
        } else if self.settle {
            return Err(Rejection::invalid("settle", "settle needs a claim").into());
        }
        let outcome = services.ingest.project(Batch { events: self.drafts, claim, strict }, caller).await?;
        let settled = match claim {
            Some(claim) if self.settle && outcome.rejected.is_empty() => {
                mark_one_published(services, claim, &caller.scope).await.map(|()| true)
            }
            _ => Ok(false),
        };
        Ok(Projected { outcome, settled })
    }
}

impl FromFields for ProjectEvents {
    type Described = ProjectEventsInput;

    fn from_fields(fields: &mut Fields<Self::Described>) -> Result<Self, InputValueError<ProjectEventsInput>> {
        let events: Vec<Moved<EventOfBatch>> = fields.required("events")?;
        Ok(Self {
            drafts: events.into_iter().map(|Moved(EventOfBatch(event))| Ok(event)).collect(),
            claim: fields.optional("claim")?,
            settle: fields.optional("settle")?.unwrap_or(false),
            strict: fields.required("strict")?,
        })
    }
}

impl From<ProjectEventDocumentsInput> for ProjectEvents {
    fn from(input: ProjectEventDocumentsInput) -> Self {
        let drafts = input.events.into_iter().map(|JsonInput(document)| EventDraft::of_document(&document)).collect();
        Self { drafts, claim: input.claim, settle: input.settle.unwrap_or(false), strict: input.strict }
    }
}

/// Returns the execution ids of the events as the caller gave them, each id once.
pub(super) fn executions(drafts: &[Draft]) -> BTreeSet<String> {
    drafts.iter().flatten().filter_map(|draft| draft.execution_id.clone()).collect()
}

/// Returns the ids of the events as the caller gave them.
pub(super) fn given_ids(drafts: &[Draft]) -> Vec<GivenIds> {
    let ids = |draft: &Draft| {
        let draft = draft.as_ref().ok();
        let id = |of: fn(&EventDraft) -> &Option<String>| draft.and_then(|draft| of(draft).clone()).map(ID);
        GivenIds { event: id(|draft| &draft.event_id), execution: id(|draft| &draft.execution_id) }
    };
    drafts.iter().map(ids).collect()
}
