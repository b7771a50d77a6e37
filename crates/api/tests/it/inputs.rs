//! Inputs are read completely, and become values that can be stored.

use async_graphql::indexmap::IndexMap;
use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use async_graphql::{InputType, Name, Value, value};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use noetl_api::event::inputs::EventFilter;
use noetl_api::event::project_events::ProjectEvents;
use noetl_api::moved_input::Moved;
use noetl_api::schema::sdl;

type Fields = IndexMap<Name, Value>;

/// Returns a valid value for each field of an input type.
fn valid_fields(name: &str) -> Fields {
    let mut definitions = parse_schema(sdl()).unwrap().definitions.into_iter();
    let kind = definitions.find_map(|definition| match definition {
        TypeSystemDefinition::Type(definition) if definition.node.name.node == name => Some(definition.node.kind),
        _ => None,
    });
    let Some(TypeKind::InputObject(object)) = kind else { panic!("{name} is no input object") };
    let value = |ty: &str| match ty {
        _ if ty.starts_with('[') => Value::List(Vec::new()),
        "ID!" | "String!" => Value::from("1"),
        _ => Value::Null,
    };
    object.fields.iter().map(|field| (field.node.name.node.clone(), value(&field.node.ty.to_string()))).collect()
}

/// Returns the fields with another value of one of them.
fn with(fields: &Fields, name: &str, value: Value) -> Fields {
    let mut fields = fields.clone();
    fields.insert(Name::new(name), value);
    fields
}

#[test]
fn every_field_of_the_input_is_read() {
    let (batch, event) = (valid_fields("ProjectEventsInput"), valid_fields("EventInput"));
    let batch_of = |event: Fields| with(&batch, "events", Value::List(vec![Value::Object(event)]));
    let is_accepted = |batch: Fields| Moved::<ProjectEvents>::parse(Some(Value::Object(batch))).is_ok();
    assert!(is_accepted(batch_of(event.clone())));
    // No type has this value, so a field with it is accepted only if it is not read.
    let invalid = || Value::Binary(Bytes::from_static(b"\xff"));
    let of_batch = batch.keys().filter(|name| is_accepted(with(&batch, name, invalid())));
    let of_event = event.keys().filter(|name| is_accepted(batch_of(with(&event, name, invalid()))));
    let unread: Vec<&Name> = of_batch.chain(of_event).collect();
    assert!(unread.is_empty(), "{unread:?}");
}

#[test]
fn bounds_of_times_are_rounded_up_and_within_the_years_that_can_be_stored() {
    let bound = |text: &str| {
        let input = <EventFilter as InputType>::parse(Some(value!({ "createdAfter": (text) }))).unwrap();
        input.parse().unwrap().created_after.unwrap().to_rfc3339()
    };
    assert_eq!(bound("2026-01-31T12:00:00.000001Z"), "2026-01-31T12:00:00.000001+00:00");
    assert_eq!(bound("2026-01-31T12:00:00.000001001Z"), "2026-01-31T12:00:00.000002+00:00");
    assert_eq!(bound(&DateTime::<Utc>::MAX_UTC.to_rfc3339()), "+10000-01-01T00:00:00+00:00");
    assert_eq!(bound(&DateTime::<Utc>::MIN_UTC.to_rfc3339()), "0001-01-01T00:00:00+00:00");
}
