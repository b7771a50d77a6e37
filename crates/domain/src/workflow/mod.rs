//! The fold of an execution's events to its state.
//!
//! The state depends only on the *set* of events, not on their order or on repetition. So late events, redeliveries,
//! and folding on from a snapshot can't corrupt it. If events contradict each other, the one with the largest id wins.
//! The size of the state is bounded by the workflow (steps, the commands of each step's current run, variables), not by
//! the length of the log. A state is sealed before it is stored: it keeps no records of a loop's iterations that are
//! completed without an error.

mod fact;
mod order;
mod outcome;
mod register;
mod results;
mod sealed;
mod sealed_rows;
mod shape;
mod step;
mod view;
mod work;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use fact::{is_known_type, known_types};
pub use register::Register;
pub use results::LoopResults;
pub use shape::shape;
pub use step::StepState;
pub use view::{Frame, Iterations, StepStatus};

use super::event::Event;
use super::execution::{INITIALIZED, Status, StatusSource, ended_by, is_pool_name};
use super::ids::Id;
use super::labels::Labels;
use super::outbox::is_of_outbox;
use fact::{Kind, StepKind};
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
    /// Pool of the workers that the event names.
    #[serde(default)]
    pub execution_pool: Option<String>,
    /// Execution of which this one is a rerun.
    #[serde(default)]
    pub rerun_of: Option<Id>,
    /// Labels that the event names.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
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
    /// Whether failed events, and not this one, decide the status ([`StatusSource::Steps`]). It is not stored.
    #[serde(skip)]
    pub failed: bool,
}

impl End {
    /// Returns the end that an ending event describes.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        let reason = || fact::context_value(event, "reason").and_then(Value::as_str).map(str::to_owned);
        let error = fact::error(event).or_else(reason);
        Self { at: event.created_at, event_type: event.event_type.clone(), error, failed: false }
    }

    /// Returns the status of an execution with this end. An end by an event that is not an ending is the failure of the
    /// only step.
    #[must_use]
    pub fn status(&self) -> Status {
        if self.failed { Status::Failed } else { ended_by(&self.event_type).unwrap_or(Status::Failed) }
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
    /// Last event, except for those about the outbox.
    #[serde(default, skip_serializing_if = "Register::is_empty")]
    pub last: Register<Last>,
    /// Latest time of an event, of any type; `None`: no event is folded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_at: Option<DateTime<Utc>>,
    /// Durable variables, without their `ctx.` prefix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ctx: BTreeMap<String, Register<AnyJson>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    steps: BTreeMap<String, StepState>,
    /// Earliest time of an event with which a step begins; `None`: none has begun. That its first command is issued is not
    /// enough: a worker must take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step_at: Option<DateTime<Utc>>,
    /// Whether an event, of any type, has the status of a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_failed: bool,
    /// Source of the status. It is a setting, and no fact of the log.
    #[serde(skip)]
    status_source: StatusSource,
    /// Whether an event contradicted a sealed iteration.
    #[serde(skip)]
    contradicted: bool,
}

impl Typed for WorkflowState {}

impl WorkflowState {
    /// Folds one event of the log.
    pub fn fold(&mut self, event: &Event) {
        if !is_of_outbox(&event.event_type) {
            let last = || Last { event_type: event.event_type.clone(), node_name: event.node_name.clone() };
            self.last.set_with(event.event_id, last);
        }
        self.latest_at = self.latest_at.max(Some(event.created_at));
        self.has_failed |= fact::has_failed(event);
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
                    if kind != StepKind::Issued {
                        let earlier = self.first_step_at.filter(|first| *first < event.created_at);
                        self.first_step_at = earlier.or(Some(event.created_at));
                    }
                    let step = self.steps.entry(name.to_owned()).or_insert_with(StepState::new);
                    self.contradicted |= step.fold(kind, event).is_err();
                }
            }
            None => {}
        }
    }

    /// Drops the records of the iterations that are completed without an error. The state then has the size of its open
    /// iterations. The results of the dropped ones are only in the log.
    pub fn seal(&mut self) {
        self.steps.values_mut().for_each(StepState::seal);
    }

    /// Returns whether the state is that of the folded events. It is not if an event contradicted a sealed iteration,
    /// such as the failure of a completed one: then the whole log must be folded again, without a seal before its end.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.contradicted
    }

    /// Returns the state whose status has this source.
    #[must_use]
    pub fn with_status_from(self, source: StatusSource) -> Self {
        Self { status_source: source, ..self }
    }

    /// Returns the source of the status.
    #[must_use]
    pub const fn status_source(&self) -> StatusSource {
        self.status_source
    }

    /// Returns the status of the execution. Its end determines it. Until a step has begun, the execution is pending.
    #[must_use]
    pub fn status(&self) -> Status {
        let current = if self.first_step_at.is_some() { Status::Running } else { Status::Pending };
        self.end().map_or(current, |end| end.status())
    }

    /// Returns the end of the execution: the latest ending event. Without one, it is the failure of the only step, if
    /// nothing else can run: NoETL's engine can stop there without an ending event, and its API shows such an execution
    /// as failed. If another command or step begins, the execution is running again.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        let failed = self.has_failed && self.status_source == StatusSource::Steps;
        let failure = || {
            let (at, step) = self.only_step_failed()?;
            let (event_type, error) = (fact::FAILED_COMMAND.to_owned(), step.error().map(str::to_owned));
            Some(End { at, event_type, error, failed: true })
        };
        self.ended.get().map(|end| End { failed, ..end.clone() }).or_else(failure)
    }

    /// Returns the id of the event that ended the execution; `None`: no ending event is folded.
    #[must_use]
    pub fn ended_by(&self) -> Option<Id> {
        self.ended.place()
    }

    fn only_step_failed(&self) -> Option<(DateTime<Utc>, &StepState)> {
        let (_, step) = self.steps.first_key_value().filter(|_| self.steps.len() == 1)?;
        Some((step.failed_at()?, step))
    }

    /// Returns the steps with their names, in the order of their first events.
    #[must_use]
    pub fn steps(&self) -> Vec<(&str, &StepState)> {
        let mut steps: Vec<_> = self.steps.iter().map(|(name, step)| (name.as_str(), step)).collect();
        steps.sort_by_key(|(_, step)| step.first);
        steps
    }

    /// Returns the number of steps that are failed. An execution with failed steps can end with a completion.
    #[must_use]
    pub fn failed_steps(&self) -> i32 {
        let failed = self.steps.values().filter(|step| step.status() == StepStatus::Failed).count();
        i32::try_from(failed).unwrap_or(i32::MAX)
    }

    /// Returns the current durable variables.
    pub fn ctx(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.ctx.iter().filter_map(|(name, value)| Some((name.as_str(), &value.get()?.0)))
    }
}

fn start(event: &Event) -> Start {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let meta = |key: &str| event.meta.as_ref().and_then(|meta| meta.get(key)).filter(|value| !value.is_null());
    let named = || event.node_name.clone().filter(|_| event.event_type == INITIALIZED);
    Start {
        at: event.created_at,
        catalog_id: event.catalog_id,
        parent_execution_id: event.parent_execution_id,
        path: fact::start_value(event, &["path", "playbook_path"]).map(text).or_else(named),
        version: fact::start_value(event, &["version"]).map(text),
        workload: fact::start_value(event, &["workload", "inline_workload"]).cloned(),
        execution_pool: meta("execution_pool")
            .and_then(Value::as_str)
            .filter(|pool| is_pool_name(pool))
            .map(str::to_owned),
        rerun_of: meta("rerun_of").map(text).and_then(|id| id.parse().ok()),
        labels: meta(Labels::META_KEY).map(Labels::read).unwrap_or_default(),
    }
}
