//! The values of an operation's variables (GraphQL specification, section 6.1.2, `CoerceVariableValues`).
//!
//! Values are checked in place, without a copy. Variables that the operation does not declare are dropped. The first
//! value that does not fit its type refuses the operation with one error, which names the place inside the value.

use apollo_compiler::ast::{Type, VariableDefinition};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use apollo_compiler::{Node, Schema};
use async_graphql::{Name, Value, Variables};

use super::positions::Positions;
use super::values::{self, Misfit, OneOf};
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
                check(schema, &definition.ty, &value).map_err(|Misfit { steps, reason }| {
                    refuse(&steps.into_iter().rev().collect::<String>(), &reason)
                })?;
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

/// Checks a value against its type. Recursive; the JSON decoder bounds the depth.
fn check(schema: &Schema, expected: &Type, value: &Value) -> Result<(), Misfit<String>> {
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
        // JSON has no enum values.
        Some(ExtendedType::Enum(definition)) => {
            matches!(value, Value::String(text) if definition.values.contains_key(text.as_str()))
        }
        Some(ExtendedType::InputObject(definition)) => return object(schema, definition, value),
        _ => false,
    };
    if fits { Ok(()) } else { Err(Misfit::new(format!("is not a value of type \"{name}\"."))) }
}

fn object(schema: &Schema, definition: &InputObjectType, value: &Value) -> Result<(), Misfit<String>> {
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

#[cfg(test)]
mod tests {
    use apollo_compiler::parser::Parser;
    use serde_json::{Value as Json, json};

    use super::*;

    const SDL: &str = "directive @oneOf on INPUT_OBJECT
        type Query { f(int: Int, float: Float, id: ID, string: String, boolean: Boolean): Int }
        scalar Any
        enum State { OPEN CLOSED }
        input By @oneOf { id: ID path: String }";

    /// Returns the message with which a value of a variable is refused.
    fn refusal(expected: &str, value: &Json) -> Option<String> {
        let schema = Schema::parse_and_validate(SDL, "").unwrap();
        let text = format!("query ($v: {expected}) {{ f }}");
        let document = Parser::new().parse_ast(&text, "").unwrap();
        let operation = document.definitions[0].as_operation_definition().unwrap();
        let given = Variables::from_json(json!({ "v": value }));
        let coerced = coerce(&schema, &operation.variables, given, &Positions::new(&text));
        coerced.err().map(|refused| refused.to_string())
    }

    #[test]
    fn values_are_accepted_for_the_types_of_the_specification() {
        for (expected, accepted, refused) in [
            ("Int", json!([1, -2_147_483_648]), json!([1.5, 2_147_483_648_u32, "1", true, [1]])),
            ("Float", json!([1, 1.5, u64::MAX]), json!(["1.5", true, {}])),
            ("ID", json!(["a", 1, -1, u64::MAX]), json!([1.5, true, {}])),
            ("String", json!(["a"]), json!([1, true, {}])),
            ("Boolean", json!([true]), json!([1, "true"])),
            ("State", json!(["OPEN", "CLOSED"]), json!(["open", "OTHER", "", 1, true])),
            ("Any", json!([1, "a", true, {}, [1]]), json!([])),
            ("[Int]", json!([1, [1, null], []]), json!(["a", ["a"], [[1]]])),
        ] {
            for value in accepted.as_array().unwrap() {
                assert_eq!(refusal(expected, value), None, "{expected}: {value}");
            }
            for value in refused.as_array().unwrap() {
                let message = refusal(expected, value).unwrap_or_else(|| panic!("{expected}: {value} is accepted"));
                assert!(message.contains("is not a value of type"), "{message}");
            }
        }
    }

    #[test]
    fn one_of_input_has_exactly_one_field_and_not_null() {
        for accepted in [json!({ "id": "1" }), json!({ "path": "p" })] {
            assert_eq!(refusal("By", &accepted), None, "{accepted}");
        }
        for refused in
            [json!({}), json!({ "id": null }), json!({ "id": "1", "path": "p" }), json!({ "id": "1", "path": null })]
        {
            let message = refusal("By", &refused).unwrap_or_else(|| panic!("{refused} is accepted"));
            assert_eq!(message, "Variable \"$v\" of type \"By\" needs exactly one field, and not null.");
        }
    }
}
