//! Reasons an operation is refused because of its document or its variables.
//!
//! Over HTTP these are GraphQL request errors (200 as `application/json`, 400 as `application/graphql-response+json`).
//! Over the streaming transports they are messages of the operation, and the connection stays open.

use async_graphql::{ErrorExtensionValues, Pos, ServerError};

use plain_json::Unrepresentable;

/// A request error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The document or its variables ask for more than a limit allows.
    #[error("The {} is limited to {allowed}; ask for less, or split the operation.", limit.noun())]
    LimitExceeded {
        /// The limit that was passed.
        limit: Limit,
        /// The largest allowed amount.
        allowed: u64,
        /// The amount at which the check stopped. The request may contain more.
        actual: u64,
    },
    /// The request contains a value that can't be represented unchanged.
    #[error("{0}.")]
    Unrepresentable(Unrepresentable),
    /// The document is not GraphQL.
    #[error("The document could not be parsed: {message}")]
    Unparsable {
        /// The message of the parser.
        message: String,
        /// Position at which the parser stopped.
        positions: Vec<Pos>,
    },
    /// The caller may not read the schema.
    #[error("This caller may not read the schema by introspection.")]
    Introspection,
    /// The manifest has no document with the id of the request.
    #[error("No document has this id; send the id of a document in the server's manifest.")]
    DocumentNotFound,
    /// The manifest is enforced and does not have the document of the request.
    #[error("This document is not in the server's manifest; send the documentId of one that is.")]
    DocumentNotTrusted,
    /// The document is GraphQL, but violates rules of validation.
    #[error("{}", .0.first().map(|violation| violation.message.as_str()).unwrap_or_default())]
    RuleViolations(Vec<RuleViolation>),
}

/// A violated rule of validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleViolation {
    /// The reason, and often the correction to make.
    pub message: String,
    /// Positions of the violation in the document.
    pub positions: Vec<Pos>,
    /// Path from the field's arguments to the value that is refused, if one is; list indexes are decimal texts.
    pub field: Option<Vec<String>>,
}

impl OperationError {
    /// Returns the error for a rule of validation that is violated at `positions`.
    pub(super) fn rule(message: impl Into<String>, positions: impl Into<Vec<Pos>>) -> Self {
        Self::RuleViolations(vec![RuleViolation { message: message.into(), positions: positions.into(), field: None }])
    }

    /// Returns the error for the value of an argument that does not fit its type.
    pub(super) fn value(message: impl Into<String>, position: Pos, field: Vec<String>) -> Self {
        Self::RuleViolations(vec![RuleViolation {
            message: message.into(),
            positions: vec![position],
            field: Some(field),
        }])
    }

    /// Returns the error without the names of the schema, for a caller that may not read it.
    pub(super) fn without_schema(mut self) -> Self {
        if let Self::RuleViolations(rules) = &mut self {
            for rule in rules {
                rule.message.clear();
                rule.message
                    .push_str("The document or its variables do not fit the schema, which this caller may not read.");
            }
        }
        self
    }

    /// Returns the stable code for `errors[].extensions.code`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::LimitExceeded { .. } => "LIMIT_EXCEEDED",
            Self::Unrepresentable(_) => "INVALID_INPUT",
            Self::Unparsable { .. } => "GRAPHQL_PARSE_FAILED",
            Self::Introspection => "FORBIDDEN",
            Self::DocumentNotFound => "DOCUMENT_NOT_FOUND",
            Self::DocumentNotTrusted => "DOCUMENT_NOT_TRUSTED",
            Self::RuleViolations(_) => "GRAPHQL_VALIDATION_FAILED",
        }
    }

    /// Returns the message of each error.
    pub(super) fn messages(self) -> impl Iterator<Item = String> {
        self.into_errors().into_iter().map(|error| error.message)
    }

    /// Returns the errors for the response.
    pub(super) fn into_errors(self) -> Vec<ServerError> {
        let mut extensions = ErrorExtensionValues::default();
        extensions.set("code", self.code());
        extensions.set("retryable", false);
        if let Self::LimitExceeded { limit, allowed, actual } = &self {
            extensions.set("limit", limit.name());
            extensions.set("allowed", *allowed);
            extensions.set("actual", *actual);
        }
        if let Self::Unrepresentable(value) = &self {
            extensions.set("field", value.field.clone());
        }
        let error = |message, positions| {
            let mut error = ServerError::new(message, None);
            error.extensions = Some(extensions.clone());
            error.locations = positions;
            error
        };
        match self {
            Self::RuleViolations(rules) => {
                let violation = |rule: RuleViolation| {
                    let mut error = error(rule.message, rule.positions);
                    if let (Some(field), Some(extensions)) = (rule.field, &mut error.extensions) {
                        extensions.set("field", field);
                    }
                    error
                };
                rules.into_iter().map(violation).collect()
            }
            Self::Unparsable { ref positions, .. } => vec![error(self.to_string(), positions.clone())],
            _ => vec![error(self.to_string(), Vec::new())],
        }
    }
}

/// A limit on one operation. The fields of [`super::Limits`] hold the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of the document.
    DocumentBytes,
    /// Tokens of the document.
    Tokens,
    /// Depth of nested brackets in the document.
    Brackets,
    /// Depth of nested fields.
    Depth,
    /// Depth of nested selection sets.
    Nesting,
    /// Operations of the document.
    Operations,
    /// Variables that an operation defines.
    Variables,
    /// Values in the variables that an operation declares.
    Values,
    /// Arguments of a field or directive.
    Arguments,
    /// Directives of an element.
    Directives,
    /// Fields and fragments, counted after fragments are spread.
    Fields,
    /// Aliases, counted after fragments are spread.
    Aliases,
    /// Estimated number of values in the response.
    Cost,
    /// Bytes of the arguments' values, counted at each use of a variable.
    ArgumentBytes,
    /// Comparisons of fields with equal response keys.
    Comparisons,
    /// Bytes of the response, or of one item of a subscription.
    ResponseBytes,
    /// Bytes of the document and the variables of a subscription.
    SubscriptionBytes,
    /// Operations that run at once on one WebSocket.
    OperationsPerSocket,
}

impl Limit {
    /// Returns an error if `actual` is greater than `allowed`.
    pub(super) fn check(self, actual: u64, allowed: u64) -> Result<(), OperationError> {
        if actual > allowed {
            return Err(OperationError::LimitExceeded { limit: self, allowed, actual });
        }
        Ok(())
    }

    /// Returns the name of the limit in metrics and in `extensions.limit`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DocumentBytes => "document_bytes",
            Self::Tokens => "tokens",
            Self::Brackets => "brackets",
            Self::Depth => "depth",
            Self::Nesting => "nesting",
            Self::Operations => "operations",
            Self::Variables => "variables",
            Self::Values => "values",
            Self::Arguments => "arguments",
            Self::Directives => "directives",
            Self::Fields => "fields",
            Self::Aliases => "aliases",
            Self::Cost => "cost",
            Self::ArgumentBytes => "argument_bytes",
            Self::Comparisons => "comparisons",
            Self::ResponseBytes => "response_bytes",
            Self::SubscriptionBytes => "subscription_bytes",
            Self::OperationsPerSocket => "operations_per_socket",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::DocumentBytes => "number of bytes in a document",
            Self::Tokens => "number of tokens in a document",
            Self::Brackets => "depth of nested brackets",
            Self::Depth => "depth of fields",
            Self::Nesting => "depth of selection sets and fragments",
            Self::Operations => "number of operations in a document",
            Self::Variables => "number of variables that an operation defines",
            Self::Values => "number of values in the variables, for texts of this length,",
            Self::Arguments => "number of arguments of a field or directive",
            Self::Directives => "number of directives on one element",
            Self::Fields => "number of fields and fragments, with fragments spread,",
            Self::Aliases => "number of aliases, with fragments spread,",
            Self::Cost => "estimated number of values in a response",
            Self::ArgumentBytes => "number of bytes in arguments, counted at each use of a variable,",
            Self::Comparisons => "number of comparisons of fields with the same name or alias",
            Self::ResponseBytes => "number of bytes in a response",
            Self::SubscriptionBytes => "number of bytes in the document and the variables of a subscription",
            Self::OperationsPerSocket => "number of operations that run at once on a connection",
        }
    }
}
