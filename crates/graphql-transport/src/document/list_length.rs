//! Reads the length of a field's list, or the number up to which it counts, from its arguments. Without it, a page of a
//! thousand items would cost as little as a page of one.

use apollo_compiler::Node;
use apollo_compiler::ast::{Field, Value, VariableDefinition};
use async_graphql::{Value as Given, Variables};

use crate::limits::Limits;

/// Field that counts the items of a list.
pub(super) const COUNT: &str = "totalCount";

/// Lengths of lists in the arguments of one operation's fields.
pub(super) struct ListLengths<'a> {
    pub(super) variables: &'a Variables,
    /// The variables that the operation defines, with their defaults.
    pub(super) definitions: &'a [Node<VariableDefinition>],
    pub(super) limits: &'a Limits,
}

/// A value that is not a variable: one of the document, or the given value of a variable.
#[derive(Clone, Copy)]
enum Resolved<'a> {
    Written(&'a Value),
    Given(&'a Given),
}

impl ListLengths<'_> {
    /// Returns the largest list length in the arguments, and in the input objects that are arguments.
    pub(super) fn of_field(&self, field: &Field) -> Option<u64> {
        let lengths = field.arguments.iter().filter_map(|argument| match self.resolve(&argument.value)? {
            Resolved::Written(Value::Object(fields)) => {
                fields.iter().filter_map(|(name, value)| self.length(name, self.resolve(value)?)).max()
            }
            Resolved::Given(Given::Object(fields)) => {
                fields.iter().filter_map(|(name, value)| self.length(name, Resolved::Given(value))).max()
            }
            value => self.length(&argument.name, value),
        });
        lengths.max()
    }

    /// Returns the number up to which a field counts items; 0 for a field that counts nothing.
    pub(super) fn of_count(&self, field: &Field) -> u64 {
        if field.name != COUNT {
            return 0;
        }
        let argument = field.arguments.iter().find(|argument| argument.name == "upTo");
        let given = argument.and_then(|argument| number(self.resolve(&argument.value)?));
        given.unwrap_or(self.limits.default_count).min(self.limits.largest_count)
    }

    /// Returns a value itself, or the value of the variable that it is; `None` for a variable without a value.
    fn resolve<'v>(&'v self, value: &'v Value) -> Option<Resolved<'v>> {
        let Value::Variable(name) = value else { return Some(Resolved::Written(value)) };
        if let Some(given) = self.variables.get(name.as_str()) {
            return Some(Resolved::Given(given));
        }
        let definition = self.definitions.iter().find(|definition| definition.name == *name)?;
        definition.default_value.as_ref().map(|default| Resolved::Written(default))
    }

    /// Returns the list length in an argument or input field; `None` if it has none.
    fn length(&self, name: &str, value: Resolved<'_>) -> Option<u64> {
        let largest = match name {
            "first" | "last" => self.limits.largest_page,
            "limit" => self.limits.largest_limit,
            _ => return None,
        };
        Some(number(value)?.min(largest))
    }
}

/// Returns a number, at least 1; `None` for a value that is not a number.
fn number(value: Resolved<'_>) -> Option<u64> {
    let number = match value {
        Resolved::Written(Value::Int(number)) => number.as_str().parse().ok(),
        Resolved::Given(Given::Number(number)) => number.as_u64(),
        _ => return None,
    };
    Some(number.unwrap_or(1).max(1))
}
