//! Converts errors of the parser and of validation to request errors with line and column. Their number is bounded.

use apollo_compiler::ast::Document;
use apollo_compiler::diagnostic::ToCliReport;
use apollo_compiler::validation::DiagnosticList;

use super::argument_path;
use super::positions::Positions;
use crate::limits::Limits;
use crate::operation_error::{OperationError, RuleViolation};

/// Rule that this server checks itself, because the library is stricter than the specification.
///
/// The library counts each occurrence of a subscription's root field. The specification (section 5.2.3.1) counts fields
/// after they are merged.
const OWN_RULE: &str = "SubscriptionUsesMultipleFields";

/// Returns the error for a document that is not GraphQL.
pub(super) fn unparsable(errors: &DiagnosticList, positions: &Positions<'_>) -> OperationError {
    // The first error usually causes the errors after it.
    let first = errors.iter().next();
    let message = first.as_ref().map(|error| error.error.to_string()).unwrap_or_default();
    let position = first.and_then(|error| error.error.location()).map(|span| positions.at(span.offset()));
    OperationError::Unparsable { message, positions: position.into_iter().collect() }
}

/// Returns an error with the violated rules of validation, if any.
///
/// The message about a value names its argument.
pub(super) fn rule_violations(
    errors: &DiagnosticList,
    syntax: &Document,
    positions: &Positions<'_>,
    limits: &Limits,
) -> Result<(), OperationError> {
    let rules = errors.iter().filter(|error| error.error.unstable_error_name() != Some(OWN_RULE));
    let rules = rules.take(limits.errors).map(|error| {
        let message = error.error.unstable_compat_message().unwrap_or_else(|| error.error.to_string());
        let offset = error.error.location().map(|span| span.offset());
        let argument = offset.and_then(|offset| argument_path::at(syntax, offset));
        let message = argument.map(|path| format!("Argument \"{path}\": {message}")).unwrap_or(message);
        RuleViolation {
            message,
            positions: offset.map(|offset| positions.at(offset)).into_iter().collect(),
            field: None,
        }
    });
    let rules: Vec<_> = rules.collect();
    if rules.is_empty() { Ok(()) } else { Err(OperationError::RuleViolations(rules)) }
}
