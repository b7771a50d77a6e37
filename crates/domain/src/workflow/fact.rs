//! Reading events for the fold: the kind of an event, and its values. NoETL's servers and workers write the same value
//! in different places, so each function here checks all known places of its value.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::execution::{ENDINGS, INITIALIZED, STARTED, Status, ended_by};
use crate::lifecycle::DEDUPLICATED;
use crate::outbox::is_of_outbox;

/// Step name under which NoETL's servers run their own planning as commands. It is not a step of the workflow.
const ORCHESTRATION: &str = "__orchestrate__";
/// Prefix that some servers write before the names of durable variables.
const CTX_PREFIX: &str = "ctx.";

/// Type of the event of a failed command.
pub(super) const FAILED_COMMAND: &str = "command.failed";

/// Marker of a completion whose work is not done.
const PENDING_CALLBACK: &str = "pending_callback";

/// Types of the events with which a worker leaves a step, whether the step succeeded or failed.
const EXITS: [&str; 2] = ["step.exit", "step_completed"];

/// Kinds of events that the fold knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Started,
    Ended,
    CtxUpdated,
    Step(StepKind),
}

/// Kinds of events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Entered,
    Skipped,
    Issued,
    Claimed,
    Started,
    Done,
    CallFailed,
    Completed,
    Failed,
    LoopDone,
    /// A completion that only reports that the tool began work elsewhere. A callback reports the end of this work.
    Parked,
}

/// Phase of a cursor loop's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// Takes the next rows of the cursor.
    Claim,
    /// Processes one of these rows.
    Body,
}

/// Every event type that the fold knows, with its kind. The types that end an execution are in [`ENDINGS`].
pub(super) const KINDS: [(&str, Kind); 23] = [
    (STARTED, Kind::Started),
    (INITIALIZED, Kind::Started),
    ("ctx.updated", Kind::CtxUpdated),
    ("step.enter", Kind::Step(StepKind::Entered)),
    ("step_enter", Kind::Step(StepKind::Entered)),
    ("step_started", Kind::Step(StepKind::Entered)),
    ("step.skipped", Kind::Step(StepKind::Skipped)),
    ("step_skipped", Kind::Step(StepKind::Skipped)),
    ("command.issued", Kind::Step(StepKind::Issued)),
    ("command.claimed", Kind::Step(StepKind::Claimed)),
    ("command.started", Kind::Step(StepKind::Started)),
    ("action_started", Kind::Step(StepKind::Started)),
    ("call.done", Kind::Step(StepKind::Done)),
    ("action_done", Kind::Step(StepKind::Done)),
    ("call.error", Kind::Step(StepKind::CallFailed)),
    ("command.completed", Kind::Step(StepKind::Completed)),
    ("action_completed", Kind::Step(StepKind::Completed)),
    ("step.exit", Kind::Step(StepKind::Completed)),
    ("step_completed", Kind::Step(StepKind::Completed)),
    (FAILED_COMMAND, Kind::Step(StepKind::Failed)),
    ("action_failed", Kind::Step(StepKind::Failed)),
    ("step_failed", Kind::Step(StepKind::Failed)),
    ("loop.done", Kind::Step(StepKind::LoopDone)),
];

/// Returns the event types whose JSON columns the fold reads. Of other events, it needs only the id, type, node, time and
/// status.
pub fn known_types() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().map(|(name, _)| name).chain(ENDINGS.into_iter().map(|(name, _)| name))
}

/// Returns whether the fold or the log of a source subscription knows an event type, or this server writes it. Events of other
/// types change no state, except the status of an ended execution with `NOETL_EXECUTION_STATUS_FROM_STEPS`.
#[must_use]
pub fn is_known_type(event_type: &str) -> bool {
    kind(event_type).is_some() || event_type == DEDUPLICATED || is_of_outbox(event_type)
}

/// Returns the kind of an event type; `None`: the fold does not know the type.
pub(super) fn kind(event_type: &str) -> Option<Kind> {
    let ended = ended_by(event_type).map(|_| Kind::Ended);
    ended.or_else(|| KINDS.iter().find(|(name, _)| *name == event_type).map(|(_, kind)| *kind))
}

/// Returns whether an event reports the end of the step itself: it names no command, or its worker left the step with it.
pub(super) fn ends_step(event: &Event, of_command: bool) -> bool {
    !of_command || EXITS.contains(&event.event_type.as_str())
}

/// Returns the step that an event belongs to.
pub(super) fn step_name(event: &Event) -> Option<&str> {
    let name = event.node_name.as_deref().or(event.node_id.as_deref())?;
    (!name.is_empty() && name != ORCHESTRATION).then_some(name)
}

/// Returns the id of the command that an event belongs to.
pub(super) fn command_id(event: &Event) -> Option<String> {
    let result = event.result.as_ref();
    let within = |part: &str| text(result?.get(part)?.get("command_id")?);
    let meta = event.meta.as_ref().and_then(|meta| text(meta.get("command_id")?));
    meta.or_else(|| within("context")).or_else(|| within("data"))
}

/// Returns an id as text. Some writers use a number; an empty text counts as absent.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns a value of `result.context`, else of `context`.
pub(super) fn context_value<'a>(event: &'a Event, key: &str) -> Option<&'a Value> {
    let enveloped = event.result.as_ref().and_then(|result| result.get("context")?.get(key));
    let own = || event.context.as_ref().and_then(|context| context.get(key));
    enveloped.filter(|value| !value.is_null()).or_else(own)
}

/// Returns whether a marker such as `__cursor_loop` is set.
pub(super) fn is_marked(event: &Event, marker: &str) -> bool {
    context_value(event, marker).is_some_and(|value| value == &Value::Bool(true))
}

/// Returns whether a completion only reports that the tool began work elsewhere, such as a container.
pub(super) fn is_parked(event: &Event) -> bool {
    let in_meta = event.meta.as_ref().and_then(|meta| meta.get(PENDING_CALLBACK));
    is_marked(event, PENDING_CALLBACK) || in_meta == Some(&Value::Bool(true))
}

/// Returns the number of the attempt that an event belongs to, if the event contains it.
pub(super) fn attempt(event: &Event) -> Option<i64> {
    let meta = event.meta.as_ref().and_then(|meta| meta.get("attempt"));
    meta.or_else(|| context_value(event, "attempt")).and_then(Value::as_i64)
}

/// Returns a value of a started event, under the first of these names that it contains. NoETL's Rust server writes the
/// values to the context, its Python engine to `context.result` or to `meta`.
pub(super) fn start_value<'a>(event: &'a Event, names: &[&str]) -> Option<&'a Value> {
    let context = event.context.as_ref();
    let places = [context, context.and_then(|context| context.get("result")), event.meta.as_ref()];
    let value = |place: &'a Value| names.iter().find_map(|name| place.get(name).filter(|value| !value.is_null()));
    places.into_iter().flatten().find_map(value)
}

/// Returns whether a worker wrote this `step.enter` that names no command. Older Python workers report one after each
/// `command.started`, with the status of the command.
pub(super) fn is_entered_by_worker(event: &Event) -> bool {
    let meta = |key: &str| event.meta.as_ref().and_then(|meta| text(meta.get(key)?));
    let running = |status: &str| ["STARTED", "RUNNING"].iter().any(|name| status.eq_ignore_ascii_case(name));
    let by_orchestrator = meta("emitted_by").is_some_and(|emitter| emitter == "orchestrator");
    let of_context = || event.context.as_ref().and_then(|context| context.get("status")?.as_str());
    let status = || event.event_type == "step.enter" && statuses(event).chain(of_context()).any(running);
    !by_orchestrator && (meta("worker_id").is_some() || status())
}

/// Returns the error message of an event: its `error` column, else `meta.error`, else the first `error` in its result
/// or context.
pub(super) fn error(event: &Event) -> Option<String> {
    let meta = event.meta.as_ref().and_then(|meta| meta.get("error"));
    let context = event.context.as_ref().and_then(|context| context.get("error"));
    let given = [meta].into_iter().chain(envelopes(event).map(|part| part.get("error"))).chain([context]).flatten();
    let message = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        // Length of a text that NoETL left out of an extract.
        Value::Object(left_out) if left_out.len() == 1 && left_out.contains_key("_len") => None,
        other => Some(other.to_string()),
    };
    let own = event.error.as_ref().filter(|error| !error.is_empty()).cloned();
    own.or_else(|| given.into_iter().find_map(message))
}

/// Returns whether the status of an event is that of a failure. NoETL counts such events of all types, in any case of
/// letters, and not the statuses in their results.
pub(super) fn has_failed(event: &Event) -> bool {
    let is_failure = |status: &str| Status::Failed.stored_names().iter().any(|name| name.eq_ignore_ascii_case(status));
    event.status.as_deref().is_some_and(is_failure)
}

/// Returns the status of an event if it is an error.
pub(super) fn error_status(event: &Event) -> Option<&str> {
    statuses(event).find(|status| Status::from_stored(status) == Status::Failed)
}

/// Returns the error with which a call ended; `None`: its status is not an error.
pub(super) fn call_error(event: &Event) -> Option<String> {
    let status = error_status(event)?;
    Some(error(event).unwrap_or_else(|| format!("the call ended with the status {status}")))
}

/// Returns the statuses that an event contains: its own, then those in its result.
fn statuses(event: &Event) -> impl Iterator<Item = &str> {
    let in_result = envelopes(event).filter_map(|part| part.get("status")?.as_str());
    event.status.as_deref().into_iter().chain(in_result)
}

/// Returns an event's result, and the parts of it in which NoETL's workers wrap the result of a tool: `context`,
/// `context.result` and `context.result.context`. If the log only refers to the result of the tool, the reference has an
/// extract of it.
fn envelopes(event: &Event) -> impl Iterator<Item = &Value> {
    let mut keys = ["context", "result", "context"].into_iter();
    let extracted = event.result.as_ref().and_then(|result| result.pointer("/context/result/reference/extracted"));
    std::iter::successors(event.result.as_ref(), move |part| part.get(keys.next()?)).chain(extracted)
}

/// Returns the durable variables of a `ctx.updated` event: the map `values`, else the whole context.
pub(super) fn variables(event: &Event) -> impl Iterator<Item = (&str, &Value)> {
    let all = || event.result.as_ref().and_then(|result| result.get("context")).or(event.context.as_ref());
    let values = context_value(event, "values").or_else(all).and_then(Value::as_object);
    values.into_iter().flat_map(Map::iter).map(|(key, value)| (key.strip_prefix(CTX_PREFIX).unwrap_or(key), value))
}

/// Returns the phase and the frame number of a cursor loop's command.
pub(super) fn cursor(event: &Event) -> Option<(Phase, i64)> {
    let cursor = event.meta.as_ref()?.get("cursor")?;
    let phase = match cursor.get("phase")?.as_str()? {
        "claim" => Phase::Claim,
        "body" => Phase::Body,
        _ => return None,
    };
    Some((phase, cursor.get("frame").and_then(Value::as_i64).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_types_are_those_that_have_a_kind() {
        let known: Vec<_> = known_types().collect();
        assert!(known.iter().all(|name| kind(name).is_some()), "{known:?}");
        let all = KINDS.map(|(name, _)| name).into_iter().chain(ENDINGS.map(|(name, _)| name));
        assert_eq!(all.filter(|name| !known.contains(name)).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
