//! Converts values in a document to values of the executor.
//!
//! Validation has compared each value with the expected type. This module checks the rest: repeated keys, `@oneOf`
//! input objects, variables inside lists and objects, and numbers that no number type can represent.

use std::borrow::Cow;
use std::collections::HashSet;

use apollo_compiler::Node;
use apollo_compiler::ast::{Document, Type, Value as Written, VariableDefinition};
use apollo_compiler::schema::{ExtendedType, InputObjectType};
use async_graphql::{Name, Value, Variables};
use async_graphql_value::Value as Literal;

use super::argument_path;
use super::positions::Positions;
use super::types::{CheckedScalar, TypeSystem};
use crate::operation_error::OperationError;
use plain_json as json;

/// The values of one operation's arguments.
pub(super) struct Values<'a> {
    pub(super) syntax: &'a Document,
    pub(super) types: &'a TypeSystem,
    pub(super) definitions: &'a [Node<VariableDefinition>],
    /// The values of the variables, coerced.
    pub(super) variables: &'a Variables,
    pub(super) positions: &'a Positions<'a>,
}

impl Values<'_> {
    /// Returns the value of an argument or input field. Returns `None` for a variable without a value: the argument
    /// then counts as absent (GraphQL specification, section 6.4.1). The paths of such input fields are added to
    /// `absent`.
    ///
    /// Recursive. The depth is bounded because the lexer limits the depth of brackets.
    pub(super) fn value<'w>(
        &self,
        written: &'w Node<Written>,
        location: InputLocation<'_>,
        absent: &mut AbsentFields<'w>,
    ) -> Result<Option<Literal>, OperationError> {
        Ok(Some(match &**written {
            Written::Null => Literal::Null,
            Written::Enum(name) => Literal::Enum(Name::new(name)),
            Written::String(text) => {
                self.check_scalars(written, &Value::String(text.clone()), location, absent)?;
                Literal::String(text.clone())
            }
            Written::Boolean(value) => Literal::Boolean(*value),
            Written::Int(number) => Literal::Number(self.number(written, number.as_str())?),
            Written::Float(number) => Literal::Number(self.number(written, number.as_str())?),
            Written::Variable(name) => {
                let variable = self.variable(written, name, location)?;
                if let Some(value) = self.variables.get(name.as_str()) {
                    self.check_scalars(written, value, location, absent)?;
                }
                return Ok(variable);
            }
            Written::List(items) => {
                let list = location.expected.filter(|expected| expected.is_list());
                let item = InputLocation { expected: list.map(Type::item_type), ..InputLocation::default() };
                let mut values = Vec::with_capacity(items.len());
                for (index, value) in items.iter().enumerate() {
                    absent.path.push(index.to_string().into());
                    values.push(self.value(value, item, absent)?.unwrap_or(Literal::Null));
                    absent.path.pop();
                }
                Literal::List(values)
            }
            Written::Object(fields) => {
                // An object where a list is expected is its only element.
                let length = absent.path.len();
                absent.path.extend((0..location.expected.map_or(0, depth_of_lists)).map(|_| Cow::Borrowed("0")));
                let object = self.object(written, fields, location, absent)?;
                absent.path.truncate(length);
                object
            }
        }))
    }

    fn object<'w>(
        &self,
        written: &Node<Written>,
        fields: &'w [(apollo_compiler::Name, Node<Written>)],
        location: InputLocation<'_>,
        absent: &mut AbsentFields<'w>,
    ) -> Result<Literal, OperationError> {
        let schema = self.types.schema();
        let definition = location.expected.and_then(|expected| schema.get_input_object(expected.inner_named_type()));
        let one_of = definition.map(|definition| OneOf::new(definition));
        let mut seen = HashSet::new();
        let mut object = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            if !seen.insert(key.as_str()) {
                return Err(self.refuse(value, format!("Input field \"{key}\" is given more than once.")));
            }
            let field = definition.and_then(|definition| definition.fields.get(key));
            // The only field of a `@oneOf` input object has no null (GraphQL specification, section 5.8.5,
            // `IsNonNullPosition`).
            let required = field.filter(|_| one_of.as_ref().is_some_and(|one_of| one_of.required));
            let required = required.map(|field| field.ty.as_ref().clone().non_null());
            let location = InputLocation {
                expected: required.as_ref().or(field.map(|field| &*field.ty)),
                has_default: field.is_some_and(|field| field.default_value.is_some()),
                one_of: required.is_some(),
            };
            absent.path.push(key.as_str().into());
            match self.value(value, location, absent)? {
                Some(value) => object.push((Name::new(key), value)),
                None => absent.add(),
            }
            absent.path.pop();
        }
        // A field counts even if its variable has no value.
        if let Some(one_of) = one_of
            && !one_of.holds(fields.len(), fields.iter().any(|(_, value)| value.is_null()))
        {
            return Err(self.refuse(written, format!("The input {}", one_of.reason())));
        }
        Ok(Literal::Object(object.into_iter().collect()))
    }

    /// Checks the scalars in a value with [`CheckedScalar`]; `written` is its place in the document.
    fn check_scalars(
        &self,
        written: &Node<Written>,
        value: &Value,
        location: InputLocation<'_>,
        absent: &AbsentFields<'_>,
    ) -> Result<(), OperationError> {
        let Some(expected) = location.expected.filter(|_| !self.types.scalars().is_empty()) else { return Ok(()) };
        let Err(Misfit { steps, reason: scalar }) = self.fit(value, expected) else { return Ok(()) };
        let path: Vec<String> = absent.path.iter().map(ToString::to_string).chain(steps.into_iter().rev()).collect();
        let (at, CheckedScalar { name, example, .. }) = (path.join("."), scalar);
        let message = format!("Argument \"{at}\": The value is not of type \"{name}\"; an example is {example}.");
        Err(OperationError::value(message, self.positions.of(written.location()), path))
    }

    /// Returns the first scalar in a value that does not fit. Recursive; the JSON decoder bounds the depth.
    fn fit(&self, value: &Value, expected: &Type) -> Result<(), Misfit<CheckedScalar>> {
        let name = match (expected, value) {
            (_, Value::Null) => return Ok(()),
            (Type::List(item) | Type::NonNullList(item), Value::List(values)) => {
                let mut values = values.iter().enumerate();
                return values.try_for_each(|(index, value)| {
                    self.fit(value, item).map_err(|misfit| misfit.at(index.to_string()))
                });
            }
            (Type::List(item) | Type::NonNullList(item), single) => return self.fit(single, item),
            (Type::Named(name) | Type::NonNullNamed(name), _) => name,
        };
        match (self.types.schema().types.get(name), value) {
            (Some(ExtendedType::InputObject(definition)), Value::Object(fields)) => {
                fields.iter().try_for_each(|(key, value)| match definition.fields.get(key.as_str()) {
                    Some(field) => self.fit(value, &field.ty).map_err(|misfit| misfit.at(key.to_string())),
                    None => Ok(()),
                })
            }
            (Some(ExtendedType::Scalar(_)), value) => {
                let scalar = self.types.scalars().iter().find(|scalar| scalar.name == name.as_str());
                match scalar.filter(|scalar| !(scalar.fits)(value)) {
                    Some(scalar) => Err(Misfit::new(*scalar)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Checks a variable that is used as a value (GraphQL specification, section 5.8.5) and returns a reference to it.
    fn variable(
        &self,
        written: &Node<Written>,
        name: &apollo_compiler::Name,
        location: InputLocation<'_>,
    ) -> Result<Option<Literal>, OperationError> {
        let definition = self.definitions.iter().find(|definition| definition.name == *name);
        let Some(definition) = definition else {
            return Err(self.refuse(written, format!("Variable \"${name}\" is not defined.")));
        };
        if let Some(expected) = location.expected {
            if !Self::is_allowed(definition, expected, location.has_default) {
                let one_of = if location.one_of { ", because its input object needs exactly one field" } else { "" };
                let message =
                    format!("Variable \"${name}\" of type \"{}\" is used as \"{expected}\"{one_of}.", definition.ty);
                return Err(self.refuse(written, message));
            }
            if expected.is_non_null() && self.variables.get(name.as_str()) == Some(&Value::Null) {
                let message = format!("Variable \"${name}\" is null where \"{expected}\" is expected.");
                return Err(self.refuse(written, message));
            }
        }
        Ok(self.variables.contains_key(name.as_str()).then(|| Literal::Variable(Name::new(name))))
    }

    fn is_allowed(definition: &VariableDefinition, expected: &Type, has_default: bool) -> bool {
        let own = &*definition.ty;
        if expected.is_non_null() && !own.is_non_null() {
            let default = definition.default_value.as_ref().is_some_and(|default| !default.is_null());
            return (default || has_default) && own.is_assignable_to(&expected.clone().nullable());
        }
        own.is_assignable_to(expected)
    }

    fn number(&self, written: &Node<Written>, text: &str) -> Result<serde_json::Number, OperationError> {
        number(text).ok_or_else(|| {
            self.refuse(written, "A 64-bit float can't represent the number; send it as a string.".to_owned())
        })
    }

    fn refuse(&self, written: &Node<Written>, message: String) -> OperationError {
        let argument = written.location().and_then(|span| argument_path::at(self.syntax, span.offset()));
        let message = argument.map(|path| format!("Argument \"{path}\": {message}")).unwrap_or(message);
        OperationError::rule(message, [self.positions.of(written.location())])
    }
}

/// A part of a value that does not fit its type.
pub(super) struct Misfit<R> {
    /// Path inside the value, innermost step first.
    pub(super) steps: Vec<String>,
    pub(super) reason: R,
}

impl<R> Misfit<R> {
    pub(super) fn new(reason: R) -> Self {
        Self { steps: Vec::new(), reason }
    }

    /// Adds the step from an object or list to the part.
    pub(super) fn at(mut self, step: String) -> Self {
        self.steps.push(step);
        self
    }
}

/// Input fields of a field's arguments whose variable has no value.
#[derive(Debug, Default)]
pub(super) struct AbsentFields<'w> {
    /// Path to the current value, beginning with the argument.
    pub(super) path: Vec<Cow<'w, str>>,
    /// Paths of the absent arguments and input fields.
    pub(super) paths: Vec<Vec<String>>,
}

impl AbsentFields<'_> {
    /// Adds the current path.
    pub(super) fn add(&mut self) {
        self.paths.push(self.path.iter().map(|step| step.clone().into_owned()).collect());
    }
}

/// Argument, input field or list element that gets a value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InputLocation<'a> {
    /// The expected type; `None` inside a scalar that takes any value.
    pub(super) expected: Option<&'a Type>,
    /// Whether the argument or input field has a default value.
    pub(super) has_default: bool,
    /// Whether the value is the field of a `@oneOf` input object. `expected` is then non-null.
    pub(super) one_of: bool,
}

/// Returns the number of lists around the elements of a type.
fn depth_of_lists(expected: &Type) -> usize {
    match expected {
        Type::List(item) | Type::NonNullList(item) => 1 + depth_of_lists(item),
        Type::Named(_) | Type::NonNullNamed(_) => 0,
    }
}

/// The `@oneOf` rule of an input object: exactly one field must be given (GraphQL specification, section 3.10.1).
pub(super) struct OneOf<'a> {
    definition: &'a InputObjectType,
    required: bool,
}

impl<'a> OneOf<'a> {
    pub(super) fn new(definition: &'a InputObjectType) -> Self {
        Self { definition, required: definition.directives.has("oneOf") }
    }

    pub(super) fn holds(&self, fields: usize, any_null: bool) -> bool {
        !self.required || (fields == 1 && !any_null)
    }

    pub(super) fn reason(&self) -> String {
        format!("of type \"{}\" needs exactly one field, and not null.", self.definition.name)
    }
}

/// Returns a constant value, such as a default; `None` if it contains a variable or a number that is out of range.
pub(super) fn constant(written: &Written) -> Option<Value> {
    Some(match written {
        Written::Null => Value::Null,
        Written::Enum(name) => Value::Enum(Name::new(name)),
        Written::String(text) => Value::String(text.clone()),
        Written::Boolean(value) => Value::Boolean(*value),
        Written::Int(text) => Value::Number(number(text.as_str())?),
        Written::Float(text) => Value::Number(number(text.as_str())?),
        Written::Variable(_) => return None,
        Written::List(items) => Value::List(items.iter().map(|item| constant(item)).collect::<Option<_>>()?),
        Written::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Some((Name::new(key), constant(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
    })
}

/// Returns whether two values are equal. The order of the fields of an object does not matter.
pub(super) fn same(one: &Written, other: &Written) -> bool {
    match (one, other) {
        (Written::List(one), Written::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Written::Object(one), Written::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| {
                    let known = other.iter().find(|(known, _)| known == key);
                    known.is_some_and(|(_, known)| same(known, value))
                })
        }
        (one, other) => one == other,
    }
}

fn number(text: &str) -> Option<serde_json::Number> {
    text.parse().ok().filter(|_| json::is_kept(text))
}

#[cfg(test)]
mod tests {
    use async_graphql::Variables;
    use async_graphql::parser::types as executor;
    use serde_json::json;

    use super::super::{Checked, Selected, TypeSystem, check};
    use crate::limits::Limits;

    const SDL: &str = "directive @oneOf on INPUT_OBJECT
        type Query { find(by: By, within: Area, any: Any): Int }
        scalar Any
        input By @oneOf { id: ID path: String }
        input Area { from: Int! to: Int! = 9, names: [String] }";

    /// Returns the arguments of the only field as the executor gets them, or the message of the refusal.
    fn arguments(document: &str, variables: serde_json::Value) -> Result<String, String> {
        let types = TypeSystem::from_sdl(SDL).unwrap();
        let selected = Selected { query: document, operation: None };
        let variables = Variables::from_json(variables);
        let checked = check(selected, &variables.into(), &types, &Limits::default());
        let Checked { document, .. } = checked.map_err(|error| error.messages().collect::<Vec<_>>().join("; "))?;
        let (_, operation) = document.operations.iter().next().unwrap();
        let executor::Selection::Field(field) = &operation.node.selection_set.node.items[0].node else {
            panic!("no field")
        };
        let arguments = field.node.arguments.iter();
        Ok(arguments.map(|(name, value)| format!("{}: {}", name.node, value.node)).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn objects_of_a_document_reach_the_executor_with_their_variables() {
        for (document, variables, expected) in [
            ("{ find(by: { id: 7 }) }", json!({}), "by: {id: 7}"),
            ("{ find(within: { from: 1, names: [\"a\"] }) }", json!({}), "within: {from: 1, names: [\"a\"]}"),
            ("{ find(any: { a: { b: [1, null] } }) }", json!({}), "any: {a: {b: [1, null]}}"),
            ("query ($n: Int!) { find(within: { from: $n }) }", json!({ "n": 3 }), "within: {from: $n}"),
            ("query ($p: String!) { find(by: { path: $p }) }", json!({ "p": "a" }), "by: {path: $p}"),
            ("query ($p: String = \"a\") { find(by: { path: $p }) }", json!({}), "by: {path: $p}"),
            // A variable without a value counts as absent in an object, and as null in a list.
            ("query ($n: Int) { find(within: { from: 1, to: $n }) }", json!({}), "within: {from: 1}"),
            (
                "query ($s: String) { find(within: { from: 1, names: [$s] }) }",
                json!({}),
                "within: {from: 1, names: [null]}",
            ),
        ] {
            assert_eq!(arguments(document, variables), Ok(expected.to_owned()), "{document}");
        }
    }

    #[test]
    fn repeated_keys_and_objects_against_the_one_of_rule_are_refused() {
        for (document, variables, expected) in [
            ("{ find(within: { from: 1, from: 2 }) }", json!({}), "\"from\" is given more than once"),
            ("{ find(any: { a: 1, a: 1 }) }", json!({}), "\"a\" is given more than once"),
            ("{ find(by: {}) }", json!({}), "needs exactly one field"),
            ("{ find(by: { id: 1, path: \"p\" }) }", json!({}), "needs exactly one field"),
            ("{ find(by: { id: null }) }", json!({}), "needs exactly one field"),
            ("query ($p: String) { find(by: { path: $p }) }", json!({ "p": "a" }), "is used as \"String!\""),
            ("query ($p: String) { find(by: { path: $p }) }", json!({ "p": null }), "is used as \"String!\""),
            ("query ($p: String) { find(by: { path: $p }) }", json!({}), "is used as \"String!\""),
            (
                "query ($p: String = \"a\") { find(by: { path: $p }) }",
                json!({ "p": null }),
                "is null where \"String!\"",
            ),
            ("query ($p: String) { find(by: { id: 1, path: $p }) }", json!({}), "is used as \"String!\""),
            (
                "query ($i: ID!, $p: String!) { find(by: { id: $i, path: $p }) }",
                json!({ "i": "1", "p": "a" }),
                "needs exactly one field",
            ),
            ("query ($n: Int) { find(within: { from: $n }) }", json!({ "n": 1 }), "is used as \"Int!\""),
            ("query ($n: Int) { find(within: { from: 1, to: $n }) }", json!({ "n": null }), "is null where \"Int!\""),
            ("{ find(any: 1e999) }", json!({}), "64-bit float"),
        ] {
            let refused = arguments(document, variables).unwrap_err();
            assert!(refused.contains(expected), "{document}: {refused}");
        }
    }
}
