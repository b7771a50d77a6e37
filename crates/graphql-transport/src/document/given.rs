//! Reads the values of an operation's variables from the text of the request, along the types of the schema.
//!
//! The value of a scalar that is carried as text ([`TypeSystem::with_carried_scalar`]) is not parsed: it becomes a binary
//! value that shares the memory of the request. Every other value becomes a tree. Values are not checked here: a value
//! that does not fit its type becomes a tree too, and [`super::variables`] refuses it.
//!
//! A tree can take more than 70 bytes for a value of two bytes, so the number of values is limited by the length of the text.

use std::cell::Cell;
use std::fmt;

use apollo_compiler::Node;
use apollo_compiler::ast::{Document, OperationDefinition, OperationType, Type, VariableDefinition};
use async_graphql::indexmap::IndexMap;
use async_graphql::{Name, Value, Variables};
use bytes::Bytes;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;

use super::Selected;
use super::types::TypeSystem;
use crate::given_variables::GivenVariables;
use crate::limits::Limits;
use crate::operation_error::{Limit, OperationError};
use plain_json as json;

/// Length of text, in bytes, for which one more value is allowed than [`Limits::values`].
const BYTES_FOR_A_VALUE: usize = 16;

/// Reads the variables of the selected operation. Values that it does not declare are skipped.
pub(super) fn read(
    given: &GivenVariables,
    syntax: &Document,
    selected: Selected<'_>,
    types: &TypeSystem,
    limits: &Limits,
) -> Result<Variables, OperationError> {
    let Some(text) = given.text() else { return Ok(Variables::default()) };
    let operation = operation(syntax, selected.operation);
    let definitions = operation.map_or(&[][..], |operation| &operation.variables);
    // A subscription can keep its variables for long, so they must not keep the whole request in memory.
    let is_live = operation.is_some_and(|operation| operation.operation_type == OperationType::Subscription);
    let allowed = (limits.values + text.len() / BYTES_FOR_A_VALUE) as u64;
    let source = Source { text, types, shared: !is_live, allowed, count: Cell::new(0) };
    let read = json::read_with(text, TypedVariables { source: &source, definitions });
    read.map_err(|error| {
        let exceeded = Limit::Values.check(source.count.get(), allowed).err();
        exceeded.unwrap_or_else(|| OperationError::rule(format!("The variables can't be read: {error}."), []))
    })
}

/// Returns the selected operation. If the selection is wrong, the document is refused later.
fn operation<'a>(syntax: &'a Document, name: Option<&str>) -> Option<&'a Node<OperationDefinition>> {
    let mut operations = syntax.definitions.iter().filter_map(|definition| definition.as_operation_definition());
    operations.find(|operation| name.is_none() || operation.name.as_deref() == name)
}

/// The text of the variables, and the types along which it is read.
struct Source<'a> {
    text: &'a Bytes,
    types: &'a TypeSystem,
    /// Whether the values share the memory of the text.
    shared: bool,
    /// Largest number of values.
    allowed: u64,
    /// Number of values that were read.
    count: Cell<u64>,
}

impl Source<'_> {
    /// Returns the value of a scalar that is carried as text.
    fn carried(&self, text: &str) -> Value {
        match text {
            "null" => Value::Null,
            text if self.shared => Value::Binary(self.text.slice_ref(text.as_bytes())),
            text => Value::Binary(Bytes::copy_from_slice(text.as_bytes())),
        }
    }

    /// Counts one more value.
    fn count<E: Error>(&self) -> Result<(), E> {
        self.count.update(|count| count + 1);
        if self.count.get() > self.allowed { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

/// Reads an object with the values of variables.
struct TypedVariables<'a> {
    source: &'a Source<'a>,
    definitions: &'a [Node<VariableDefinition>],
}

impl<'de> DeserializeSeed<'de> for TypedVariables<'_> {
    type Value = Variables;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Variables, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TypedVariables<'_> {
    type Value = Variables;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Variables, A::Error> {
        let mut variables = Variables::default();
        while let Some(name) = members.next_key::<Name>()? {
            let Some(definition) = self.definitions.iter().find(|definition| definition.name == *name) else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let expected = Some(&*definition.ty);
            let value = members.next_value_seed(TypedValue { source: self.source, expected, capacity: 0 })?;
            variables.insert(name, value);
        }
        Ok(variables)
    }
}

/// Reads a value.
struct TypedValue<'a> {
    source: &'a Source<'a>,
    /// The expected type; `None` for a value whose type is not known.
    expected: Option<&'a Type>,
    /// Expected number of fields, if the value is an input object.
    capacity: usize,
}

impl<'de> DeserializeSeed<'de> for TypedValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.source.count()?;
        match self.expected {
            Some(Type::Named(name) | Type::NonNullNamed(name)) if self.source.types.is_carried(name) => {
                let text = <&'de RawValue>::deserialize(deserializer)?;
                Ok(self.source.carried(text.get()))
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for TypedValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Boolean(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let expected = match self.expected {
            Some(Type::List(item) | Type::NonNullList(item)) => Some(&**item),
            _ => None,
        };
        let (mut list, mut capacity) = (Vec::new(), 0);
        while let Some(item) = items.next_element_seed(TypedValue { source: self.source, expected, capacity })? {
            // The objects of a list mostly have the same fields.
            capacity = if let Value::Object(fields) = &item { fields.len() } else { 0 };
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        // An object where a list is expected is its only element.
        let schema = self.source.types.schema();
        let definition = self.expected.and_then(|expected| schema.get_input_object(expected.inner_named_type()));
        let mut fields = IndexMap::with_capacity(self.capacity);
        while let Some(name) = members.next_key_seed(FieldName(self.source.types))? {
            let field = definition.and_then(|definition| definition.fields.get(name.as_str()));
            let expected = field.map(|field| &*field.ty);
            let value = members.next_value_seed(TypedValue { source: self.source, expected, capacity: 0 })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Reads the name of a field. Names of the schema share their memory.
struct FieldName<'a>(&'a TypeSystem);

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = Name;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
        Ok(self.0.input_field(name).cloned().unwrap_or_else(|| Name::new(name)))
    }
}

#[cfg(test)]
mod tests {
    use apollo_compiler::parser::Parser;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SDL: &str = "type Query { f(any: Any, list: [Any!], deep: [[Any]], in: In, ins: [In!], other: Other): Int }
        type Subscription { f(any: Any): Int }
        scalar Any
        scalar Other
        input In { any: Any list: [Any] in: In ins: [In] other: Other text: String number: Float }";
    const QUERY: &str = "query ($any: Any, $list: [Any!], $deep: [[Any]]!, $in: In!, $ins: [In!], $other: Other) { f }";

    /// Keys of the input object, and unusual ones.
    const KEYS: [&str; 10] =
        ["any", "list", "in", "ins", "other", "text", "number", "$serde_json::private::RawValue", "", "x\"\u{0}"];

    fn types() -> TypeSystem {
        TypeSystem::from_sdl(SDL).unwrap().with_carried_scalar("Any")
    }

    fn read_as(query: &str, text: &Bytes) -> Variables {
        let syntax = Parser::new().parse_ast(query, "").unwrap();
        let given = GivenVariables::parse(String::from_utf8(text.to_vec()).unwrap()).unwrap();
        read(&given, &syntax, Selected { query, operation: None }, &types(), &Limits::default()).unwrap()
    }

    fn texts(value: &Value) -> Vec<String> {
        match value {
            Value::Binary(text) => vec![String::from_utf8(text.to_vec()).unwrap()],
            Value::List(items) => items.iter().flat_map(texts).collect(),
            Value::Object(fields) => fields.values().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the carried texts of a variable, in their order.
    fn carried(variable: &str, text: &str) -> Vec<String> {
        let variables = read_as(QUERY, &Bytes::from(format!(r#"{{"{variable}": {text}}}"#)));
        texts(&variables[variable])
    }

    #[test]
    fn only_values_of_a_carried_scalar_stay_text() {
        for (variable, text, expected) in [
            ("any", r#"{"a": [1, 1.50]}"#, &[r#"{"a": [1, 1.50]}"#][..]),
            ("any", "null", &[]),
            ("any", r#"{"$serde_json::private::RawValue": "[1]"}"#, &[r#"{"$serde_json::private::RawValue": "[1]"}"#]),
            ("list", r#"[1, null, [2], "a"]"#, &["1", "[2]", "\"a\""]),
            ("deep", "[[1], [[2]], 3]", &["1", "[2]"]),
            ("in", r#"{"any": {"any": 1}, "other": {"any": 1}, "text": "t"}"#, &[r#"{"any": 1}"#]),
            ("in", r#"{"in": {"any": 1}, "ins": {"any": 2}, "unknown": {"any": 3}}"#, &["1", "2"]),
            ("in", r#"{"any": 1, "any": 2}"#, &["2"]),
            ("ins", r#"[{"any": 1}, {"list": [2]}]"#, &["1", "2"]),
            ("ins", r#"{"any": 1}"#, &["1"]),
            ("other", r#"{"any": 1}"#, &[]),
        ] {
            assert_eq!(carried(variable, text), expected, "{variable}: {text}");
        }
    }

    #[test]
    fn variables_that_are_not_declared_are_skipped() {
        let variables =
            read_as("query ($any: Any) { f }", &Bytes::from(r#"{"other": {"any": [1]}, "any": 2, "v": 3}"#));
        assert_eq!(variables.keys().map(Name::as_str).collect::<Vec<_>>(), ["any"]);
    }

    #[test]
    fn the_number_of_values_is_limited_by_the_length_of_the_text() {
        let limits = Limits { values: 100, ..Limits::default() };
        let read_list = |count: usize, item: &str| {
            let query = "query ($list: [Any!]) { f }";
            let text = format!(r#"{{"list": [{}]}}"#, vec![item; count].join(","));
            let syntax = Parser::new().parse_ast(query, "").unwrap();
            let given = GivenVariables::parse(text).unwrap();
            let read = read(&given, &syntax, Selected { query, operation: None }, &types(), &limits);
            read.map(|variables| variables.len())
        };
        assert_eq!(read_list(100, "0"), Ok(1));
        assert_eq!(read_list(1000, "\"sixteen bytes\""), Ok(1));
        let exceeded = OperationError::LimitExceeded { limit: Limit::Values, allowed: 150, actual: 151 };
        assert_eq!(read_list(400, "0"), Err(exceeded));
    }

    #[test]
    fn texts_share_the_memory_of_the_request_unless_the_operation_is_live() {
        let given = GivenVariables::parse(r#"{"any": [1, 2]}"#.to_owned()).unwrap();
        let range = given.text().unwrap().as_ptr_range();
        for (query, shared) in [("query ($any: Any) { f }", true), ("subscription ($any: Any) { f }", false)] {
            let syntax = Parser::new().parse_ast(query, "").unwrap();
            let variables =
                read(&given, &syntax, Selected { query, operation: None }, &types(), &Limits::default()).unwrap();
            let Value::Binary(text) = &variables["any"] else { panic!("{variables}") };
            assert_eq!((&text[..], range.contains(&text.as_ptr())), (&b"[1, 2]"[..], shared), "{query}");
        }
    }

    #[test]
    fn the_selected_operation_decides_about_the_types() {
        let query = "query A ($v: Any) { f } query B ($v: Other) { f }";
        let syntax = Parser::new().parse_ast(query, "").unwrap();
        let given = GivenVariables::parse(r#"{"v": [1]}"#.to_owned()).unwrap();
        let carried = |operation| {
            let variables = read(&given, &syntax, Selected { query, operation }, &types(), &Limits::default()).unwrap();
            variables.get("v").map(|value| matches!(value, Value::Binary(_)))
        };
        assert_eq!([Some("A"), Some("B"), Some("C")].map(carried), [Some(true), Some(false), None]);
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::vec((proptest::sample::select(&KEYS[..]), inner), 0..5).prop_map(|members| {
                    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value));
                    serde_json::Value::Object(members.collect())
                }),
            ]
        })
    }

    /// Returns a value in which carried texts are parsed.
    fn parsed(value: Value) -> Value {
        match value {
            Value::Binary(text) => serde_json::from_slice::<Value>(&text).unwrap(),
            Value::List(items) => Value::List(items.into_iter().map(parsed).collect()),
            Value::Object(fields) => Value::Object(fields.into_iter().map(|(name, it)| (name, parsed(it))).collect()),
            other => other,
        }
    }

    proptest! {
        #[test]
        fn variables_equal_those_of_a_plain_parser_when_their_texts_are_parsed(
            values in proptest::collection::vec(any_json(), 6),
            pretty in any::<bool>(),
        ) {
            let names = ["any", "list", "deep", "in", "ins", "other"];
            let object: serde_json::Value =
                names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value)).collect();
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = Bytes::from(text.unwrap());
            let expected: Variables = serde_json::from_slice(&text).unwrap();
            let read = read_as(QUERY, &text);
            let read: Variables = Variables::from_value(parsed(read.into_value()));
            prop_assert_eq!(read, expected);
        }
    }
}
