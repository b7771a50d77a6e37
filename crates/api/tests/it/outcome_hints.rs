//! Every mutation says how to find out its outcome.

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use noetl_api::outcome_hint::outcome_hint;
use noetl_api::schema::sdl;

#[test]
fn every_mutation_has_an_outcome_hint() {
    let document = parse_schema(sdl()).unwrap();
    let types = document.definitions.into_iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Type(definition) if definition.node.name.node == "Mutation" => Some(definition.node),
        _ => None,
    });
    let mutations: Vec<_> = types
        .flat_map(|definition| match definition.kind {
            TypeKind::Object(object) => object.fields,
            _ => Vec::new(),
        })
        .map(|field| field.node.name.node.to_string())
        .collect();
    assert!(mutations.len() >= 17, "{mutations:?}");
    let bare: Vec<_> = mutations.iter().filter(|field| outcome_hint(field).is_none()).collect();
    assert!(bare.is_empty(), "{bare:?}");
}
