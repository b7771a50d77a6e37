//! The workflow of a document: its steps, and the transitions between them.
//!
//! NoETL has four forms of `next`: the name of a step, a list of names, a list of maps with `step` and `when`, and a map
//! with `arcs` of such maps. Documents for its earlier versions have a list of maps with `when`, `then` and `else`. Its
//! `tool` is a map, or a list of labelled tasks in two forms. A part in another form is left out, so that the rest of a
//! document can be shown.

use serde_json::Value;

/// Step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowStep {
    /// Name, to which transitions refer.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Template that decides whether the step runs when it is reached; `None`: always.
    pub condition: Option<String>,
    /// Tools that the step runs, one after the other.
    pub tools: Vec<Tool>,
    /// Repetition of the tools; `None`: they run once.
    pub repetition: Option<Repetition>,
    /// Choice among the transitions.
    pub routing: Routing,
    /// Transitions to other steps, in the order in which they are tried.
    pub transitions: Vec<Transition>,
}

/// Tool that a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Name of the task; `None`: the step has one tool without a name.
    pub label: Option<String>,
    /// Kind, such as `python` or `http`.
    pub kind: String,
    /// Catalog path of the playbook that the tool runs, if it is of kind `playbook`.
    pub playbook: Option<String>,
}

/// Repetition of a step's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// Order of the iterations.
    pub mode: RepetitionMode,
    /// Variable that has the item of an iteration.
    pub iterator: Option<String>,
    /// Template of the list of items; `None`: the items are claimed with a cursor.
    pub items: Option<String>,
}

/// Order of the iterations of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepetitionMode {
    /// One after the other.
    Sequential,
    /// At the same time.
    Parallel,
    /// In frames of rows that a query claims.
    Cursor,
    /// A mode that this server does not know.
    Unknown,
}

/// Choice among the transitions of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The first transition whose condition is true is taken.
    Exclusive,
    /// All transitions whose conditions are true are taken.
    Inclusive,
}

/// Transition from a step to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Name of the next step.
    pub to: String,
    /// Template that decides whether the transition can be taken; `None`: always.
    pub condition: Option<String>,
}

/// Returns the steps of a workflow, in the order of the document. A step without a name is left out.
#[must_use]
pub fn steps(workflow: &Value) -> Vec<WorkflowStep> {
    items(workflow).iter().filter_map(step).collect()
}

fn step(step: &Value) -> Option<WorkflowStep> {
    Some(WorkflowStep {
        name: text(step, "step")?,
        description: text(step, "desc"),
        condition: text(step, "when"),
        tools: step.get("tool").map(tools).unwrap_or_default(),
        repetition: step.get("loop").filter(|repeated| repeated.is_object()).map(repetition),
        routing: routing(step),
        transitions: step.get("next").map(transitions).unwrap_or_default(),
    })
}

/// Returns the tools of a step: one, or a list of tasks.
fn tools(tool: &Value) -> Vec<Tool> {
    if tool.is_array() {
        items(tool).iter().filter_map(task).collect()
    } else {
        self::tool(None, tool).into_iter().collect()
    }
}

/// Returns a task of a list: `{ name: label, kind: … }` or `{ label: { kind: … } }`.
fn task(task: &Value) -> Option<Tool> {
    if let Some(flat) = tool(text(task, "name"), task) {
        return Some(flat);
    }
    let (label, nested) = task.as_object()?.iter().next()?;
    tool(Some(label.clone()), nested)
}

fn tool(label: Option<String>, tool: &Value) -> Option<Tool> {
    let kind = text(tool, "kind")?;
    let playbook = if kind == "playbook" { text(tool, "path") } else { None };
    Some(Tool { label, kind, playbook })
}

fn repetition(repeated: &Value) -> Repetition {
    let mode = match repeated.get("spec").and_then(|spec| spec.get("mode")) {
        None | Some(Value::Null) => RepetitionMode::Sequential,
        Some(mode) => match mode.as_str() {
            Some("sequential") => RepetitionMode::Sequential,
            Some("parallel") => RepetitionMode::Parallel,
            Some("cursor") => RepetitionMode::Cursor,
            _ => RepetitionMode::Unknown,
        },
    };
    Repetition { mode, iterator: text(repeated, "iterator"), items: text(repeated, "in") }
}

/// Returns the choice among the transitions. NoETL takes every name of a list of names. Otherwise `next.spec.mode`
/// decides, then `spec.next_mode` of the step, and each other text than `inclusive` means `exclusive`.
fn routing(step: &Value) -> Routing {
    let next = step.get("next");
    let names = next.and_then(Value::as_array).is_some_and(|next| next.iter().any(Value::is_string));
    let of_router = next.and_then(|next| next.get("spec")?.get("mode")?.as_str());
    let mode = of_router.or_else(|| step.get("spec")?.get("next_mode")?.as_str());
    if names || mode.is_some_and(|mode| mode.eq_ignore_ascii_case("inclusive")) {
        Routing::Inclusive
    } else {
        Routing::Exclusive
    }
}

/// Returns the transitions of a step, from any of the forms of `next`.
fn transitions(next: &Value) -> Vec<Transition> {
    if let Some(name) = next.as_str() {
        return vec![Transition { to: name.to_owned(), condition: None }];
    }
    items(next.get("arcs").unwrap_or(next)).iter().flat_map(transitions_of).collect()
}

/// Returns the transitions of an item of `next`: one, or those of its `then`, which have its condition, and those of its
/// `else`, which have none because they are tried afterwards.
fn transitions_of(arc: &Value) -> Vec<Transition> {
    let condition = text(arc, "when");
    let to = |arc: &Value| arc.as_str().map(str::to_owned).or_else(|| text(arc, "step"));
    if let Some(to) = to(arc) {
        return vec![Transition { to, condition }];
    }
    let branch = |name: &str, condition: Option<String>| {
        let steps = arc.get(name).map(items).unwrap_or_default();
        steps.iter().filter_map(to).map(move |to| Transition { to, condition: condition.clone() })
    };
    branch("then", condition).chain(branch("else", None)).collect()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(map: &Value, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(step: Value) -> WorkflowStep {
        steps(&json!([step])).pop().unwrap()
    }

    fn to(names: &[&str]) -> Vec<Transition> {
        names.iter().map(|name| Transition { to: (*name).to_owned(), condition: None }).collect()
    }

    #[test]
    fn every_form_of_next_gives_the_transitions() {
        let high = json!({ "step": "high", "when": "{{ a > 5 }}" });
        let guarded = vec![
            Transition { to: "high".to_owned(), condition: Some("{{ a > 5 }}".to_owned()) },
            Transition { to: "low".to_owned(), condition: None },
        ];
        let cases = [
            (json!({}), Vec::new(), Routing::Exclusive),
            (json!({ "next": "end" }), to(&["end"]), Routing::Exclusive),
            (json!({ "next": ["a", "b"] }), to(&["a", "b"]), Routing::Inclusive),
            (json!({ "next": [high, { "step": "low" }] }), guarded.clone(), Routing::Exclusive),
            (
                json!({ "next": [high, { "step": "low" }], "spec": { "next_mode": "Inclusive" } }),
                guarded.clone(),
                Routing::Inclusive,
            ),
            (json!({ "next": { "arcs": [high, { "step": "low" }] } }), guarded.clone(), Routing::Exclusive),
            (
                json!({ "next": { "spec": { "mode": "inclusive" }, "arcs": [high, { "step": "low" }] } }),
                guarded.clone(),
                Routing::Inclusive,
            ),
            (
                json!({ "next": { "spec": { "mode": "exclusive" }, "arcs": [high, { "step": "low" }] }, "spec": { "next_mode": "inclusive" } }),
                guarded.clone(),
                Routing::Exclusive,
            ),
            (
                json!({ "next": [{ "when": "{{ a > 5 }}", "then": [{ "step": "high" }] }, { "step": "low" }] }),
                guarded.clone(),
                Routing::Exclusive,
            ),
            (
                json!({ "next": [{ "when": "{{ a > 5 }}", "then": ["high", 5], "else": [{ "step": "low" }] }] }),
                guarded.clone(),
                Routing::Exclusive,
            ),
            (
                json!({ "next": [{ "when": "{{ a > 5 }}", "then": [{ "step": "high" }] }, { "else": [{ "step": "low" }] }] }),
                guarded,
                Routing::Exclusive,
            ),
            (json!({ "next": { "arcs": [{ "when": "true" }, 5, { "then": "x" }] } }), Vec::new(), Routing::Exclusive),
            (json!({ "next": 5 }), Vec::new(), Routing::Exclusive),
        ];
        for (mut step, transitions, routing) in cases {
            step["step"] = json!("start");
            let read = one(step.clone());
            assert_eq!((read.transitions, read.routing), (transitions, routing), "{step}");
        }
    }

    #[test]
    fn every_form_of_tool_gives_the_tools() {
        let python =
            |label: Option<&str>| Tool { label: label.map(str::to_owned), kind: "python".to_owned(), playbook: None };
        let child = Tool { label: None, kind: "playbook".to_owned(), playbook: Some("a/b".to_owned()) };
        let cases = [
            (json!({ "kind": "python", "code": "x" }), vec![python(None)]),
            (json!({ "kind": "playbook", "path": "a/b" }), vec![child]),
            (
                json!([{ "name": "one", "kind": "python" }, { "kind": "python" }]),
                vec![python(Some("one")), python(None)],
            ),
            (json!([{ "one": { "kind": "python" } }]), vec![python(Some("one"))]),
            (json!(["python", {}, { "one": 5 }]), Vec::new()),
            (json!("python"), Vec::new()),
        ];
        for (tool, tools) in cases {
            assert_eq!(one(json!({ "step": "start", "tool": tool })).tools, tools, "{tool}");
        }
    }

    #[test]
    fn description_condition_and_loop_are_read() {
        let read = one(json!({ "step": "start", "desc": "Begins.", "when": "{{ b }}",
            "loop": { "in": "{{ items }}", "iterator": "item", "spec": { "mode": "parallel" } } }));
        assert_eq!((read.description.as_deref(), read.condition.as_deref()), (Some("Begins."), Some("{{ b }}")));
        let repetition = read.repetition.unwrap();
        assert_eq!((repetition.iterator.as_deref(), repetition.items.as_deref()), (Some("item"), Some("{{ items }}")));
        let cases = [
            (json!({ "spec": { "mode": "parallel" } }), RepetitionMode::Parallel),
            (json!({}), RepetitionMode::Sequential),
            (json!({ "spec": {} }), RepetitionMode::Sequential),
            (json!({ "spec": { "mode": "sequential" } }), RepetitionMode::Sequential),
            (json!({ "spec": { "mode": "cursor" } }), RepetitionMode::Cursor),
            (json!({ "spec": { "mode": "async" } }), RepetitionMode::Unknown),
        ];
        for (repeated, mode) in cases {
            let read = one(json!({ "step": "start", "loop": repeated }));
            assert_eq!(read.repetition.unwrap().mode, mode, "{repeated}");
        }
    }

    #[test]
    fn steps_keep_their_order_and_other_values_are_left_out() {
        let read = steps(&json!([{ "step": "b" }, 5, { "step": 5 }, {}, { "step": "a" }]));
        assert_eq!(read.iter().map(|step| &*step.name).collect::<Vec<_>>(), ["b", "a"]);
        for other in [json!(null), json!({ "step": "a" }), json!("a")] {
            assert_eq!(steps(&other), []);
        }
    }
}
