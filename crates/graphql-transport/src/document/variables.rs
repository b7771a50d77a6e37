//! The values of an operation's variables (GraphQL specification, section 6.1.2, `CoerceVariableValues`).
//!
//! Values are checked in place, without a copy. Variables that the operation does not declare are dropped. The first
//! value that does not fit its type refuses the operation with one error, which names the place inside the value.

use apollo_compiler::ast::{Type, VariableDefinition};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use apollo_compiler::{Node, Schema};
use async_graphql::{Name, Value, Variables};

use super::positions::Positions;
use super::values::{self, OneOf};
use crate::operation_error::OperationError;

/// Checks the values of the declared variables against their types and returns them, with defaults.
pub(super) fn coerce(
    schema: &Schema,
    definitions: &[Node<VariableDefinition>],
    mut given: Variables,
    positions: &Positions<'_>,
) -> Result<Variables, OperationError> {
    let mut coerced = Variables::default();
    for definition in definitions {
        let name = definition.name.as_str();
        let refuse = |path: &str, reason: &str| {
            let message = format!("Variable \"${name}{path}\" {reason}");
            OperationError::rule(message, [positions.of(definition.location())])
        };
        let value = match (given.remove(name), &definition.default_value) {
            (Some(value), _) => {
                check(schema, &definition.ty, &value).map_err(|wrong| refuse(&wrong.path(), &wrong.reason))?;
                value
            }
            (None, Some(default)) => values::constant(default).ok_or_else(|| refuse("", "has no usable default."))?,
            (None, None) if definition.ty.is_non_null() => {
                return Err(refuse("", &format!("of type \"{}\" needs a value.", definition.ty)));
            }
            (None, None) => continue,
        };
        coerced.insert(Name::new(name), value);
    }
    Ok(coerced)
}

/// A value that does not fit its type.
struct Misfit {
    /// Path inside the variable's value, innermost step first.
    steps: Vec<String>,
    reason: String,
}

impl Misfit {
    fn new(reason: impl Into<String>) -> Self {
        Self { steps: Vec::new(), reason: reason.into() }
    }

    fn at(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }

    fn path(&self) -> String {
        self.steps.iter().rev().map(String::as_str).collect()
    }
}

/// Checks a value against its type. Recursive; the JSON decoder bounds the depth.
fn check(schema: &Schema, expected: &Type, value: &Value) -> Result<(), Misfit> {
    if *value == Value::Null {
        return if expected.is_non_null() {
            Err(Misfit::new(format!("of type \"{expected}\" needs a value.")))
        } else {
            Ok(())
        };
    }
    let name = match expected {
        Type::List(item) | Type::NonNullList(item) => {
            return match value {
                Value::List(items) => items.iter().enumerate().try_for_each(|(index, value)| {
                    check(schema, item, value).map_err(|wrong| wrong.at(format!("[{index}]")))
                }),
                single => check(schema, item, single),
            };
        }
        Type::Named(name) | Type::NonNullNamed(name) => name,
    };
    let fits = match schema.types.get(name) {
        Some(ExtendedType::Scalar(_)) => is_scalar(name, value),
        Some(ExtendedType::Enum(definition)) => match value {
            Value::String(text) => definition.values.contains_key(text.as_str()),
            Value::Enum(name) => definition.values.contains_key(name.as_str()),
            _ => false,
        },
        Some(ExtendedType::InputObject(definition)) => return object(schema, definition, value),
        _ => false,
    };
    if fits { Ok(()) } else { Err(Misfit::new(format!("is not a value of type \"{name}\"."))) }
}

fn object(schema: &Schema, definition: &InputObjectType, value: &Value) -> Result<(), Misfit> {
    let Value::Object(fields) = value else {
        return Err(Misfit::new(format!("is not a value of type \"{}\".", definition.name)));
    };
    for (key, value) in fields {
        let Some(field) = definition.fields.get(key.as_str()) else {
            let reason = format!("is not defined by type \"{}\".", definition.name);
            return Err(Misfit::new(reason).at(format!(".{key}")));
        };
        check(schema, &field.ty, value).map_err(|wrong| wrong.at(format!(".{key}")))?;
    }
    let missing = definition.fields.values().find(|field| field.is_required() && !fields.contains_key(&*field.name));
    if let Some(field) = missing {
        let reason = format!("of type \"{}\" needs a value.", field.ty);
        return Err(Misfit::new(reason).at(format!(".{}", field.name)));
    }
    let one_of = OneOf::new(definition);
    if !one_of.holds(fields.len(), fields.values().any(|value| *value == Value::Null)) {
        return Err(Misfit::new(one_of.reason()));
    }
    Ok(())
}

/// Returns whether a value is allowed for a scalar type. The resolver checks values of scalars that the schema defines.
fn is_scalar(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("Int", Value::Number(number)) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        ("Float", Value::Number(number)) => number.as_f64().is_some_and(f64::is_finite),
        ("ID", Value::Number(number)) => number.is_i64() || number.is_u64(),
        ("ID" | "String", Value::String(_)) | ("Boolean", Value::Boolean(_)) => true,
        ("Int" | "Float" | "ID" | "String" | "Boolean", _) => false,
        _ => true,
    }
}
