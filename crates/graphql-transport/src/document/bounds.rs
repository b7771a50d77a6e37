//! Limits on the number of operations of a document, and on the number of variables, arguments and directives of each
//! operation, fragment and field. They are counted in one pass over the syntax tree, without spreading fragments.
//!
//! Validation compares each argument, directive and variable with the others of the same element, and reports each
//! invalid one. The limits here keep this work proportional to the length of the document.

use apollo_compiler::Node;
use apollo_compiler::ast::{Argument, Definition, DirectiveList, Document, Selection};

use super::positions::Positions;
use crate::limits::Limits;
use crate::operation_error::{Limit, OperationError};

/// Refuses a document with too many operations, with too many arguments, directives or variables on one element, or
/// with definitions of types.
pub(super) fn check(document: &Document, positions: &Positions<'_>, limits: &Limits) -> Result<(), OperationError> {
    let operations = document.definitions.iter().filter(|definition| definition.as_operation_definition().is_some());
    Limit::Operations.check(operations.count() as u64, limits.operations as u64)?;
    let bounds = Bounds { limits };
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(operation) => {
                Limit::Variables.check(operation.variables.len() as u64, limits.variables as u64)?;
                for variable in &operation.variables {
                    bounds.directives(&variable.directives)?;
                }
                bounds.directives(&operation.directives)?;
                bounds.selections(&operation.selection_set)?;
            }
            Definition::FragmentDefinition(fragment) => {
                bounds.directives(&fragment.directives)?;
                bounds.selections(&fragment.selection_set)?;
            }
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

struct Bounds<'a> {
    limits: &'a Limits,
}

impl Bounds<'_> {
    /// Recursive. The depth is bounded because the lexer limits the depth of brackets.
    fn selections(&self, selections: &[Selection]) -> Result<(), OperationError> {
        for selection in selections {
            match selection {
                Selection::Field(field) => {
                    self.arguments(&field.arguments)?;
                    self.directives(&field.directives)?;
                    self.selections(&field.selection_set)?;
                }
                Selection::FragmentSpread(spread) => self.directives(&spread.directives)?,
                Selection::InlineFragment(inline) => {
                    self.directives(&inline.directives)?;
                    self.selections(&inline.selection_set)?;
                }
            }
        }
        Ok(())
    }

    fn arguments(&self, arguments: &[Node<Argument>]) -> Result<(), OperationError> {
        Limit::Arguments.check(arguments.len() as u64, self.limits.arguments as u64)
    }

    fn directives(&self, directives: &DirectiveList) -> Result<(), OperationError> {
        Limit::Directives.check(directives.len() as u64, self.limits.directives as u64)?;
        directives.iter().try_for_each(|directive| self.arguments(&directive.arguments))
    }
}
