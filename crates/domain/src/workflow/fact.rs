//! Reading events for the fold: the kind of an event, and its values. NoETL's servers and workers write the same value
//! in different places, so each function here checks all known places of its value.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::execution::{ENDINGS, STARTED, ended_by};

/// Step name under which NoETL's servers run their own planning as commands. It is not a step of the workflow.
const ORCHESTRATION: &str = "__orchestrate__";
/// Prefix that some servers write before the names of durable variables.
const CTX_PREFIX: &str = "ctx.";

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
    Completed,
    Failed,
    LoopDone,
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
const KINDS: [(&str, Kind); 20] = [
    (STARTED, Kind::Started),
    ("ctx.updated", Kind::CtxUpdated),
    ("step.enter", Kind::Step(StepKind::Entered)),
    ("step_enter", Kind::Step(StepKind::Entered)),
    ("step_started", Kind::Step(StepKind::Entered)),
    ("step.skipped", Kind::Step(StepKind::Skipped)),
    ("command.issued", Kind::Step(StepKind::Issued)),
    ("command.claimed", Kind::Step(StepKind::Claimed)),
    ("command.started", Kind::Step(StepKind::Started)),
    ("action_started", Kind::Step(StepKind::Started)),
    ("call.done", Kind::Step(StepKind::Done)),
    ("action_done", Kind::Step(StepKind::Done)),
    ("command.completed", Kind::Step(StepKind::Completed)),
    ("action_completed", Kind::Step(StepKind::Completed)),
    ("step.exit", Kind::Step(StepKind::Completed)),
    ("step_completed", Kind::Step(StepKind::Completed)),
    ("command.failed", Kind::Step(StepKind::Failed)),
    ("action_failed", Kind::Step(StepKind::Failed)),
    ("step_failed", Kind::Step(StepKind::Failed)),
    ("loop.done", Kind::Step(StepKind::LoopDone)),
];

/// Returns the event types whose JSON columns the fold reads. Of other events, it needs only the id, type, node and
/// time.
pub fn known_types() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().map(|(name, _)| name).chain(ENDINGS.into_iter().map(|(name, _)| name))
}

/// Returns the kind of an event type; `None`: the fold does not know the type.
pub(super) fn kind(event_type: &str) -> Option<Kind> {
    let ended = ended_by(event_type).map(|_| Kind::Ended);
    ended.or_else(|| KINDS.iter().find(|(name, _)| *name == event_type).map(|(_, kind)| *kind))
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

/// Returns the number of the attempt that an event belongs to, if the event contains it.
pub(super) fn attempt(event: &Event) -> Option<i64> {
    let meta = event.meta.as_ref().and_then(|meta| meta.get("attempt"));
    meta.or_else(|| context_value(event, "attempt")).and_then(Value::as_i64)
}

/// Returns the error message of an event: its `error` column, else `result.error`, else the `error` of its context.
pub(super) fn error(event: &Event) -> Option<String> {
    let result = event.result.as_ref();
    let own = event.error.as_ref().filter(|error| !error.is_empty()).cloned();
    let given = || result.and_then(|result| result.get("error")).or_else(|| context_value(event, "error"));
    own.or_else(|| match given()? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    })
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
