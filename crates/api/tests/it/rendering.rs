//! Readers with equal selections share a text, which has the order of the selection.

use async_graphql::parser::parse_query;
use async_graphql::parser::types::DocumentOperations;
use async_graphql::{Name, Value, Variables};
use noetl_api::rendering;
use noetl_api::selection::Selection;
use plain_json::UNWRITTEN;

fn selection(query: &str, variables: &Variables) -> Selection {
    Selection::of(&parse_query(query).unwrap(), variables).unwrap()
}

#[test]
fn selection_ignores_the_alias_and_arguments_of_the_root_field() {
    let of = |query: &str, first: i32| {
        let variables = Variables::from_json(serde_json::json!({ "n": first }));
        selection(query, &variables)
    };
    let query = "subscription { events { a(first: $n) b } }";
    assert_eq!(of(query, 1), of("subscription Named($n: Int) { e: events(start: 7) { a(first: $n) b } }", 1));
    assert_ne!(of(query, 1), of(query, 2));
    assert_ne!(of(query, 1), of("subscription { events { x: a(first: $n) b } }", 1));
    assert_ne!(of("subscription { e { a { b } } }", 1), of("subscription { e { a b } }", 1));
    assert_ne!(of("subscription { e { ... on A { b } } }", 1), of("subscription { e { ... on B { b } } }", 1));
}

fn object(fields: &[(&str, Value)]) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (Name::new(name), value.clone())).collect())
}

#[test]
fn text_has_the_order_of_the_selection_of_its_type() {
    let query = "{ ... on A { x list { b a json } y } ... on B { y x } }";
    let DocumentOperations::Single(operation) = parse_query(query).unwrap().operations else { panic!("several") };
    let json = object(&[("z", 1.into()), ("y", 2.into())]);
    let list = Value::List(vec![object(&[("a", 1.into()), ("json", json), ("b", 2.into())])]);
    let of =
        |name: &str| object(&[("y", 3.into()), (UNWRITTEN, name.into()), ("list", list.clone()), ("x", Value::Null)]);
    let text = |name: &str| {
        String::from_utf8(rendering::text(&mut of(name), &operation.node.selection_set.node).unwrap()).unwrap()
    };
    assert_eq!(text("A"), r#"{"x":null,"list":[{"b":2,"a":1,"json":{"z":1,"y":2}}],"y":3}"#);
    assert_eq!(text("B"), r#"{"y":3,"x":null}"#);
}
