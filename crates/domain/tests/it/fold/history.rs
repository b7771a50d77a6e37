//! Logs that a test writes event by event.

use chrono::{DateTime, TimeDelta, Utc};
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_domain::workflow::{StepState, WorkflowState};
use serde_json::{Value, json};

/// A log that is written event by event, with increasing ids and times.
#[derive(Debug, Clone, Default)]
pub struct History(pub Vec<Event>);

impl History {
    pub fn started() -> Self {
        let mut history = Self::default();
        history.append("playbook_started", None, json!({}));
        let context = json!({ "path": "p", "version": "2", "workload": { "n": 1 } });
        history.last().context = Some(context);
        history
    }

    pub fn at(number: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(number)
    }

    pub fn append(&mut self, event_type: &str, step: Option<&str>, meta: Value) -> &mut Self {
        let number = i64::try_from(self.0.len()).unwrap() + 1;
        let event = Event::bare(Id::new(7), Id::new(number * 10), Id::new(3), event_type, Self::at(number));
        self.0.push(Event { node_name: step.map(str::to_owned), meta: Some(meta), ..event });
        self
    }

    pub fn last(&mut self) -> &mut Event {
        self.0.last_mut().unwrap()
    }

    pub fn step(&mut self, event_type: &str, step: &str) -> &mut Self {
        self.append(event_type, Some(step), json!({}))
    }

    pub fn command(&mut self, event_type: &str, step: &str, command: &str) -> &mut Self {
        self.append(event_type, Some(step), json!({ "command_id": command }))
    }

    pub fn with_context(&mut self, context: Value) -> &mut Self {
        self.last().context = Some(context);
        self
    }

    pub fn with_result(&mut self, result: Value) -> &mut Self {
        self.last().result = Some(result);
        self
    }

    /// Appends the events of a command from its issue to its completion.
    pub fn runs(&mut self, step: &str, command: &str, result: Value) -> &mut Self {
        for event_type in ["command.issued", "command.claimed", "command.started"] {
            self.command(event_type, step, command);
        }
        self.command("call.done", step, command).with_result(result);
        self.command("command.completed", step, command)
    }

    pub fn fails(&mut self, step: &str, command: &str, error: &str) -> &mut Self {
        for event_type in ["command.issued", "command.claimed", "command.started"] {
            self.command(event_type, step, command);
        }
        self.command("command.failed", step, command).with_result(json!({ "context": { "error": error } }))
    }

    /// Appends a `step.enter` of NoETL's orchestrator.
    pub fn entered(&mut self, step: &str) -> &mut Self {
        self.append("step.enter", Some(step), json!({ "emitted_by": "orchestrator" }));
        self.with_result(json!({ "status": "ENTERED" }))
    }

    /// Appends a `command.issued` of NoETL's orchestrator and returns the command's id.
    pub fn issued(&mut self, step: &str) -> String {
        self.append("command.issued", Some(step), json!({}));
        let event = self.last();
        let command = format!("{}:{step}:{}", event.execution_id, event.event_id);
        self.last().meta = Some(json!({ "command_id": command, "attempt": 1 }));
        command
    }

    /// Appends a `step.enter` of NoETL's orchestrator that starts a loop.
    pub fn entered_loop(&mut self, step: &str, expected: usize) -> &mut Self {
        self.entered(step).with_result(json!({ "context": { "iterations_expected": expected } }))
    }

    /// Appends a `command.issued` of NoETL's orchestrator for an iteration, and returns the command's id.
    pub fn issued_iteration(&mut self, step: &str, index: usize) -> String {
        let command = format!("{}:i{index}", self.issued(step));
        self.last().meta = Some(json!({ "command_id": command, "attempt": 1, "iteration_index": index }));
        command
    }

    /// Appends the events of a NoETL worker for an iteration that completes.
    pub fn completes_iteration(&mut self, step: &str, command: &str, ahead: i64) -> &mut Self {
        self.reported("command.claimed", step, command, 0).reported("command.started", step, command, ahead);
        self.reported("call.done", step, command, ahead);
        self.reported("command.completed", step, command, ahead);
        self.with_result(json!({ "status": "success", "context": { "command_id": command } }))
    }

    /// Appends an event of a NoETL worker whose clock is ahead (or behind, if negative) by this number of events, at
    /// most 4.
    pub fn reported(&mut self, event_type: &str, step: &str, command: &str, ahead: i64) -> &mut Self {
        self.append(event_type, Some(step), json!({ "worker_id": "worker-1" }));
        self.with_result(json!({ "context": { "command_id": command } }));
        // The last digit keeps the ids distinct.
        let id = self.last().event_id.get() + ahead * 10 + 5 + ahead;
        self.last().event_id = Id::new(id);
        self
    }

    pub fn fold(&self) -> WorkflowState {
        fold(&self.0)
    }

    /// Returns the time of the event with this index.
    pub fn time(&self, index: usize) -> DateTime<Utc> {
        self.0[index].created_at
    }
}

pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> WorkflowState {
    let mut state = WorkflowState::default();
    events.into_iter().for_each(|event| state.fold(event));
    state
}

pub fn step<'a>(state: &'a WorkflowState, name: &str) -> &'a StepState {
    state.steps().into_iter().find(|(known, _)| *known == name).unwrap().1
}
