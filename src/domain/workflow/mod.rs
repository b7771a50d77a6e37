//! The fold: an execution's events to its state (SPEC, "Projection and snapshots").
//!
//! The state is a function of the *set* of events: whatever order they are folded in, and however often, it comes out the
//! same, so stragglers, redeliveries and the split between a snapshot and what came after can't corrupt it. Where events
//! disagree, the one with the larger id is right. Its size is bounded by the workflow: steps, the commands of each step's
//! current run, variables; not by the length of the log.

mod fact;
mod register;
mod step;
mod view;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use fact::known_types;
pub use register::Register;
pub use step::StepState;
pub use view::{Frame, Iterations, StepStatus};

use super::event::Event;
use super::execution::Status;
use super::ids::Id;
use fact::Kind;
use noetl_json::{self as json, Data, Typed};

/// What `playbook_started` said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// When.
    pub at: DateTime<Utc>,
    /// The catalog entry that runs.
    pub catalog_id: Id,
    /// The subscription or execution that started it.
    pub parent_execution_id: Option<Id>,
    /// The entry's path.
    pub path: Option<String>,
    /// The entry's version, where the writer said so.
    pub version: Option<String>,
    /// The entry's workload overlaid by the request's.
    #[serde(default, deserialize_with = "json::option")]
    pub workload: Option<Value>,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// When.
    pub at: DateTime<Utc>,
    /// The event type that said so.
    pub event_type: String,
    /// What went wrong, or why it was cancelled.
    pub error: Option<String>,
}

impl End {
    /// What an ending event says.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let reason = || fact::said(event, "reason").and_then(Value::as_str).map(str::to_owned);
        Self { at: event.created_at, event_type: event.event_type.clone(), error: fact::error(event).or_else(reason) }
    }

    /// Where an execution stands that ended so.
    #[must_use]
    pub fn status(&self) -> Status {
        match fact::kind(&self.event_type) {
            Some(Kind::Cancelled) => Status::Cancelled,
            Some(Kind::Failed) => Status::Failed,
            _ => Status::Completed,
        }
    }
}

/// The last event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Its type.
    pub event_type: String,
    /// The node that it happened at.
    pub node_name: Option<String>,
}

/// An execution's state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkflowState {
    /// How it began.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub started: Register<Start>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub ended: Register<End>,
    /// The last event of any type.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub last: Register<Last>,
    /// Durable variables, without their `ctx.` prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ctx: BTreeMap<String, Register<Data>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    steps: BTreeMap<String, StepState>,
}

impl Typed for WorkflowState {}

impl WorkflowState {
    /// Takes one more event of the log into account.
    pub fn fold(&mut self, event: &Event) {
        let last = || Last { event_type: event.event_type.clone(), node_name: event.node_name.clone() };
        if self.last.event() < Some(event.event_id) {
            self.last.set(event.event_id, last());
        }
        match fact::kind(&event.event_type) {
            Some(Kind::Started) => self.started.set(event.event_id, start(event)),
            Some(Kind::Completed | Kind::Failed | Kind::Cancelled) => self.ended.set(event.event_id, End::of(event)),
            Some(Kind::CtxUpdated) => {
                for (name, value) in fact::variables(event) {
                    self.ctx.entry(name.to_owned()).or_default().set(event.event_id, Data(value.clone()));
                }
            }
            Some(Kind::Step(kind)) => {
                if let Some(name) = fact::step_name(event) {
                    let fresh = || StepState::new(event.event_id);
                    self.steps.entry(name.to_owned()).or_insert_with(fresh).fold(kind, event);
                }
            }
            None => {}
        }
    }

    /// Where the execution stands: how it ended, if it did, whatever came after.
    #[must_use]
    pub fn status(&self) -> Status {
        let begun = !self.started.is_empty() || !self.steps.is_empty();
        let standing = if begun { Status::Running } else { Status::Pending };
        self.ended.get().map_or(standing, End::status)
    }

    /// The steps with their names, in the order of their first events.
    #[must_use]
    pub fn steps(&self) -> Vec<(&str, &StepState)> {
        let mut steps: Vec<_> = self.steps.iter().map(|(name, step)| (name.as_str(), step)).collect();
        steps.sort_by_key(|(_, step)| step.first);
        steps
    }

    /// Durable variables as they stand.
    pub fn ctx(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.ctx.iter().filter_map(|(name, value)| Some((name.as_str(), &value.get()?.0)))
    }
}

fn start(event: &Event) -> Start {
    let said = |key: &str| event.context.as_ref().and_then(|context| context.get(key)).filter(|value| !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Start {
        at: event.created_at,
        catalog_id: event.catalog_id,
        parent_execution_id: event.parent_execution_id,
        path: said("path").map(text),
        version: said("version").map(text),
        workload: said("workload").cloned(),
    }
}
