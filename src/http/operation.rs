//! A request becomes an operation: checked against the limits, parsed once, its kind known, nothing run yet.

use async_graphql::parser::parse_query;
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, OperationDefinition, OperationType};
use async_graphql::{Extensions, Positioned, Request, Value, Variables};
use serde::Deserialize;

use super::invalid::Invalid;
use super::limits::Limits;
use super::nullability::Nullability;
use super::shape::Shape;
use super::{cost, lexer};
use crate::json::Typed;

/// The parameters of a request as the GraphQL-over-HTTP specification names them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parameters {
    pub(super) query: String,
    pub(super) operation_name: Option<String>,
    #[serde(default)]
    pub(super) variables: Variables,
    #[serde(default)]
    pub(super) extensions: Extensions,
}

impl From<Request> for Parameters {
    fn from(request: Request) -> Self {
        let Request { query, operation_name, variables, extensions, .. } = request;
        Self { query, operation_name, variables, extensions }
    }
}

impl Typed for Parameters {}

/// An operation that is allowed to run.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) request: Request,
    pub(super) kind: OperationType,
    /// What its answers look like.
    pub(super) shape: Shape,
}

impl Operation {
    /// Checks a request. The cheapest checks come first; nothing here takes longer than the limits allow.
    pub(super) fn check(parameters: Parameters, limits: &Limits, types: &Nullability) -> Result<Self, Invalid> {
        lexer::check(&parameters.query, limits)?;
        let document = parse(&parameters.query)?;
        // Clients that have no name to give may give an empty one.
        let name = parameters.operation_name.filter(|name| !name.is_empty());
        let operation = select(&document, name.as_deref())?;
        let kind = operation.node.ty;
        check_variables(&operation.node, &parameters.variables)?;
        cost::check(&document, &parameters.variables, limits)?;

        let shape = Shape::of(&operation.node, &document, types);
        let mut request = Request::new(parameters.query).variables(parameters.variables);
        request.operation_name = name;
        request.extensions = parameters.extensions;
        request.set_parsed_query(document);
        Ok(Self { request, kind, shape })
    }
}

fn parse(document: &str) -> Result<ExecutableDocument, Invalid> {
    parse_query(document)
        .map_err(|error| Invalid::Unparsable { message: error.to_string(), positions: error.positions().collect() })
}

/// The operation to run (GraphQL specification, section 6.1, `GetOperation`).
fn select<'a>(
    document: &'a ExecutableDocument,
    name: Option<&str>,
) -> Result<&'a Positioned<OperationDefinition>, Invalid> {
    match (name, &document.operations) {
        (None, DocumentOperations::Single(operation)) => Ok(operation),
        (None, DocumentOperations::Multiple(named)) => {
            named.values().next().filter(|_| named.len() == 1).ok_or_else(|| {
                Invalid::rule("The document has several operations; name one of them in operationName.", [])
            })
        }
        (Some(name), operations) => {
            let mut operations = operations.iter();
            let found = operations.find(|(known, _)| known.is_some_and(|known| known.as_str() == name));
            found
                .map(|(_, operation)| operation)
                .ok_or_else(|| Invalid::rule(format!("The document has no operation named \"{name}\"."), []))
        }
    }
}

/// Refuses a missing or null value of a variable that must have one: the executor notices only where it is used.
fn check_variables(operation: &OperationDefinition, variables: &Variables) -> Result<(), Invalid> {
    for definition in &operation.variable_definitions {
        let name = &definition.node.name.node;
        let given = variables.get(name);
        let missing = match given {
            None => definition.node.default_value().is_none(),
            Some(value) => matches!(value, Value::Null) && !definition.node.var_type.node.nullable,
        };
        if missing {
            let expected = &definition.node.var_type.node;
            let message = format!("Variable \"${name}\" of type \"{expected}\" needs a value.");
            return Err(Invalid::rule(message, [definition.pos]));
        }
    }
    Ok(())
}
