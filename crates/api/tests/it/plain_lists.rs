//! A list has the same values whether it is written at once or resolved field by field. A fragment makes the executor
//! resolve a list; the transport would have removed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{BaseType, TypeDefinition, TypeKind, TypeSystemDefinition};
use async_graphql::{EmptyMutation, EmptySubscription, Object, Request, Response, Schema, ServerError, Value};
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt;
use noetl_api::catalog::types::CatalogEntry;
use noetl_api::event::types::{Event, EventConnection, EventList};
use noetl_api::execution::current::CurrentExecution;
use noetl_api::execution::state::Step;
use noetl_api::execution::types::Execution;
use noetl_api::outbox::types::OutboxEntry;
use noetl_api::plain::Items;
use noetl_api::schema::sdl;
use noetl_api::subscription::types::SourceSubscription;
use noetl_auth::principal::{Principal, Role};
use noetl_domain::event;
use noetl_domain::event_list::LogFilter;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::lifecycle::State;
use noetl_domain::outbox::OutboxId;
use noetl_domain::page::Page;
use noetl_domain::tenant::{Scope, Tenancy};
use noetl_domain::workflow::{End, WorkflowState};
use noetl_storage::budget::{Budget, BudgetLimits};
use noetl_storage::catalog;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::outbox::OutboxRow;
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::outbox::ListedRow;
use plain_json::Text;

/// Types of the items, with the fields without arguments and objects that are not plain: they need other rows, or are
/// lists. `shard` needs the deployment, which this test does not have.
const TYPES: [(&str, &str); 6] = [
    ("CatalogEntry", "archivedAt archivedBy description document labels name registeredBy workload"),
    ("Event", "shard"),
    ("Execution", "cancelledBy context error eventCount executionPool result shard startedBy workload"),
    ("OutboxEntry", ""),
    ("SourceSubscription", "availableActions executionPool shard"),
    ("Step", "result"),
];

struct Lists;

#[Object]
impl Lists {
    #[graphql(name = "listOfCatalogEntry")]
    async fn entries(&self) -> Items<Vec<CatalogEntry>> {
        let entry = |kind: &str| {
            CatalogEntry::from(Arc::new(catalog::CatalogEntry {
                catalog_id: 3,
                path: odd(),
                version: 1,
                kind: kind.to_owned(),
                content: None,
                created_at: at(0),
            }))
        };
        Items(vec![entry("playbook"), entry("Subscription"), entry("other")])
    }

    #[graphql(name = "listOfEvent")]
    async fn events(&self) -> Items<Vec<Event>> {
        Items(event_rows().into_iter().map(|event| Event(Arc::new(event))).collect())
    }

    async fn events_by_cursor(&self) -> EventConnection {
        let list = EventList { execution: None, filter: LogFilter::default(), scope: Scope::Unrestricted };
        let page = Page { items: event_rows(), has_next: true, has_previous: false };
        let cursor = |event: &Event| format!("after {}", event.0.event_id);
        EventConnection::new(list, page, vec![1], |event| Event(Arc::new(event)), cursor)
    }

    #[graphql(name = "listOfExecution")]
    async fn executions(&self) -> Items<Vec<Execution>> {
        let ended = |event_type: &str| {
            let end = End { at: at(3), event_type: event_type.to_owned(), error: None, failed: false };
            Execution::unread(execution("RUNNING")).with_end(end)
        };
        Items(vec![
            Execution::of_row(execution("COMPLETED")),
            Execution::of_row(ExecutionRow { start_time: None, catalog_id: 0, ..execution("cancelled") }),
            Execution::as_read(CurrentExecution { row: execution("PENDING"), state: None }),
            Execution::of_row(execution("of another server")),
            ended("playbook.failed"),
            ended("playbook.completed"),
        ])
    }

    /// Executions whose states have to be read.
    async fn open_executions(&self) -> Items<Vec<Execution>> {
        Items(vec![Execution::unread(execution("COMPLETED")), Execution::unread(execution("RUNNING"))])
    }

    async fn no_executions(&self) -> Items<Vec<Execution>> {
        Items(Vec::new())
    }

    #[graphql(name = "listOfOutboxEntry")]
    async fn outbox(&self) -> Items<Vec<OutboxEntry>> {
        let entry = |state: &str, payload: Option<&str>| {
            OutboxEntry(ListedRow {
                id: OutboxId { shard: 7, number: 1 },
                row: OutboxRow {
                    outbox_id: 1,
                    execution_id: payload.map(|_| 1),
                    event_id: 2,
                    subject: payload.map(|_| odd()),
                    payload: payload.map(|payload| Text::new(payload).unwrap()),
                    payload_codec: "json".to_owned(),
                    state: state.to_owned(),
                    status: "FAILED".to_owned(),
                    attempts: 1,
                    available_at: at(0),
                    lease_until: payload.map(|_| at(1)),
                    claimant: payload.map(|_| odd()),
                    last_error: payload.map(|_| odd()),
                    created_at: at(2),
                    published_at: payload.map(|_| at(3)),
                    tenant_id: odd(),
                    organization_id: "default".to_owned(),
                },
            })
        };
        let message = Some(r#"{"a":[1.0,"\u0001",null]}"#);
        Items(vec![
            entry("PENDING", None),
            entry("IN_FLIGHT", message),
            entry("IN_FLIGHT", None),
            entry("DEAD", Some("null")),
            entry("?", message),
        ])
    }

    #[graphql(name = "listOfSourceSubscription")]
    async fn subscriptions(&self) -> Items<Vec<SourceSubscription>> {
        let subscription = |state: State| {
            SourceSubscription::from(SubscriptionRow {
                id: Id::new(4),
                path: odd(),
                catalog_id: Id::new(3),
                state,
                state_text: "ACTIVE".to_owned(),
                last_event_id: Id::new(i64::MAX),
                last_event_type: "subscription.activated".to_owned(),
                registered_at: at(1),
                updated_at: at(2),
                tenancy: Tenancy::default(),
                labels: Labels::default(),
            })
        };
        Items(vec![subscription(State::Active), subscription(State::Deactivated)])
    }

    #[graphql(name = "listOfStep")]
    async fn steps(&self) -> Items<Vec<Step>> {
        let mut state = WorkflowState::default();
        for (step, event_type) in [
            ("one", "step.enter"),
            ("two", "step.enter"),
            ("two", "call.error"),
            ("three", "step.enter"),
            ("three", "command.started"),
            ("three", "step.exit"),
        ] {
            let (node_name, error) = (Some(step.to_owned()), Some(odd()));
            let bare = event::Event::bare(Id::new(1), Id::new(2), Id::new(3), event_type, at(1));
            state.fold(&event::Event { node_name, error, ..bare });
        }
        Items(state.steps().into_iter().map(|(name, step)| Step::new(name, step)).collect())
    }
}

/// Returns a text that JSON has to escape.
fn odd() -> String {
    "a \"b\"\\ \u{1}\u{2028} ü".to_owned()
}

/// Returns a time whose fraction has a number of parts of three digits.
fn at(parts: u32) -> DateTime<Utc> {
    let fraction = [0, 120_000_000, 123_400_000, 1][parts as usize];
    DateTime::from_timestamp(1_790_000_000, 0).unwrap() + TimeDelta::nanoseconds(fraction)
}

fn execution(status: &str) -> ExecutionRow {
    ExecutionRow {
        last_event_id: None,
        execution_id: i64::MAX,
        catalog_id: 3,
        parent_execution_id: Some(4),
        status: status.to_owned(),
        path: Some(odd()),
        start_time: Some(at(1)),
        end_time: (status == "COMPLETED").then(|| at(2)),
        tenant_id: odd(),
        organization_id: "default".to_owned(),
        execution_pool: None,
        rerun_of: None,
        failed_steps: (status == "COMPLETED").then_some(1),
        labels: None,
    }
}

fn event_rows() -> Vec<event::Event<Text>> {
    let bare = |catalog| event::Event::bare(Id::new(1), Id::new(2), Id::new(catalog), "step.enter", at(3));
    let full = event::Event {
        parent_event_id: Some(Id::new(5)),
        parent_execution_id: Some(Id::new(6)),
        node_id: Some(odd()),
        node_name: Some("one".to_owned()),
        node_type: Some("http".to_owned()),
        status: Some("COMPLETED".to_owned()),
        duration: Some(1.25),
        context: Some(Text::new(r#"{"a": 1.0}"#).unwrap()),
        result: Some(Text::new("[1e100, \"ü\"]").unwrap()),
        meta: Some(Text::new("null").unwrap()),
        error: Some(odd()),
        stack_trace: Some(odd()),
        ..bare(3)
    };
    vec![bare(0), full]
}

/// Returns the fields of a type without arguments that are no objects.
fn leaves(name: &str) -> BTreeSet<String> {
    let definitions = parse_schema(sdl()).unwrap().definitions.into_iter();
    let types: BTreeMap<String, TypeDefinition> = definitions
        .filter_map(|definition| match definition {
            TypeSystemDefinition::Type(definition) => Some((definition.node.name.node.to_string(), definition.node)),
            _ => None,
        })
        .collect();
    let TypeKind::Object(object) = &types[name].kind else { panic!("{name} is no object") };
    let is_leaf = |mut base: &BaseType| {
        while let BaseType::List(item) = base {
            base = &item.base;
        }
        let BaseType::Named(name) = base else { return false };
        types.get(name.as_str()).is_none_or(|of| matches!(of.kind, TypeKind::Scalar | TypeKind::Enum(_)))
    };
    let fields = object.fields.iter().map(|field| &field.node);
    let leaves = fields.filter(|field| field.arguments.is_empty() && is_leaf(&field.ty.node.base));
    leaves.map(|field| field.name.node.to_string()).collect()
}

fn ask(query: &str, roles: &[Role]) -> Response {
    let schema = Schema::new(Lists, EmptyMutation, EmptySubscription);
    let request = Request::new(query).data(Arc::new(Principal::new("ann", roles)));
    schema.execute(request).now_or_never().expect("no field waits")
}

/// Returns whether the list `a` was written at once. Panics unless the response has the same lists `a` and `b`, with the
/// same errors.
fn compare(query: &str, mut response: Response) -> bool {
    let errors = |list: &str| -> Vec<String> {
        let of_list = |error: &&ServerError| serde_json::to_value(&error.path).unwrap()[0] == list;
        let text = |error: &ServerError| format!("{} {:?}", error.message, &error.path[1..]);
        let mut errors: Vec<String> = response.errors.iter().filter(of_list).map(text).collect();
        errors.sort();
        errors
    };
    assert_eq!(errors("a"), errors("b"), "{query}");
    let Value::Object(data) = &mut response.data else { panic!("{query}: {response:?}") };
    let (one, other) = (data.swap_remove("a").unwrap(), data.swap_remove("b").unwrap());
    let json = |value: &Value| {
        let mut text = Vec::new();
        plain_json::append(value, &mut text).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
    };
    assert_eq!(json(&one), json(&other), "{query}");
    assert!(!matches!(other, Value::Binary(_)), "{query}");
    matches!(one, Value::Binary(_))
}

#[test]
fn a_list_has_the_same_values_whether_it_is_written_at_once_or_resolved() {
    for (name, not_plain) in TYPES {
        let not_plain: BTreeSet<String> = not_plain.split_whitespace().map(str::to_owned).collect();
        let leaves = leaves(name);
        assert!(not_plain.is_subset(&leaves), "{name}: {leaves:?}");
        for roles in [&[Role::Viewer][..], &[]] {
            for field in leaves.iter().map(String::as_str).chain(["__typename"]) {
                let fields = format!("{field} again: {field}");
                let query =
                    format!("{{ a: listOf{name} {{ {fields} }} b: listOf{name} {{ ... on {name} {{ {fields} }} }} }}");
                let response = ask(&query, roles);
                let refused = response.errors.iter().any(|error| error.message.contains("capability"));
                let written = compare(&query, response);
                assert_eq!(written, !refused && !not_plain.contains(field), "{query}");
            }
        }
        let plain: Vec<String> = leaves.difference(&not_plain).cloned().collect();
        let fields = plain.join(" ");
        let query = format!("{{ a: listOf{name} {{ {fields} }} b: listOf{name} {{ ... on {name} {{ {fields} }} }} }}");
        assert!(compare(&query, ask(&query, &[Role::Viewer])), "{query}");
    }
}

#[test]
fn edges_are_written_with_their_cursors_and_items() {
    let edge = "cursor node { id type again: type context __typename } __typename";
    let query = format!(
        "{{ eventsByCursor {{ a: edges {{ {edge} }} b: edges {{ ... on EventEdge {{ {edge} }} }}
            pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} unavailableShards }} }}"
    );
    let mut response = ask(&query, &[Role::Viewer]);
    let Value::Object(data) = &mut response.data else { panic!("{response:?}") };
    let connection = data.swap_remove("eventsByCursor").unwrap();
    let Value::Object(fields) = &connection else { panic!("{connection}") };
    let page = fields["pageInfo"].clone().into_json().unwrap();
    let expected = serde_json::json!({
        "hasNextPage": true, "hasPreviousPage": false, "startCursor": "after 2", "endCursor": "after 2"
    });
    assert_eq!((page, fields["unavailableShards"].to_string()), (expected, "[1]".to_owned()));
    let Value::Binary(text) = &fields["a"] else { panic!("{connection}") };
    let first = r#"[{"cursor":"after 2","node":{"id":"event-1-2","type":"step.enter","again":"step.enter","context":null,"__typename":"Event"},"__typename":"EventEdge"},{"#;
    assert!(text.starts_with(first.as_bytes()), "{text:?}");
    response.data = connection;
    assert!(compare(&query, response));
    // A field of the item that is not plain.
    let query = query.replace("cursor node {", "cursor node { shard");
    let response = ask(&query, &[Role::Viewer]);
    let Value::Object(data) = &response.data else { panic!("{response:?}") };
    assert!(!matches!(&data["eventsByCursor"], Value::Object(fields) if matches!(fields["a"], Value::Binary(_))));
}

#[test]
fn a_list_with_a_value_that_has_to_be_read_is_resolved() {
    let both = |list: &str, fields: &str| {
        let query = format!("{{ a: {list} {{ {fields} }} b: {list} {{ ... on Execution {{ {fields} }} }} }}");
        compare(&query, ask(&query, &[Role::Viewer]))
    };
    assert!(both("openExecutions", "id path startedAt"));
    for field in ["status", "statusText", "endedAt", "durationSeconds"] {
        assert!(!both("openExecutions", field), "{field}");
    }
    assert!(both("noExecutions", "id status events { nodes { id } }"));
}

#[test]
fn a_list_that_exceeds_the_response_limit_is_not_written() {
    let ask_within = |response_bytes: u64| {
        let budget = Budget::new(BudgetLimits { response_bytes, ..BudgetLimits::default() }, None);
        let response = budget.enter(|| ask("{ list: listOfEvent { context result } }", &[Role::Viewer]));
        (response, budget.check())
    };
    let (response, _) = ask_within(u64::MAX);
    let Value::Object(data) = &response.data else { panic!("{response:?}") };
    let Value::Binary(text) = &data["list"] else { panic!("{response:?}") };
    let size = text.len() as u64;
    assert!(ask_within(size).0.errors.is_empty());
    let (response, exceeded) = ask_within(size / 2);
    assert_eq!(response.errors.len(), 1, "{response:?}");
    assert_eq!(serde_json::to_value(&response.errors[0].path).unwrap(), serde_json::json!(["list"]));
    assert!(exceeded.is_err(), "a query that exceeds a limit ends");
}
