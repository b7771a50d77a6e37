//! Workflow of a catalog entry, for flow diagrams.

use async_graphql::{Enum, SimpleObject};

use noetl_domain::document::workflow::{self as domain, Repetition, RepetitionMode, Routing};
use serde_json::Value;

/// Workflow of a catalog entry: its steps, and the transitions between them.
#[derive(Debug, SimpleObject)]
pub(super) struct Workflow {
    /// Steps in the order of the document. An execution begins with the step `start`. A step in a form that NoETL does
    /// not read is left out. The list is not paged: the size of a document (4 MiB) bounds it.
    steps: Vec<WorkflowStep>,
}

/// Step of a workflow.
#[derive(Debug, SimpleObject)]
struct WorkflowStep {
    /// Name, to which transitions and the steps of executions refer.
    name: String,
    /// Description.
    description: Option<String>,
    /// Template that decides whether the step runs when it is reached; null: always. A step that does not run is skipped.
    condition: Option<String>,
    /// Tools that the step runs, one after the other.
    tools: Vec<WorkflowTool>,
    /// Repetition of the tools; null: they run once.
    repetition: Option<WorkflowRepetition>,
    /// Choice among the transitions.
    routing: WorkflowRouting,
    /// Transitions to other steps, in the order in which they are tried. The execution ends after a step without
    /// transitions, if no other step is running.
    transitions: Vec<WorkflowTransition>,
}

/// Tool that a step runs.
#[derive(Debug, SimpleObject)]
struct WorkflowTool {
    /// Name of the task; null if the step has one tool without a name.
    label: Option<String>,
    /// Kind, such as `python`, `http` or `playbook`.
    kind: String,
    /// Catalog path of the playbook that the tool runs; null for other kinds than `playbook`.
    playbook: Option<String>,
}

/// Repetition of a step's tools.
#[derive(Debug, SimpleObject)]
struct WorkflowRepetition {
    /// Order of the iterations.
    mode: WorkflowRepetitionMode,
    /// Variable that has the item of an iteration.
    iterator: Option<String>,
    /// Template of the list of items; null if the items are claimed with a cursor.
    items: Option<String>,
}

/// Order of the iterations of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "RepetitionMode")]
enum WorkflowRepetitionMode {
    /// One after the other.
    Sequential,
    /// At the same time.
    Parallel,
    /// In frames of rows that a query claims.
    Cursor,
    /// A mode that this server does not know; the field `document` of the entry contains its name.
    Unknown,
}

/// Choice among the transitions of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Routing")]
enum WorkflowRouting {
    /// The first transition whose condition is true is taken.
    Exclusive,
    /// All transitions whose conditions are true are taken.
    Inclusive,
}

/// Transition from a step to another one.
#[derive(Debug, SimpleObject)]
struct WorkflowTransition {
    /// Name of the next step. The document may name a step that it does not define; NoETL refuses to run such a
    /// document.
    to: String,
    /// Template that decides whether the transition can be taken; null: always.
    condition: Option<String>,
}

impl Workflow {
    /// Reads the workflow of a document.
    pub(super) fn of(workflow: &Value) -> Self {
        Self { steps: domain::steps(workflow).into_iter().map(WorkflowStep::from).collect() }
    }
}

impl From<domain::WorkflowStep> for WorkflowStep {
    fn from(step: domain::WorkflowStep) -> Self {
        let domain::WorkflowStep { name, description, condition, tools, repetition, routing, transitions } = step;
        let tool = |domain::Tool { label, kind, playbook }| WorkflowTool { label, kind, playbook };
        let repeated = |Repetition { mode, iterator, items }| WorkflowRepetition { mode: mode.into(), iterator, items };
        let transition = |domain::Transition { to, condition }| WorkflowTransition { to, condition };
        Self {
            name,
            description,
            condition,
            tools: tools.into_iter().map(tool).collect(),
            repetition: repetition.map(repeated),
            routing: routing.into(),
            transitions: transitions.into_iter().map(transition).collect(),
        }
    }
}
