//! Conversion of failures to responses. In the payload of a mutation, a rejection, the failure of a shard, and the
//! failure of one item of several become user errors. Every other failure becomes an entry of `errors[]` with a stable
//! `extensions.code`. The cause is logged once, and no internal detail reaches the client.

use async_graphql::{Error, ErrorExtensions, SimpleObject};

use noetl_domain::shard::ShardIndex;
use noetl_runtime::causes::WithCauses;
use noetl_storage::budget::Exceeded;
use noetl_storage::error::DatabaseName;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

/// A rejection of a request or of one of its items, or the failure of a shard or of one item. Unless the code is
/// `SHARD_UNAVAILABLE` or `TIMEOUT`, nothing was written for it.
#[derive(Debug, Clone, SimpleObject)]
pub struct UserError {
    /// Code of the error.
    pub code: RejectionCode,
    /// Explanation of the error for a person.
    pub message: String,
    /// Path of the input field that caused the error, outermost name first; null if no single field caused it.
    pub field: Option<Vec<String>>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl UserError {
    /// Returns the error of an item of a list in the input: its path begins with the list's name and the index.
    #[must_use]
    pub fn of_item(self, list: &str, index: usize) -> Self {
        let path = [list.to_owned(), index.to_string()].into_iter().chain(self.field.into_iter().flatten());
        Self { field: Some(path.collect()), ..self }
    }
}

impl From<Rejection> for UserError {
    fn from(rejection: Rejection) -> Self {
        let field = (!rejection.field.is_empty()).then_some(rejection.field);
        let retryable = rejection.code.is_retryable();
        Self { code: rejection.code, message: rejection.message, field, retryable }
    }
}

/// Converts the failure of a mutation to a user error for its payload, or a fault to an error of the field.
pub fn user_error(error: ServiceError) -> Result<UserError, Error> {
    let unknown = |message: String| format!("{message}; it is unknown whether anything was written");
    if let Some(database) = error.unavailable() {
        return Ok(Rejection::new(RejectionCode::ShardUnavailable, "", unknown(unavailable(database))).into());
    }
    if let Some(database) = error.timed_out() {
        return Ok(Rejection::new(RejectionCode::Timeout, "", unknown(too_slow(database))).into());
    }
    match error {
        ServiceError::Rejected(rejection) => Ok(rejection.into()),
        error => Err(field_error(error)),
    }
}

/// Returns the result or the user error for a payload, or a fault as an error of the field.
pub fn result_or_user_error<T>(outcome: Result<T, ServiceError>) -> Result<(Option<T>, Vec<UserError>), Error> {
    match outcome {
        Ok(done) => Ok((Some(done), Vec::new())),
        Err(error) => Ok((None, vec![user_error(error)?])),
    }
}

/// Converts the failure of one item of several to a user error, so that it does not hide the results of the others.
#[must_use]
pub fn item_error(error: ServiceError) -> UserError {
    user_error(error).unwrap_or_else(|fault| Rejection::new(RejectionCode::Internal, "", fault.message).into())
}

/// Converts the failure to read what a mutation has written to a user error. Its message does not doubt the write.
#[must_use]
pub fn read_error(error: ServiceError) -> UserError {
    let code = if error.unavailable().is_some() {
        RejectionCode::ShardUnavailable
    } else if error.timed_out().is_some() {
        RejectionCode::Timeout
    } else {
        RejectionCode::Internal
    };
    Rejection::new(code, "", format!("what was written can't be read: {}", field_error(error).message)).into()
}

/// Converts a failure to an error of the field, and logs a fault with its causes.
#[must_use]
pub fn field_error(error: impl Into<ServiceError>) -> Error {
    let error = error.into();
    if let Some(database) = error.unavailable() {
        tracing::warn!(%database, "returned SHARD_UNAVAILABLE");
        return error_with_code("SHARD_UNAVAILABLE", unavailable(database));
    }
    if let Some(database) = error.timed_out() {
        tracing::warn!(%database, "returned TIMEOUT");
        return error_with_code("TIMEOUT", too_slow(database));
    }
    if let ServiceError::NotOwner(_) = error {
        return error_with_code("FORBIDDEN", error.to_string());
    }
    if let Some(exceeded) = error.exceeded() {
        return limit_exceeded(exceeded);
    }
    if let ServiceError::Rejected(rejection) = error {
        let error = error_with_code(rejection.code.name(), rejection.message);
        if rejection.field.is_empty() {
            return error;
        }
        return error.extend_with(|_, extensions| extensions.set("field", rejection.field.clone()));
    }
    tracing::error!(error = %WithCauses(&error), "returned INTERNAL");
    if let ServiceError::IdGenerationError(reason) = error {
        return error_with_code("INTERNAL", format!("no id can be made: {reason}"));
    }
    error_with_code("INTERNAL", "the server failed; the server's log contains the cause".to_owned())
}

/// Returns an error of the field with a stable code.
#[must_use]
pub fn error_with_code(code: &'static str, message: String) -> Error {
    let of_rejections = RejectionCode::all().map(|code| (code.name(), code.is_retryable()));
    let of_fields = FIELD_ERROR_CODES.iter().map(|code| (code.name, code.retryable));
    let retryable = of_rejections.chain(of_fields).any(|(name, retryable)| name == code && retryable);
    Error::new(message).extend_with(|_, extensions| {
        extensions.set("code", code);
        extensions.set("retryable", retryable);
    })
}

/// Returns the error of an operation that exceeded a limit.
#[must_use]
pub fn limit_exceeded(exceeded: Exceeded) -> Error {
    error_with_code("LIMIT_EXCEEDED", exceeded.to_string()).extend_with(|_, extensions| {
        extensions.set("limit", exceeded.limit.name());
        extensions.set("allowed", exceeded.allowed);
        extensions.set("actual", exceeded.actual);
    })
}

/// Returns the error of an operation that needs a shard which can't be reached.
#[must_use]
pub fn shard_unavailable(shard: ShardIndex) -> Error {
    error_with_code("SHARD_UNAVAILABLE", unavailable(DatabaseName::Shard(shard)))
}

/// Returns the error of a live subscription on a server that has no broker, or whose broker can't be reached.
#[must_use]
pub fn stream_unavailable() -> Error {
    error_with_code("STREAM_UNAVAILABLE", "the event stream can't be reached; try again shortly".to_owned())
}

fn unavailable(database: DatabaseName) -> String {
    format!("{database} can't be reached or is too busy; try again shortly")
}

fn too_slow(database: DatabaseName) -> String {
    format!("{database} did not answer in time; try again, or ask for less")
}

/// Codes of `errors[]` that are faults of the server, beside `TIMEOUT` and `INTERNAL`.
pub const FAULT_CODES: &[&str] = &["SHARD_UNAVAILABLE", "STREAM_UNAVAILABLE"];

/// Code of an entry of `errors[]`, for docs/errors.md. Entries can also have the codes of [`RejectionCode`].
#[derive(Debug, Clone, Copy)]
pub struct FieldErrorCode {
    /// Value of `extensions.code`.
    pub name: &'static str,
    /// Meaning of the code.
    pub meaning: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Action that the caller can take.
    pub advice: &'static str,
}

/// Every code of `errors[]` that is not a code of a user error. A test compares this list with the sources of this
/// module and of the transport.
pub const FIELD_ERROR_CODES: [FieldErrorCode; 11] = [
    FieldErrorCode {
        name: "BAD_REQUEST",
        meaning: "The HTTP request is not a GraphQL request that this server accepts.",
        retryable: false,
        advice: "Correct the request. The message says how.",
    },
    FieldErrorCode {
        name: "GRAPHQL_PARSE_FAILED",
        meaning: "The document is not GraphQL.",
        retryable: false,
        advice: "Correct the document at the given position.",
    },
    FieldErrorCode {
        name: "GRAPHQL_VALIDATION_FAILED",
        meaning: "The document or its variables do not fit the schema.",
        retryable: false,
        advice: "Compare the document with the schema.",
    },
    FieldErrorCode {
        name: "DOCUMENT_NOT_FOUND",
        meaning: "The manifest of trusted documents has no document with this id.",
        retryable: false,
        advice: "Add the document to the manifest, or send its text.",
    },
    FieldErrorCode {
        name: "DOCUMENT_NOT_TRUSTED",
        meaning: "The server accepts only the documents of its manifest.",
        retryable: false,
        advice: "Add the document to the manifest.",
    },
    FieldErrorCode {
        name: "UNAUTHENTICATED",
        meaning: "The request has no valid token, or the token has expired or was revoked.",
        retryable: false,
        advice: "Send a valid token.",
    },
    FieldErrorCode {
        name: "FORBIDDEN",
        meaning: "The caller, its origin or the host name has no access.",
        retryable: false,
        advice: "Ask the operator for the capability that the message names.",
    },
    FieldErrorCode {
        name: "LIMIT_EXCEEDED",
        meaning: "The request exceeds a limit. `extensions` has its name (`limit`), the number `allowed`, and the `actual` number at which the check stopped.",
        retryable: false,
        advice: "Ask for less: smaller pages, fewer fields, or several requests.",
    },
    FieldErrorCode {
        name: "OVERLOADED",
        meaning: "A resource of the server, or the caller's share of it, is used up.",
        retryable: true,
        advice: "Send the request again after the time in `Retry-After`.",
    },
    FieldErrorCode {
        name: "SHUTTING_DOWN",
        meaning: "The replica is shutting down.",
        retryable: true,
        advice: "Connect again, to another replica.",
    },
    FieldErrorCode {
        name: "STREAM_UNAVAILABLE",
        meaning: "The event stream can't be reached, or the server has no broker.",
        retryable: true,
        advice: "Subscribe again from the last cursor after a pause.",
    },
];
