//! Turns a document's text into an operation that may run. This is all the work before the first resolver.
//!
//! For every input, the document is either refused, or valid (GraphQL specification, section 5) and merged. This takes
//! at most 50 ms of CPU and 8 MiB of memory, plus time and memory proportional to the variables. Before any code
//! follows a fragment, all fragments are checked to exist and not to spread themselves.
//!
//! The cheapest checks come first, and each bounds the next:
//!
//! 1. `lexer` counts tokens and brackets, without allocating memory.
//! 2. `apollo-compiler` parses the text. The operations and their variables are counted.
//! 3. `cost` counts arguments and directives, and estimates the cost of fields and the bytes of their arguments, with
//!    fragments spread.
//! 4. The fields get their types from the schema; `comparisons` bounds the search for fields that can't be merged.
//! 5. `apollo-compiler` validates the document. The result of these steps is stored (`prepared`). For a document that
//!    is sent again, only the cost is estimated again, because it depends on the variables.
//! 6. `variables` checks the values of the variables, which `given` has read for step 3; `merge` builds the operation
//!    for the executor, whose own validation is not needed.

mod argument_bytes;
mod argument_path;
mod comparisons;
mod cost;
mod diagnostics;
mod given;
mod list_length;
mod merge;
mod positions;
mod prepared;
mod shape;
mod types;
mod values;
mod variables;

use std::collections::HashMap;
use std::sync::Arc;

use apollo_compiler::executable::{Operation, OperationType as Kind};
use apollo_compiler::parser::Parser;
use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Node, ast};
use async_graphql::parser::types as executor;
use async_graphql::parser::types::OperationType;
use async_graphql::{Name, Positioned, Variables};

use super::absent_values::AbsentValues;
use super::given_variables::GivenVariables;
use super::lexer;
use super::limits::Limits;
use super::operation_error::{Limit, OperationError};
use merge::Merge;
use positions::Positions;
use prepared::Prepared;
use values::Values;

pub(super) use shape::Shape;
pub use types::{CheckedScalar, InvalidSchema, TypeSystem};

/// Maximum depth of the parser's recursion. The lexer has limited the depth of brackets before.
const PARSER_RECURSION: usize = 200;

/// A document, and the name of the operation to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selected<'a> {
    pub(super) query: &'a str,
    pub(super) operation: Option<&'a str>,
}

/// An operation that may run.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) kind: OperationType,
    /// The merged operation alone, without named fragments and without directives.
    pub(super) document: executor::ExecutableDocument,
    /// The values of the variables that the operation declares, with defaults.
    pub(super) variables: Variables,
    /// Shape of the operation's responses.
    pub(super) shape: Shape,
    /// Whether the operation reads the schema: `__schema` or `__type`.
    pub(super) introspects: bool,
    /// Arguments and input fields whose variable has no value.
    pub(super) absent: AbsentValues,
    /// Cost of the document's operations.
    pub(super) cost: u64,
}

/// Checks a document against the schema and the limits, and merges the selected operation.
pub(super) fn check(
    selected: Selected<'_>,
    given: &GivenVariables,
    types: &TypeSystem,
    limits: &Limits,
) -> Result<Checked, OperationError> {
    let positions = Positions::new(selected.query);
    let (prepared, given, cost) = prepare(selected, given, types, &positions, limits)?;
    let document = &prepared.document;
    let operation = select(document, selected.operation)?;
    let variables = variables::coerce(types.schema(), &operation.variables, given, &positions)?;
    let values = Values {
        syntax: &prepared.syntax,
        types,
        definitions: &operation.variables,
        variables: &variables,
        positions: &positions,
    };
    let (fragments, allowed) = (&document.fragments, limits.comparisons);
    let mut merge = Merge { fragments, values, visited: 0, allowed, absent: AbsentValues::default() };
    let position = positions.of(operation.location());
    let (set, shape) = merge.sets(operation.object_type(), &[&operation.selection_set], position)?;
    let absent = merge.absent;
    let kind = match operation.operation_type {
        Kind::Query => OperationType::Query,
        Kind::Mutation => OperationType::Mutation,
        Kind::Subscription => OperationType::Subscription,
    };
    if kind == OperationType::Subscription && shape.len() != 1 {
        return Err(OperationError::rule("A subscription needs exactly one root field.", [position]));
    }
    let introspects = set.items.iter().any(|item| is_introspection(&item.node));
    let definition = executor::OperationDefinition {
        ty: kind,
        variable_definitions: definitions(&operation.variables, &variables, &positions),
        directives: Vec::new(),
        selection_set: Positioned::new(set, position),
    };
    let document = document_of(operation, Positioned::new(definition, position));
    Ok(Checked { kind, document, variables, shape, introspects, absent, cost })
}

/// Parses and validates a document, unless that was done for an earlier request, and checks its cost. Also returns the
/// values of the variables, because the cost depends on them, and the cost.
fn prepare(
    selected: Selected<'_>,
    given: &GivenVariables,
    types: &TypeSystem,
    positions: &Positions<'_>,
    limits: &Limits,
) -> Result<(Arc<Prepared>, Variables, u64), OperationError> {
    let text = selected.query;
    if let Some(prepared) = types.recent().get(text, limits) {
        let given = given::read(given, &prepared.syntax, selected, types, limits)?;
        let cost = cost::check(&prepared.syntax, positions, &given, limits)?;
        return Ok((prepared, given, cost));
    }
    let syntax = parse(text, positions, limits)?;
    let given = given::read(given, &syntax, selected, types, limits)?;
    let cost = cost::check(&syntax, positions, &given, limits)?;
    let document = validate(&syntax, types, positions, limits)?;
    let prepared = Arc::new(Prepared { syntax, document, limits: *limits });
    types.recent().insert(text, &prepared);
    Ok((prepared, given, cost))
}

/// Returns whether a root field of a merged operation reads the schema.
fn is_introspection(item: &executor::Selection) -> bool {
    matches!(item, executor::Selection::Field(field) if ["__schema", "__type"].contains(&field.node.name.node.as_str()))
}

/// Validates the text of a document with all its operations. Values of variables are not checked.
pub(super) fn validate_text(text: &str, types: &TypeSystem, limits: &Limits) -> Result<(), OperationError> {
    let positions = Positions::new(text);
    let syntax = parse(text, &positions, limits)?;
    cost::check(&syntax, &positions, &Variables::default(), limits)?;
    validate(&syntax, types, &positions, limits).map(drop)
}

/// Parses a text within the limits on tokens, brackets, operations and variables.
fn parse(text: &str, positions: &Positions<'_>, limits: &Limits) -> Result<ast::Document, OperationError> {
    lexer::check(text, limits)?;
    // The parser also counts spaces, commas and comments as tokens.
    let tokens = limits.tokens.saturating_mul(3).saturating_add(8);
    let mut parser = Parser::new().recursion_limit(PARSER_RECURSION).token_limit(tokens);
    let syntax = parser.parse_ast(text, "request.graphql").map_err(|invalid| {
        let passed = [
            (Limit::Tokens, parser.tokens_reached(), tokens),
            (Limit::Brackets, parser.recursion_reached(), PARSER_RECURSION),
        ];
        let passed =
            passed.into_iter().find_map(|(limit, actual, allowed)| limit.check(actual as u64, allowed as u64).err());
        passed.unwrap_or_else(|| diagnostics::unparsable(&invalid.errors, positions))
    })?;
    check_definitions(&syntax, positions, limits)?;
    Ok(syntax)
}

/// Refuses a document with too many operations, with too many variables of one, or with definitions of types.
fn check_definitions(syntax: &ast::Document, positions: &Positions<'_>, limits: &Limits) -> Result<(), OperationError> {
    let operations = syntax.definitions.iter().filter(|definition| definition.as_operation_definition().is_some());
    Limit::Operations.check(operations.count() as u64, limits.operations as u64)?;
    for definition in &syntax.definitions {
        match definition {
            ast::Definition::OperationDefinition(operation) => {
                Limit::Variables.check(operation.variables.len() as u64, limits.variables as u64)?;
            }
            ast::Definition::FragmentDefinition(_) => {}
            other => {
                let position = positions.of(other.location());
                return Err(OperationError::rule(
                    "A request may only contain operations and fragments; remove the other definitions.",
                    [position],
                ));
            }
        }
    }
    Ok(())
}

fn validate(
    syntax: &ast::Document,
    types: &TypeSystem,
    positions: &Positions<'_>,
    limits: &Limits,
) -> Result<Valid<ExecutableDocument>, OperationError> {
    let document = match syntax.to_executable(types.schema()) {
        Ok(document) => document,
        Err(invalid) => {
            diagnostics::rule_violations(&invalid.errors, syntax, positions, limits)?;
            invalid.partial
        }
    };
    comparisons::check(&document, types, limits.comparisons)?;
    match document.validate(types.schema()) {
        Ok(document) => Ok(document),
        Err(invalid) => {
            diagnostics::rule_violations(&invalid.errors, syntax, positions, limits)?;
            Ok(Valid::assume_valid(invalid.partial))
        }
    }
}

/// Returns the operation to run (GraphQL specification, section 6.1, `GetOperation`). A valid document has at least one
/// operation.
fn select<'a>(document: &'a ExecutableDocument, name: Option<&str>) -> Result<&'a Node<Operation>, OperationError> {
    document.operations.get(name).map_err(|_| match name {
        Some(name) => OperationError::rule(format!("The document has no operation named \"{name}\"."), []),
        None => OperationError::rule("The document has several operations; name one of them in operationName.", []),
    })
}

/// Returns the definitions of the variables that have a value. The executor looks up each definition by name.
fn definitions(
    definitions: &[Node<ast::VariableDefinition>],
    variables: &Variables,
    positions: &Positions<'_>,
) -> Vec<Positioned<executor::VariableDefinition>> {
    let present = definitions.iter().filter(|definition| variables.contains_key(definition.name.as_str()));
    let definition = |definition: &Node<ast::VariableDefinition>| {
        let position = positions.of(definition.location());
        let var_type = executor::Type::new(&definition.ty.to_string())?;
        let definition = executor::VariableDefinition {
            name: Positioned::new(Name::new(&definition.name), position),
            var_type: Positioned::new(var_type, position),
            directives: Vec::new(),
            default_value: None,
        };
        Some(Positioned::new(definition, position))
    };
    present.filter_map(definition).collect()
}

fn document_of(
    operation: &Operation,
    definition: Positioned<executor::OperationDefinition>,
) -> executor::ExecutableDocument {
    let operations = match &operation.name {
        Some(name) => executor::DocumentOperations::Multiple([(Name::new(name), definition)].into()),
        None => executor::DocumentOperations::Single(definition),
    };
    executor::ExecutableDocument { operations, fragments: HashMap::new() }
}

#[cfg(test)]
mod tests {
    use async_graphql::Pos;
    use serde_json::{Value as Json, json};

    use super::*;

    const SDL: &str = "type Query { f(a: Int, b: [Int!], c: [[Int]!], d: Int, in: In): Int }
                       input In { a: Int in: In list: [In] }";

    fn checked(query: &str, operation: Option<&str>, variables: Json) -> Result<Checked, OperationError> {
        let types = TypeSystem::from_sdl(SDL).unwrap();
        let given = Variables::from_json(variables).into();
        check(Selected { query, operation }, &given, &types, &Limits::default())
    }

    #[test]
    fn executor_gets_the_types_of_the_variables_that_have_a_value() {
        let query = "query ($a: Int, $b: [Int!]!, $c: [[Int]!], $d: Int) { f(a: $a, b: $b, c: $c, d: $d) }";
        let document = checked(query, None, json!({ "a": 1, "b": [2], "c": null })).unwrap().document;
        let (_, operation) = document.operations.iter().next().unwrap();
        let definitions = operation.node.variable_definitions.iter();
        let types = definitions.map(|definition| format!("{}: {}", definition.node.name, definition.node.var_type));
        assert_eq!(types.collect::<Vec<_>>(), ["a: Int", "b: [Int!]!", "c: [[Int]!]"]);
    }

    #[test]
    fn arguments_and_input_fields_whose_variable_has_no_value_are_reported_with_their_field() {
        let query = "query ($a: Int, $b: Int, $none: Int, $in: In) {
            f(a: $a, d: $none, in: { a: $none, list: { a: $b, in: { a: $none } } })
            g: f(in: $in)
            h: f(in: { list: [{ a: $a }, { a: $none }] }) }";
        let absent = checked(query, None, json!({ "a": 1, "b": null })).unwrap().absent;
        let of = |line, column| absent.of_field(Pos { line, column }).map(|path| path.join(".")).collect::<Vec<_>>();
        assert_eq!(of(2, 13), ["d", "in.a", "in.list.0.in.a"]);
        assert_eq!(of(3, 13), ["in"]);
        assert_eq!(of(4, 13), ["in.list.1.a"]);
        assert_eq!(of(1, 1), [""; 0]);
    }

    #[test]
    fn operation_must_be_named_if_the_document_has_several() {
        let (one, two) = ("query A { f }", "query A { f } query B { f }");
        for (query, name) in [("{ f }", None), (one, None), (one, Some("A")), (two, Some("B"))] {
            assert!(checked(query, name, json!({})).is_ok(), "{query} {name:?}");
        }
        for (query, name, expected) in [
            (two, None, "The document has several operations; name one of them in operationName."),
            (two, Some("C"), "The document has no operation named \"C\"."),
            ("{ f }", Some("A"), "The document has no operation named \"A\"."),
        ] {
            assert_eq!(checked(query, name, json!({})).unwrap_err().to_string(), expected, "{query} {name:?}");
        }
    }
}
