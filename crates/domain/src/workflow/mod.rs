//! The fold of an execution's events to its state.
//!
//! The state depends only on the *set* of events, not on their order or on repetition. So late events, redeliveries,
//! and folding on from a snapshot can't corrupt it. If events contradict each other, the one with the largest id wins.
//! The size of the state is bounded by the workflow (steps, the commands of each step's current run, variables), not by
//! the length of the log.

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
use super::execution::{Status, ended_by};
use super::ids::Id;
use fact::Kind;
use plain_json::{self as json, AnyJson, Typed};

/// Start of an execution, from its started event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Time of the start.
    pub at: DateTime<Utc>,
    /// Id of the catalog entry that runs.
    pub catalog_id: Id,
    /// Subscription or execution that started it.
    pub parent_execution_id: Option<Id>,
    /// Path of the entry.
    pub path: Option<String>,
    /// Version of the entry, if the event contains it.
    pub version: Option<String>,
    /// Workload of the entry, overlaid with the request's.
    #[serde(default, deserialize_with = "json::option")]
    pub workload: Option<Value>,
}

/// End of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Time of the end.
    pub at: DateTime<Utc>,
    /// Type of the ending event.
    pub event_type: String,
    /// Error message, or reason of the cancellation.
    pub error: Option<String>,
}

impl End {
    /// Returns the end that an ending event describes.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let reason = || fact::context_value(event, "reason").and_then(Value::as_str).map(str::to_owned);
        Self { at: event.created_at, event_type: event.event_type.clone(), error: fact::error(event).or_else(reason) }
    }

    /// Returns the status of an execution with this end.
    #[must_use]
    pub fn status(&self) -> Status {
        ended_by(&self.event_type).unwrap_or(Status::Completed)
    }
}

/// The last event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Last {
    /// Event type.
    pub event_type: String,
    /// Name of the node at which the event happened.
    pub node_name: Option<String>,
}

/// State of an execution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkflowState {
    /// Start, if a started event is folded.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub started: Register<Start>,
    /// End, if an ending event is folded.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub ended: Register<End>,
    /// Last event, of any type.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub last: Register<Last>,
    /// Durable variables, without their `ctx.` prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ctx: BTreeMap<String, Register<AnyJson>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    steps: BTreeMap<String, StepState>,
}

impl Typed for WorkflowState {}

impl WorkflowState {
    /// Folds one event of the log.
    pub fn fold(&mut self, event: &Event) {
        let last = || Last { event_type: event.event_type.clone(), node_name: event.node_name.clone() };
        if self.last.event() < Some(event.event_id) {
            self.last.set(event.event_id, last());
        }
        match fact::kind(&event.event_type) {
            Some(Kind::Started) => self.started.set(event.event_id, start(event)),
            Some(Kind::Ended) => self.ended.set(event.event_id, End::of(event)),
            Some(Kind::CtxUpdated) => {
                for (name, value) in fact::variables(event) {
                    self.ctx.entry(name.to_owned()).or_default().set(event.event_id, AnyJson(value.clone()));
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

    /// Returns the status of the execution. An end determines it, regardless of later events.
    #[must_use]
    pub fn status(&self) -> Status {
        let begun = !self.started.is_empty() || !self.steps.is_empty();
        let current = if begun { Status::Running } else { Status::Pending };
        self.ended.get().map_or(current, End::status)
    }

    /// Returns the steps with their names, in the order of their first events.
    #[must_use]
    pub fn steps(&self) -> Vec<(&str, &StepState)> {
        let mut steps: Vec<_> = self.steps.iter().map(|(name, step)| (name.as_str(), step)).collect();
        steps.sort_by_key(|(_, step)| step.first);
        steps
    }

    /// Returns the current durable variables.
    pub fn ctx(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.ctx.iter().filter_map(|(name, value)| Some((name.as_str(), &value.get()?.0)))
    }
}

fn start(event: &Event) -> Start {
    let value =
        |key: &str| event.context.as_ref().and_then(|context| context.get(key)).filter(|value| !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Start {
        at: event.created_at,
        catalog_id: event.catalog_id,
        parent_execution_id: event.parent_execution_id,
        path: value("path").map(text),
        version: value("version").map(text),
        workload: value("workload").cloned(),
    }
}
