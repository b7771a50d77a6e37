//! Reads the length of a field's list from its arguments.

use apollo_compiler::ast::{Field, Value, VariableDefinition};
use apollo_compiler::{Name, Node};
use async_graphql::{Value as Given, Variables};

/// Arguments with the length of a list.
const SIZES: [&str; 3] = ["first", "last", "limit"];

/// Lengths of lists in the arguments of one operation's fields.
pub(super) struct ListLengths<'a> {
    pub(super) variables: &'a Variables,
    /// The variables that the operation defines, with their defaults.
    pub(super) definitions: &'a [Node<VariableDefinition>],
}

impl ListLengths<'_> {
    /// Returns the largest list length in the arguments.
    pub(super) fn of_field(&self, field: &Field) -> Option<u64> {
        let sizes = field.arguments.iter().filter_map(|argument| match &*argument.value {
            Value::Object(fields) => {
                let sizes = fields.iter().filter(|(name, _)| SIZES.contains(&name.as_str()));
                sizes.filter_map(|(_, value)| self.number(value)).max()
            }
            Value::Variable(name) => match self.variable(name)? {
                Sized::Number(number) => SIZES.contains(&argument.name.as_str()).then_some(number),
                Sized::Object(size) => Some(size),
            },
            value => SIZES.contains(&argument.name.as_str()).then(|| self.number(value))?,
        });
        sizes.max()
    }

    /// Returns a list length, at least 1; `None` for a value that is not an integer.
    fn number(&self, value: &Value) -> Option<u64> {
        match value {
            Value::Int(number) => Some(number.as_str().parse().unwrap_or(1).max(1)),
            Value::Variable(name) => match self.variable(name)? {
                Sized::Number(number) => Some(number),
                Sized::Object(_) => None,
            },
            _ => None,
        }
    }

    /// Returns the list length in a variable's value: the number itself, or the largest length in an object.
    fn variable(&self, name: &Name) -> Option<Sized> {
        match self.variables.get(name.as_str()) {
            Some(Given::Number(number)) => Some(Sized::Number(number.as_u64().unwrap_or(1).max(1))),
            Some(Given::Object(fields)) => {
                let sizes = SIZES.iter().filter_map(|name| fields.get(*name));
                let sizes = sizes.filter_map(|size| match size {
                    Given::Number(number) => Some(number.as_u64().unwrap_or(1).max(1)),
                    _ => None,
                });
                sizes.max().map(Sized::Object)
            }
            Some(_) => None,
            None => {
                let definition = self.definitions.iter().find(|definition| definition.name == *name)?;
                match &**definition.default_value.as_ref()? {
                    Value::Object(fields) => {
                        let sizes = fields.iter().filter(|(name, _)| SIZES.contains(&name.as_str()));
                        sizes.filter_map(|(_, value)| constant(value)).max().map(Sized::Object)
                    }
                    value => constant(value).map(Sized::Number),
                }
            }
        }
    }
}

/// Length of a list according to a variable.
enum Sized {
    Number(u64),
    /// The largest length in an input object.
    Object(u64),
}

/// Returns the list length in a default value.
fn constant(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => Some(number.as_str().parse().unwrap_or(1).max(1)),
        _ => None,
    }
}
