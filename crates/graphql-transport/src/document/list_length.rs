//! Reads the length of a field's list, or the number up to which it counts, from its arguments.

use apollo_compiler::ast::{Field, Value, VariableDefinition};
use apollo_compiler::{Name, Node};
use async_graphql::{Value as Given, Variables};

use crate::limits::Limits;

/// Arguments with the length of a list.
const SIZES: [&str; 3] = ["first", "last", "limit"];

/// Field that counts the items of a list.
pub(super) const COUNT: &str = "totalCount";

/// Lengths of lists in the arguments of one operation's fields.
pub(super) struct ListLengths<'a> {
    pub(super) variables: &'a Variables,
    /// The variables that the operation defines, with their defaults.
    pub(super) definitions: &'a [Node<VariableDefinition>],
    pub(super) limits: &'a Limits,
}

impl ListLengths<'_> {
    /// Returns the largest list length in the arguments.
    pub(super) fn of_field(&self, field: &Field) -> Option<u64> {
        let sizes = field.arguments.iter().filter_map(|argument| {
            let largest = self.largest(&argument.name);
            match &*argument.value {
                Value::Object(fields) => self.of_object(fields),
                Value::Variable(name) => match self.variable(name)? {
                    Sized::Number(number) => largest.map(|largest| number.min(largest)),
                    Sized::Object(size) => Some(size),
                },
                value => Some(constant(value)?.min(largest?)),
            }
        });
        sizes.max()
    }

    /// Returns the number up to which a field counts items; 0 for a field that counts nothing.
    pub(super) fn of_count(&self, field: &Field) -> u64 {
        if field.name != COUNT {
            return 0;
        }
        let given =
            field.arguments.iter().find(|argument| argument.name == "upTo").and_then(|argument| {
                match &*argument.value {
                    Value::Variable(name) => match self.variable(name)? {
                        Sized::Number(number) => Some(number),
                        Sized::Object(_) => None,
                    },
                    value => constant(value),
                }
            });
        given.unwrap_or(self.limits.default_count).min(self.limits.largest_count)
    }

    /// Returns the largest length that an argument counts; `None` if it is not the length of a list.
    fn largest(&self, name: &str) -> Option<u64> {
        let largest = if name == "limit" { self.limits.largest_limit } else { self.limits.largest_page };
        SIZES.contains(&name).then_some(largest)
    }

    /// Returns the largest list length in an input object.
    fn of_object(&self, fields: &[(Name, Node<Value>)]) -> Option<u64> {
        let sizes = fields.iter().filter_map(|(name, value)| {
            let number = match &**value {
                Value::Variable(name) => match self.variable(name)? {
                    Sized::Number(number) => number,
                    Sized::Object(_) => return None,
                },
                value => constant(value)?,
            };
            Some(number.min(self.largest(name)?))
        });
        sizes.max()
    }

    /// Returns the list length in a variable's value: the number itself, or the largest length in an object.
    fn variable(&self, name: &Name) -> Option<Sized> {
        match self.variables.get(name.as_str()) {
            Some(Given::Object(fields)) => {
                let sizes = fields.iter().filter_map(|(name, size)| Some(given(size)?.min(self.largest(name)?)));
                sizes.max().map(Sized::Object)
            }
            Some(value) => given(value).map(Sized::Number),
            None => {
                let definition = self.definitions.iter().find(|definition| definition.name == *name)?;
                match &**definition.default_value.as_ref()? {
                    Value::Object(fields) => {
                        let sizes =
                            fields.iter().filter_map(|(name, size)| Some(constant(size)?.min(self.largest(name)?)));
                        sizes.max().map(Sized::Object)
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

/// Returns the list length in a value of the document, at least 1; `None` for a value that is not an integer.
fn constant(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => Some(number.as_str().parse().unwrap_or(1).max(1)),
        _ => None,
    }
}

/// Returns the list length in the value of a variable, at least 1; `None` for a value that is not a number.
fn given(value: &Given) -> Option<u64> {
    match value {
        Given::Number(number) => Some(number.as_u64().unwrap_or(1).max(1)),
        _ => None,
    }
}
