//! Conversion of failures to responses. A rejection of a mutation becomes a user error in its payload. Every other
//! failure becomes an entry of `errors[]` with a stable `extensions.code`. The cause is logged once, and no internal
//! detail reaches the client.

use async_graphql::{Enum, Error, ErrorExtensions, SimpleObject};

use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::shard::ShardIndex;
use noetl_storage::budget::Exceeded;
use noetl_storage::error::DatabaseName;

/// Code of a user error: the reason a mutation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "RejectionCode")]
pub enum UserErrorCode {
    /// A field is missing, malformed or out of range.
    InvalidInput,
    /// The object that a field names does not exist.
    NotFound,
    /// The object that a field names is of the wrong kind.
    WrongKind,
    /// The current state does not allow the action.
    InvalidTransition,
    /// The object has changed since the expected version. Read it again before the next attempt.
    StaleVersion,
    /// The dedup key belongs to a different request.
    IdempotencyMismatch,
    /// The lease can no longer settle the row: the row was settled, or another caller has claimed it since.
    StaleLease,
    /// A field is too large.
    PayloadTooLarge,
    /// A database can't be reached, so it is unknown whether anything was written. The same request may succeed later.
    ShardUnavailable,
    /// The server failed to process one item of several. The server's log contains the cause.
    Internal,
}

/// An expected refusal of a request or of one of its items. Unless the code is `SHARD_UNAVAILABLE`, nothing was written
/// for it.
#[derive(Debug, Clone, SimpleObject)]
pub struct UserError {
    /// Code of the error.
    pub code: UserErrorCode,
    /// Explanation of the error for a person.
    pub message: String,
    /// Path of the input field that caused the error, outermost name first; null if no single field caused it.
    pub field: Option<Vec<String>>,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl From<Rejection> for UserError {
    fn from(rejection: Rejection) -> Self {
        let field = (!rejection.field.is_empty()).then_some(rejection.field);
        let retryable = rejection.code == RejectionCode::ShardUnavailable;
        Self { code: rejection.code.into(), message: rejection.message, field, retryable }
    }
}

/// Converts the failure of a mutation to a user error for its payload, or a fault to an error of the field.
pub fn user_error(error: ServiceError) -> Result<UserError, Error> {
    match (error.unavailable(), error) {
        (Some(database), _) => Ok(UserError {
            code: UserErrorCode::ShardUnavailable,
            message: unavailable(database),
            field: None,
            retryable: true,
        }),
        (None, ServiceError::Rejected(rejection)) => Ok(rejection.into()),
        (None, error) => Err(field_error(error)),
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

/// Converts a failure to an error of the field, and logs a fault with its causes.
#[must_use]
pub fn field_error(error: impl Into<ServiceError>) -> Error {
    let error = error.into();
    if let Some(database) = error.unavailable() {
        tracing::warn!(%database, "returned SHARD_UNAVAILABLE");
        return error_with_code("SHARD_UNAVAILABLE", unavailable(database));
    }
    if let ServiceError::NotOwner(_) = error {
        return error_with_code("FORBIDDEN", error.to_string());
    }
    if let Some(exceeded) = error.exceeded() {
        return limit_exceeded(exceeded);
    }
    if let ServiceError::Rejected(rejection) = error {
        let field = rejection.field.join(".");
        return error_with_code(rejection_name(rejection.code), rejection.message)
            .extend_with(|_, e| e.set("field", field.clone()));
    }
    let mut chain = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(error) = cause {
        chain = format!("{chain}: {error}");
        cause = error.source();
    }
    tracing::error!(error = chain, "returned INTERNAL");
    error_with_code("INTERNAL", "the server failed; the server's log contains the cause".to_owned())
}

/// Returns an error of the field with a stable code.
#[must_use]
pub fn error_with_code(code: &'static str, message: String) -> Error {
    Error::new(message).extend_with(|_, extensions| extensions.set("code", code))
}

/// Returns the error of an operation that exceeded a limit.
#[must_use]
pub fn limit_exceeded(exceeded: Exceeded) -> Error {
    error_with_code("LIMIT_EXCEEDED", exceeded.to_string()).extend_with(|_, extensions| {
        extensions.set("limit", exceeded.limit.name());
        extensions.set("allowed", exceeded.allowed);
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
    format!("{database} can't be reached or is too busy; it is unknown whether anything was written; try again shortly")
}

/// Returns the name of a user error's code.
#[must_use]
pub fn code_name(code: UserErrorCode) -> &'static str {
    rejection_name(code.into())
}

fn rejection_name(code: RejectionCode) -> &'static str {
    match code {
        RejectionCode::InvalidInput => "INVALID_INPUT",
        RejectionCode::NotFound => "NOT_FOUND",
        RejectionCode::WrongKind => "WRONG_KIND",
        RejectionCode::InvalidTransition => "INVALID_TRANSITION",
        RejectionCode::StaleVersion => "STALE_VERSION",
        RejectionCode::IdempotencyMismatch => "IDEMPOTENCY_MISMATCH",
        RejectionCode::StaleLease => "STALE_LEASE",
        RejectionCode::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
        RejectionCode::ShardUnavailable => "SHARD_UNAVAILABLE",
        RejectionCode::Internal => "INTERNAL",
    }
}
