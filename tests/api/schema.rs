//! The exported schema equals the served one, describes every element, and has the shapes that Relay clients expect.

use std::collections::BTreeMap;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{
    FieldDefinition, InputValueDefinition, TypeDefinition, TypeKind, TypeSystemDefinition,
};
use noetl_testkit::{Deployment, binary};
use serde_json::{Value, json};

fn exported() -> &'static str {
    include_str!("../../schema.graphql")
}

fn types() -> Vec<TypeDefinition> {
    let document = parse_schema(exported()).unwrap();
    let types = document.definitions.into_iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Type(definition) => Some(definition.node),
        _ => None,
    });
    types.collect()
}

fn fields(definition: &TypeDefinition) -> Vec<&FieldDefinition> {
    match &definition.kind {
        TypeKind::Object(object) => object.fields.iter().map(|field| &field.node).collect(),
        TypeKind::Interface(interface) => interface.fields.iter().map(|field| &field.node).collect(),
        _ => Vec::new(),
    }
}

/// Returns name and type of each field, such as `nodes: [Execution!]!`.
fn signatures(definition: &TypeDefinition) -> Vec<String> {
    fields(definition).iter().map(|field| format!("{}: {}", field.name.node, field.ty.node)).collect()
}

#[test]
fn the_exported_schema_equals_the_served_schema() {
    let output = std::process::Command::new(binary()).arg("schema").output().unwrap();
    assert!(output.status.success());
    let served = String::from_utf8(output.stdout).unwrap();
    assert!(served == exported(), "schema.graphql is out of date; run `make schema` and check the difference");
}

#[tokio::test]
async fn introspection_says_which_inputs_take_exactly_one_of_their_fields() {
    let deployment = Deployment::start(0).await;
    let server = deployment.replica().await;
    let mut data = server.data("{ __schema { types { kind name isOneOf } } }", Value::Null).await;
    let served = data["__schema"]["types"].as_array_mut().unwrap();
    let inputs = served.iter_mut().filter(|one| one["kind"] == "INPUT_OBJECT");
    let found: BTreeMap<String, Value> =
        inputs.map(|one| (one["name"].as_str().unwrap().to_owned(), one["isOneOf"].take())).collect();
    let inputs = types().into_iter().filter(|definition| matches!(definition.kind, TypeKind::InputObject(_)));
    let declared: BTreeMap<String, Value> = inputs
        .map(|definition| {
            let is_one_of = definition.directives.iter().any(|directive| directive.node.name.node == "oneOf");
            (definition.name.node.to_string(), json!(is_one_of))
        })
        .collect();
    assert!(declared.values().any(|is_one_of| *is_one_of == true), "{declared:?}");
    assert_eq!(found, declared);
}

#[test]
fn every_element_is_described() {
    let mut bare = Vec::new();
    let mut look = |path: String, described: bool| {
        if !described {
            bare.push(path);
        }
    };
    let input =
        |of: &str, value: &InputValueDefinition| (format!("{of}.{}", value.name.node), value.description.is_some());
    for definition in types() {
        let name = definition.name.node.as_str();
        look(name.to_owned(), definition.description.is_some());
        for field in fields(&definition) {
            let of = format!("{name}.{}", field.name.node);
            for argument in &field.arguments {
                let (path, described) = input(&of, &argument.node);
                look(path, described);
            }
            look(of, field.description.is_some());
        }
        match &definition.kind {
            TypeKind::Enum(values) => {
                for value in &values.values {
                    look(format!("{name}.{}", value.node.value.node), value.node.description.is_some());
                }
            }
            TypeKind::InputObject(object) => {
                for value in &object.fields {
                    let (path, described) = input(name, &value.node);
                    look(path, described);
                }
            }
            _ => {}
        }
    }
    assert!(bare.is_empty(), "without a description: {bare:#?}");
}

/// A field with arguments can be refused, and its siblings must still return their data.
#[test]
fn every_field_with_arguments_is_nullable() {
    let all = types();
    let objects = all.iter().filter(|definition| definition.name.node != "Subscription");
    let with_arguments = objects.flat_map(|definition| {
        let fields = fields(definition).into_iter().filter(|field| !field.arguments.is_empty());
        fields.map(|field| format!("{}.{}: {}", definition.name.node, field.name.node, field.ty.node))
    });
    let found: Vec<String> = with_arguments.collect();
    assert!(found.len() > 30, "{found:?}");
    let required: Vec<&String> = found.iter().filter(|field| field.ends_with('!')).collect();
    assert!(required.is_empty(), "{required:#?}");
}

#[test]
fn every_list_has_the_shape_of_a_relay_connection() {
    let all = types();
    let find = |name: &str| all.iter().find(|definition| definition.name.node == name);
    let connections: Vec<_> = all.iter().filter(|definition| definition.name.node.ends_with("Connection")).collect();
    assert!(connections.len() >= 4, "{connections:?}");
    for connection in connections {
        let name = connection.name.node.strip_suffix("Connection").unwrap();
        let has = signatures(connection);
        let wanted = ["pageInfo: PageInfo!".to_owned(), format!("edges: [{name}Edge!]!"), format!("nodes: [{name}!]!")];
        for signature in wanted.iter().chain([&"unavailableShards: [Int!]!".to_owned()]) {
            let local = name == "CatalogEntry" && signature.starts_with("unavailable");
            assert!(local || has.contains(signature), "{name}Connection lacks {signature}: {has:?}");
        }
        let edge = signatures(find(&format!("{name}Edge")).expect("the edge type"));
        for signature in ["cursor: String!".to_owned(), format!("node: {name}!")] {
            assert!(edge.contains(&signature), "{name}Edge lacks {signature}: {edge:?}");
        }
    }
    let page_info = signatures(find("PageInfo").unwrap());
    for signature in ["hasNextPage: Boolean!", "hasPreviousPage: Boolean!", "startCursor: String", "endCursor: String"]
    {
        assert!(page_info.iter().any(|has| has == signature), "{page_info:?}");
    }
    for definition in &all {
        for field in fields(definition)
            .into_iter()
            .filter(|field| field.ty.node.to_string().trim_end_matches('!').ends_with("Connection"))
        {
            let arguments: Vec<String> =
                field.arguments.iter().map(|one| format!("{}: {}", one.node.name.node, one.node.ty.node)).collect();
            for argument in ["first: Int", "after: String", "last: Int", "before: String"] {
                assert!(
                    arguments.iter().any(|has| has == argument),
                    "{}.{} lacks {argument}: {arguments:?}",
                    definition.name.node,
                    field.name.node
                );
            }
        }
    }
}

#[test]
fn no_type_is_a_union() {
    let unions = types().into_iter().filter(|definition| matches!(definition.kind, TypeKind::Union(_)));
    let unions: Vec<String> = unions.map(|definition| definition.name.node.to_string()).collect();
    assert!(unions.is_empty(), "{unions:?}");
}

/// Elsewhere, an id is named by its object, such as `executionId`.
#[test]
fn only_nodes_and_their_lookups_have_a_plain_id() {
    let mut lookups = Vec::new();
    for definition in types() {
        let name = definition.name.node.as_str();
        let is_node = match &definition.kind {
            TypeKind::Object(object) => object.implements.iter().any(|interface| interface.node == "Node"),
            _ => name == "Node",
        };
        for field in fields(&definition) {
            assert!(is_node || field.name.node != "id", "{name}.id");
            if field.arguments.iter().any(|argument| argument.node.name.node == "id") {
                lookups.push(format!("{name}.{}", field.name.node));
            }
        }
        if let TypeKind::InputObject(object) = &definition.kind
            && object.fields.iter().any(|field| field.node.name.node == "id")
        {
            lookups.push(name.to_owned());
        }
    }
    lookups.sort();
    assert_eq!(lookups, ["CatalogEntryKey", "Query.execution", "Query.node", "SubscriptionKey"]);
}

/// Ids have the type `ID` and positions `BigInt`, because JavaScript would round 64-bit numbers.
#[test]
fn every_field_named_id_has_the_type_id() {
    for definition in types() {
        for field in fields(&definition) {
            let (name, of) = (field.name.node.as_str(), field.ty.node.to_string());
            let is_id = name == "id" || name.ends_with("Id");
            // The machine id has only 10 bits. The ids of nodes, tenants and organizations are names.
            let plain = ["machineId", "nodeId", "tenantId", "organizationId"].contains(&name);
            assert!(!is_id || plain || of.starts_with("ID"), "{}.{name}: {of}", definition.name.node);
        }
    }
}
