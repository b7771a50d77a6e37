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
        _ => 0,
    };
    VALUE_BYTES + within
}
