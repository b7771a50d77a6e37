//! What an event says to the fold (SPEC, "Projection and snapshots"): its kind, and values by the places in which
//! NoETL's servers and workers put them.

use serde_json::{Map, Value};

use super::step::Phase;
use crate::domain::event::Event;

/// NoETL's servers run their own planning as commands under this name; those are no steps of the workflow.
const ORCHESTRATION: &str = "__orchestrate__";
/// What every server prefixes durable variables with, or does not.
const CTX_PREFIX: &str = "ctx.";

/// The kinds of events that the fold knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Started,
    Completed,
    Failed,
    Cancelled,
    CtxUpdated,
    Step(StepKind),
}

/// The kinds of events that are about a step.
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

/// Every event type that the fold knows, with what it means.
const KINDS: [(&str, Kind); 25] = [
    ("playbook_started", Kind::Started),
    ("playbook_completed", Kind::Completed),
    ("playbook.completed", Kind::Completed),
    ("playbook_failed", Kind::Failed),
    ("playbook.failed", Kind::Failed),
    ("playbook.cancelled", Kind::Cancelled),
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

/// The event types that the fold reads; of all others it needs no more than that they are there.
pub fn known_types() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().map(|(name, _)| name)
}

/// What the type means; `None`: nothing to the fold.
pub(super) fn kind(event_type: &str) -> Option<Kind> {
    KINDS.iter().find(|(name, _)| *name == event_type).map(|(_, kind)| *kind)
}

/// The step that an event is about.
pub(super) fn step_name(event: &Event) -> Option<&str> {
    let name = event.node_name.as_deref().or(event.node_id.as_deref())?;
    (!name.is_empty() && name != ORCHESTRATION).then_some(name)
}

/// The command that an event is about.
pub(super) fn command_id(event: &Event) -> Option<String> {
    let result = event.result.as_ref();
    let within = |part: &str| text(result?.get(part)?.get("command_id")?);
    let meta = event.meta.as_ref().and_then(|meta| text(meta.get("command_id")?));
    meta.or_else(|| within("context")).or_else(|| within("data"))
}

/// A name, which some write as a number; an empty one is none.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value of the event's own making: in `result.context`, else in `context`.
pub(super) fn said<'a>(event: &'a Event, key: &str) -> Option<&'a Value> {
    let enveloped = event.result.as_ref().and_then(|result| result.get("context")?.get(key));
    let own = || event.context.as_ref().and_then(|context| context.get(key));
    enveloped.filter(|value| !value.is_null()).or_else(own)
}

/// Whether a marker such as `__cursor_loop` is set.
pub(super) fn is_marked(event: &Event, marker: &str) -> bool {
    said(event, marker).is_some_and(|value| value == &Value::Bool(true))
}

/// Which attempt an event belongs to, where it says so.
pub(super) fn attempt(event: &Event) -> Option<i64> {
    let meta = event.meta.as_ref().and_then(|meta| meta.get("attempt"));
    meta.or_else(|| said(event, "attempt")).and_then(Value::as_i64)
}

/// What went wrong, from wherever the writer put it.
pub(super) fn error(event: &Event) -> Option<String> {
    let result = event.result.as_ref();
    let own = event.error.as_ref().filter(|error| !error.is_empty()).cloned();
    let given = || result.and_then(|result| result.get("error")).or_else(|| said(event, "error"));
    own.or_else(|| match given()? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    })
}

/// Durable variables of a `ctx.updated` event: the object under `values`, else all that was said.
pub(super) fn variables(event: &Event) -> impl Iterator<Item = (&str, &Value)> {
    let all = || event.result.as_ref().and_then(|result| result.get("context")).or(event.context.as_ref());
    let values = said(event, "values").or_else(all).and_then(Value::as_object);
    values.into_iter().flat_map(Map::iter).map(|(key, value)| (key.strip_prefix(CTX_PREFIX).unwrap_or(key), value))
}

/// Where in a cursor loop a command belongs.
pub(super) fn cursor(event: &Event) -> Option<(Phase, i64)> {
    let cursor = event.meta.as_ref()?.get("cursor")?;
    let phase = match cursor.get("phase")?.as_str()? {
        "claim" => Phase::Claim,
        "body" => Phase::Body,
        _ => return None,
    };
    Some((phase, cursor.get("frame").and_then(Value::as_i64).unwrap_or_default()))
}
