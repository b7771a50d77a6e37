//! The input and the answer of `projectEvents`.

use std::collections::BTreeSet;

use async_graphql::{ID, InputObject, Result, SimpleObject};

use super::split;
use crate::graphql::errors::{UserError, UserErrorCode, item_error};
use crate::graphql::scalars::{Json, Seconds, Timestamp};
use crate::service::error::ServiceError;
use crate::service::ingest::{EventDraft, Projected};

/// Events that workers made.
#[derive(Debug, InputObject)]
pub(super) struct ProjectEventsInput {
    /// 1 to 5000, of any executions; each is taken in or refused on its own.
    pub(super) events: Vec<EventInput>,
}

/// An event as a worker made it. Null counts as absent, and so does an empty text for ids, the duration and times.
#[derive(Debug, InputObject)]
pub(super) struct EventInput {
    /// A snowflake of the worker's; an event whose id its log knows is skipped. Refused where it is absent.
    event_id: Option<ID>,
    /// Whose log. Refused where it is absent.
    execution_id: Option<ID>,
    /// The catalog entry; absent or 0: the execution's, where that is known, else 0.
    catalog_id: Option<ID>,
    /// The event that caused this one.
    parent_event_id: Option<ID>,
    /// Who started the execution; absent: as the execution says, where that is known.
    parent_execution_id: Option<ID>,
    /// What happened, 1 to 255 bytes, such as `step.enter`. Refused where it is absent, and where it is a lifecycle event
    /// of a source subscription: transitions alone write these.
    #[graphql(name = "type")]
    event_type: Option<String>,
    /// The node that it happened at.
    node_id: Option<String>,
    /// The node's name.
    node_name: Option<String>,
    /// The node's kind.
    node_type: Option<String>,
    /// The state after it.
    status: Option<String>,
    /// How long it took.
    duration: Option<Seconds>,
    /// When it happened; absent: `createdAt`, else the time at which it is stored.
    timestamp: Option<Timestamp>,
    /// Another name of `timestamp`, which comes first.
    created_at: Option<Timestamp>,
    /// What it was given.
    context: Option<Json>,
    /// What it gave.
    result: Option<Json>,
    /// About the event itself: a map. What is none is kept as the map's `value`. Where callers are identified,
    /// the server adds `actor`, the subject of the caller, and keeps what was sent under that name as `meta.extra.sent_actor`.
    meta: Option<Json>,
    /// What went wrong.
    error: Option<String>,
    /// Where it went wrong.
    stack_trace: Option<String>,
    /// Kept as `meta.extra.trace_component`.
    trace_component: Option<Json>,
    /// A map of whatever else is to be kept, under `meta.extra`.
    extra: Option<Json>,
}

impl From<EventInput> for EventDraft {
    fn from(input: EventInput) -> Self {
        let id = |id: Option<ID>| id.map(|ID(text)| text);
        let json = |json: Option<Json>| json.map(|json| json.0);
        let time = |time: Option<Timestamp>| time.map(|time| time.0);
        Self {
            event_id: id(input.event_id),
            execution_id: id(input.execution_id),
            catalog_id: id(input.catalog_id),
            parent_event_id: id(input.parent_event_id),
            parent_execution_id: id(input.parent_execution_id),
            event_type: input.event_type,
            node_id: input.node_id,
            node_name: input.node_name,
            node_type: input.node_type,
            status: input.status,
            duration: input.duration.map(|duration| duration.0),
            timestamp: time(input.timestamp),
            created_at: time(input.created_at),
            context: json(input.context),
            result: json(input.result),
            meta: json(input.meta),
            error: input.error,
            stack_trace: input.stack_trace,
            trace_component: json(input.trace_component),
            extra: json(input.extra),
        }
    }
}

/// What came of a batch of events: each is counted once, as stored, known or refused.
#[derive(Debug, SimpleObject)]
pub(super) struct ProjectEventsPayload {
    /// How many were stored.
    projected: usize,
    /// How many were known, to their log or from an earlier place in the batch.
    duplicates: usize,
    /// Which were refused, in the order of the batch.
    rejected: Vec<RejectedEvent>,
    /// Why the whole batch was refused.
    pub(super) user_errors: Vec<UserError>,
}

/// An event that was not taken in.
#[derive(Debug, SimpleObject)]
pub(super) struct RejectedEvent {
    /// Its place in the batch, from 0.
    index: usize,
    /// Its id, as it was given.
    event_id: Option<ID>,
    /// What kind of refusal.
    code: UserErrorCode,
    /// A sentence that says what to do.
    message: String,
    /// Whether the same event may be taken in later.
    retryable: bool,
}

impl ProjectEventsPayload {
    pub(super) fn new(given: &[Option<ID>], outcome: Result<Projected, ServiceError>) -> Result<Self> {
        let (outcome, user_errors) = split(outcome)?;
        let Projected { projected, duplicates, rejected } = outcome.unwrap_or_default();
        let rejected = rejected.into_iter().map(|(index, error)| {
            let UserError { code, message, retryable, .. } = item_error(error);
            let event_id = given.get(index).cloned().flatten();
            RejectedEvent { index, event_id, code, message, retryable }
        });
        Ok(Self { projected, duplicates, rejected: rejected.collect(), user_errors })
    }
}

impl ProjectEventsInput {
    /// The executions whose events these are, each once.
    pub(super) fn executions(&self) -> BTreeSet<String> {
        self.events.iter().filter_map(|event| event.execution_id.as_ref().map(|id| id.0.clone())).collect()
    }

    /// The ids as they were given, and the events.
    pub(super) fn into_parts(self) -> (Vec<Option<ID>>, Vec<EventDraft>) {
        let ids = self.events.iter().map(|event| event.event_id.clone()).collect();
        (ids, self.events.into_iter().map(EventDraft::from).collect())
    }
}
