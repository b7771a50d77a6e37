//! Estimates the memory of the values in a document's arguments.
//!
//! The executor copies the value of a variable at each use, so each use counts. `cost` multiplies the bytes of a field's
//! arguments by the length of the lists that contain the field.

use std::collections::HashMap;

use apollo_compiler::Node;
use apollo_compiler::ast::{Argument, OperationDefinition, Value};
use async_graphql::{Value as Given, Variables};

/// Approximate memory of a value in bytes, without the bytes of its strings.
pub(super) const VALUE_BYTES: u64 = 64;

/// Bytes of the variables of one operation.
pub(super) struct ArgumentBytes<'a> {
    /// The bytes of each variable's value.
    values: HashMap<&'a str, u64>,
    /// The bytes of the default values of the operation's variables.
    defaults: HashMap<&'a str, u64>,
}

impl<'a> ArgumentBytes<'a> {
    pub(super) fn new(variables: &'a Variables) -> Self {
        let values = variables.iter().map(|(name, value)| (name.as_str(), given_bytes(value))).collect();
        Self { values, defaults: HashMap::new() }
    }

    /// Returns the bytes of all variables, each counted once.
    pub(super) fn of_variables(&self) -> u64 {
        self.values.values().sum()
    }

    /// Reads the default values of an operation's variables.
    pub(super) fn enter(&mut self, operation: &'a OperationDefinition) {
        let defaults = operation
            .variables
            .iter()
            .filter_map(|variable| Some((variable.name.as_str(), self.value_bytes(variable.default_value.as_ref()?))));
        self.defaults = defaults.collect();
    }

    /// Returns the bytes of the arguments of one field.
    pub(super) fn of(&self, arguments: &[Node<Argument>]) -> u64 {
        arguments.iter().map(|argument| self.value_bytes(&argument.value)).sum()
    }

    fn value_bytes(&self, value: &Value) -> u64 {
        let within = match value {
            Value::Variable(name) => {
                let known = self.values.get(name.as_str()).or_else(|| self.defaults.get(name.as_str()));
                return known.copied().unwrap_or(VALUE_BYTES);
            }
            Value::List(items) => items.iter().map(|item| self.value_bytes(item)).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() as u64 + self.value_bytes(value)).sum()
            }
            Value::String(text) => text.len() as u64,
            _ => 0,
        };
        VALUE_BYTES + within
    }
}

/// Returns the approximate memory of a variable's value in bytes.
fn given_bytes(value: &Given) -> u64 {
    let within = match value {
        Given::List(items) => items.iter().map(given_bytes).sum(),
        Given::Object(fields) => fields.iter().map(|(name, value)| name.len() as u64 + given_bytes(value)).sum(),
        Given::String(text) => text.len() as u64,
        Given::Binary(text) => return carried_bytes(text),
        _ => 0,
    };
    VALUE_BYTES + within
}

/// Returns the approximate memory of a value that is carried as JSON text, when it is parsed.
fn carried_bytes(text: &[u8]) -> u64 {
    let (mut at, mut values, mut keys, mut strings) = (0, 0_u64, 0_u64, 0_u64);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let start = at;
                while let Some(byte) = text.get(at).filter(|byte| **byte != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
                values += 1;
                strings += (at - start) as u64;
                at += 1;
            }
            b'{' | b'[' => values += 1,
            b':' => keys += 1,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                values += 1;
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
                at += text[at..].iter().position(ends).unwrap_or(text.len() - at);
            }
            _ => {}
        }
    }
    VALUE_BYTES * values.saturating_sub(keys) + strings
}

#[cfg(test)]
mod tests {
    use apollo_compiler::parser::Parser;
    use serde_json::json;

    use super::*;

    /// Returns the bytes of the arguments of the first field of a document.
    fn bytes(document: &str, variables: serde_json::Value) -> u64 {
        let document = Parser::new().parse_ast(document, "").unwrap();
        let operation = document.definitions[0].as_operation_definition().unwrap();
        let variables = Variables::from_json(variables);
        let mut known = ArgumentBytes::new(&variables);
        known.enter(operation);
        known.of(&operation.selection_set[0].as_field().unwrap().arguments)
    }

    #[test]
    fn literals_and_variables_of_equal_content_have_equal_size() {
        for (literal, given, values, text) in [
            ("1", json!(1), 1, 0),
            (r#""four""#, json!("four"), 1, 4),
            (r#"["four", 1]"#, json!(["four", 1]), 3, 4),
            (r#"{ key: "four", k: { k: 1 } }"#, json!({ "key": "four", "k": { "k": 1 } }), 4, 3 + 4 + 1 + 1),
            ("[[], {}, true, false, null, -1.5e-7]", json!([[], {}, true, false, null, -1.5e-7]), 7, 0),
            (r#"{ a: ",]}:{" }"#, json!({ "a": ",]}:{" }), 2, 1 + 5),
        ] {
            let expected = values * VALUE_BYTES + text;
            assert_eq!(bytes(&format!("{{ f(a: {literal}) }}"), json!({})), expected, "{literal}");
            assert_eq!(bytes("query ($v: T) { f(a: $v) }", json!({ "v": given })), expected, "{literal}");
            assert_eq!(bytes(&format!("query ($v: T = {literal}) {{ f(a: $v) }}"), json!({})), expected, "{literal}");
            let text = serde_json::to_string_pretty(&given).unwrap();
            assert_eq!(given_bytes(&Given::Binary(text.into())), expected, "{literal} as text");
        }
        assert_eq!(bytes("query ($v: T) { f(a: $v, b: $v) }", json!({ "v": "four" })), 2 * (VALUE_BYTES + 4));
        assert_eq!(bytes("query ($v: T) { f(a: $v) }", json!({})), VALUE_BYTES);
    }
}
