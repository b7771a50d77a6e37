//! Omitted values change nothing, and an invalid argument fails only its own root field. The requests are made from the
//! schema, so a new mutation, a new input field and a new root field are tested too.

use std::collections::BTreeMap;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    BaseType, FieldDefinition, InputObjectType, InputValueDefinition, Type, TypeDefinition, TypeKind,
    TypeSystemDefinition,
};
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};

/// Depth of the input fields that get a variable, such as `select.filter.statuses`.
const DEPTH: usize = 4;

struct Types(BTreeMap<String, TypeDefinition>);

impl Types {
    fn read() -> Self {
        let definitions = parse_schema(include_str!("../../schema.graphql")).unwrap().definitions.into_iter();
        let types = definitions.filter_map(|definition| match definition {
            TypeSystemDefinition::Type(definition) => Some((definition.node.name.node.to_string(), definition.node)),
            _ => None,
        });
        Self(types.collect())
    }

    fn fields(&self, root: &str) -> Vec<&FieldDefinition> {
        match &self.0[root].kind {
            TypeKind::Object(object) => object.fields.iter().map(|field| &field.node).collect(),
            _ => Vec::new(),
        }
    }

    fn input(&self, ty: &Type) -> Option<(&InputObjectType, bool)> {
        let definition = self.0.get(named(ty)?)?;
        let one_of = definition.directives.iter().any(|directive| directive.node.name.node == "oneOf");
        match &definition.kind {
            TypeKind::InputObject(object) => Some((object, one_of)),
            _ => None,
        }
    }

    fn is_composite(&self, ty: &Type) -> bool {
        let kind = named(ty).and_then(|name| self.0.get(name)).map(|definition| &definition.kind);
        matches!(kind, Some(TypeKind::Object(_) | TypeKind::Union(_) | TypeKind::Interface(_)))
    }

    /// Returns a root field with these arguments.
    fn call(&self, field: &FieldDefinition, arguments: &str) -> String {
        let arguments = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
        let selection = if self.is_composite(&field.ty.node) { " { __typename }" } else { "" };
        format!("{}{arguments}{selection}", field.name.node)
    }

    /// Returns the literal of the emptiest value of a type that the schema accepts.
    fn empty(&self, ty: &Type) -> String {
        let Some(name) = named(ty) else { return "[]".to_owned() };
        if let Some((object, one_of)) = self.input(ty) {
            let fields = object.fields.iter().map(|field| &field.node);
            let given: Vec<String> = if one_of {
                fields.take(1).map(|field| self.empty_field(field)).collect()
            } else {
                fields.filter(|field| is_required(field)).map(|field| self.empty_field(field)).collect()
            };
            return format!("{{ {} }}", given.join(" "));
        }
        match self.0.get(name).map(|definition| &definition.kind) {
            Some(TypeKind::Enum(values)) => values.values[0].node.value.node.to_string(),
            _ => match name {
                "Int" | "Float" => "0".to_owned(),
                "Boolean" => "false".to_owned(),
                "JSON" => "{}".to_owned(),
                _ => "\"\"".to_owned(),
            },
        }
    }

    fn empty_field(&self, field: &InputValueDefinition) -> String {
        format!("{}: {}", field.name.node, self.empty(&field.ty.node))
    }

    /// Returns the literals of an input object in which one field, at any depth, is the variable `$v`, with the type of
    /// that field. All other required fields are empty.
    fn with_a_variable(&self, ty: &Type, depth: usize) -> Vec<(String, Type)> {
        let Some((object, one_of)) = self.input(ty).filter(|_| depth > 0) else { return Vec::new() };
        let mut found = Vec::new();
        for field in object.fields.iter().map(|field| &field.node) {
            let others = object.fields.iter().map(|other| &other.node);
            let others = others.filter(|other| !one_of && other.name.node != field.name.node && is_required(other));
            let others: Vec<String> = others.map(|other| self.empty_field(other)).collect();
            let whole = |value: &str| format!("{{ {}: {value} {} }}", field.name.node, others.join(" "));
            found.push((whole("$v"), field.ty.node.clone()));
            let inner = self.with_a_variable(&field.ty.node, depth - 1);
            found.extend(inner.into_iter().map(|(value, ty)| (whole(&value), ty)));
        }
        found
    }

    /// Returns values of a type that the resolver refuses.
    fn invalid(&self, ty: &Type, depth: usize) -> Vec<String> {
        let Some(name) = named(ty) else {
            let BaseType::List(item) = &ty.base else { return Vec::new() };
            return self.invalid(item, depth).into_iter().map(|item| format!("[{item}]")).collect();
        };
        if let Some((object, _)) = self.input(ty).filter(|_| depth > 0) {
            let fields = object.fields.iter().map(|field| &field.node);
            let invalid = fields.flat_map(|field| {
                let values = self.invalid(&field.ty.node, depth - 1).into_iter();
                values.map(|value| format!("{{ {}: {value} }}", field.name.node))
            });
            return invalid.collect();
        }
        match name {
            "ID" => vec!["\"x\"".to_owned()],
            "Int" => vec!["-1".to_owned()],
            "String" => vec!["\"\\u0000\"".to_owned()],
            _ => Vec::new(),
        }
    }

    /// Returns a value of a type that the schema accepts.
    fn some(&self, ty: &Type) -> String {
        let Some(name) = named(ty) else {
            let BaseType::List(item) = &ty.base else { return String::new() };
            return format!("[{}]", self.some(item));
        };
        if let Some((object, _)) = self.input(ty) {
            let field = &object.fields[0].node;
            return format!("{{ {}: {} }}", field.name.node, self.some(&field.ty.node));
        }
        match (name, self.0.get(name).map(|definition| &definition.kind)) {
            (_, Some(TypeKind::Enum(values))) => values.values[0].node.value.node.to_string(),
            ("Int", _) => "1".to_owned(),
            ("Boolean", _) => "true".to_owned(),
            _ => "\"1\"".to_owned(),
        }
    }
}

/// Returns the name of a type; `None` for a list.
fn named(ty: &Type) -> Option<&str> {
    match &ty.base {
        BaseType::Named(name) => Some(name),
        BaseType::List(_) => None,
    }
}

fn is_required(field: &InputValueDefinition) -> bool {
    !field.ty.node.nullable && field.default_value.is_none()
}

/// Returns the empty value of a type as JSON; null if the type has none.
fn empty_json(types: &Types, ty: &Type) -> Value {
    match named(ty) {
        None => json!([]),
        Some("String" | "ID") => json!(""),
        Some("JSON") => json!({}),
        Some(_) if types.input(ty).is_some() => json!({}),
        Some(_) => Value::Null,
    }
}

/// Returns the requests of a mutation in which a value is undefined, null or empty.
fn omissions(types: &Types, mutation: &FieldDefinition) -> Vec<(String, Value)> {
    let mut requests = Vec::new();
    for argument in mutation.arguments.iter().map(|argument| &argument.node) {
        let (name, ty) = (&argument.name.node, &argument.ty.node);
        let mut add = |value: &str, ty: &Type| {
            let nullable = Type { nullable: true, ..ty.clone() };
            let declared: &[&Type] = if ty.nullable { &[ty] } else { &[ty, &nullable] };
            for declared in declared {
                let call = types.call(mutation, &format!("{name}: {value}"));
                let query = format!("mutation($v: {declared}) {{ {call} }}");
                for variables in [json!({}), json!({ "v": null }), json!({ "v": empty_json(types, ty) })] {
                    requests.push((query.clone(), variables));
                }
            }
        };
        add("$v", ty);
        for (value, ty) in types.with_a_variable(ty, DEPTH) {
            add(&value, &ty);
        }
        requests.push((
            format!("mutation {{ {} }}", types.call(mutation, &format!("{name}: {}", types.empty(ty)))),
            json!({}),
        ));
    }
    requests.push((format!("mutation {{ {} }}", types.call(mutation, "")), json!({})));
    requests
}

/// Starts a replica with objects that every bulk mutation could change.
async fn replica(deployment: &Deployment) -> Server {
    let server = deployment.replica_with(&QUIET).await;
    server.register_entry("run", &json!({ "kind": "playbook" })).await;
    for path in ["inbox/1", "inbox/2"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
        server.register(path).await;
        server.execute(json!({ "path": "run" })).await;
    }
    deployment.fill_outbox(0, &[1, 2], 2).await;
    let dead =
        "UPDATE noetl.outbox SET status = 'FAILED', attempts = 20, available_at = 'infinity' WHERE execution_id = 1";
    deployment.on_shard(0, dead).await;
    server
}

#[tokio::test]
async fn omitted_values_change_nothing_in_any_mutation() {
    let types = Types::read();
    let deployment = Deployment::start(2).await;
    let server = replica(&deployment).await;
    let before = deployment.table_digests().await;
    let mut sent = 0;
    for mutations in types.fields("Mutation").chunks(6) {
        for (query, variables) in mutations.iter().flat_map(|mutation| omissions(&types, mutation)) {
            server.send(&query, variables).await.unwrap();
            sent += 1;
        }
        let names: Vec<&str> = mutations.iter().map(|mutation| mutation.name.node.as_str()).collect();
        assert_eq!(deployment.table_digests().await, before, "one of {names:?} changed the databases");
    }
    assert!(sent > 500, "only {sent} requests were made");
}

/// Root fields whose failure hides their siblings.
const NOT_NULLABLE: [&str; 2] = ["executions", "cancelExecution"];

/// Returns the calls of a root field with one invalid argument.
fn invalid_calls(types: &Types, field: &FieldDefinition) -> Vec<String> {
    let mut calls = Vec::new();
    for invalid in field.arguments.iter().map(|argument| &argument.node) {
        let others = field.arguments.iter().map(|argument| &argument.node);
        let others = others.filter(|other| other.name.node != invalid.name.node && is_required(other));
        let others: Vec<String> =
            others.map(|other| format!("{}: {}", other.name.node, types.some(&other.ty.node))).collect();
        for value in types.invalid(&invalid.ty.node, 1) {
            let arguments = format!("{}: {value} {}", invalid.name.node, others.join(" "));
            calls.push(types.call(field, &arguments));
        }
    }
    calls
}

#[tokio::test]
async fn an_invalid_argument_of_a_root_field_does_not_hide_its_sibling() {
    let types = Types::read();
    for root in ["Query", "Mutation"] {
        for field in types.fields(root) {
            let name = field.name.node.as_str();
            assert!(field.ty.node.nullable || NOT_NULLABLE.contains(&name), "{root}.{name} is not nullable");
        }
    }
    let deployment = Deployment::start(1).await;
    let server = replica(&deployment).await;
    let (mut wrong, mut tested) = (Vec::new(), 0);
    for field in types.fields("Query").into_iter().filter(|field| field.ty.node.nullable) {
        let calls = invalid_calls(&types, field);
        let mut refused = 0;
        for call in &calls {
            let response =
                server.send(&format!("{{ good: server {{ version }} bad: {call} }}"), json!({})).await.unwrap();
            if response["errors"][0]["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED" {
                continue;
            }
            if !response["data"]["good"]["version"].is_string() {
                wrong.push(format!("{call}: {response}"));
            }
            if response.get("errors").is_some() {
                refused += 1;
                if response["errors"][0]["path"][0] != "bad" || !response["data"]["bad"].is_null() {
                    wrong.push(format!("{call}: {response}"));
                }
            }
        }
        tested += usize::from(refused > 0);
    }
    assert!(tested >= 8, "an argument of only {tested} root fields was refused");
    for field in types.fields("Mutation").into_iter().filter(|field| field.ty.node.nullable) {
        let argument = &field.arguments[0].node;
        let bad = types.call(field, &format!("{}: {}", argument.name.node, types.empty(&argument.ty.node)));
        let good = "advanceProjections(input: { executionIds: [\"1\"] }) { results { index } }";
        let response = server.send(&format!("mutation {{ bad: {bad} good: {good} }}"), json!({})).await.unwrap();
        if response["data"]["good"]["results"][0]["index"] != 0 {
            wrong.push(format!("{bad}: {response}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
