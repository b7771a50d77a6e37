//! How failures reach a client: rejections of a mutation as `userErrors`, everything else as `errors[]` with a stable
//! `extensions.code`. The cause goes to the log, once; nothing internal goes out.

use async_graphql::{Enum, Error, ErrorExtensions, SimpleObject};

use crate::domain::shard::ShardIndex;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::storage::budget::Exceeded;
use crate::storage::error::DatabaseName;

/// Why a mutation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "RejectionCode")]
pub enum UserErrorCode {
    /// A field is missing, malformed or out of bounds.
    InvalidInput,
    /// What a field names does not exist.
    NotFound,
    /// What a field names exists, but is of another kind.
    WrongKind,
    /// The state does not allow it.
    InvalidTransition,
    /// Something happened since the version that was expected; read again and decide anew.
    StaleVersion,
    /// The dedup key belongs to a different request.
    IdempotencyMismatch,
    /// The lease no longer settles the row: it was settled, or somebody else has claimed it since.
    StaleLease,
    /// A field is too large.
    PayloadTooLarge,
    /// A database can't be reached, so whether anything was written is unknown; the same request may succeed later.
    ShardUnavailable,
    /// The server failed at one item of several; the operators' log says why.
    Internal,
}

/// An expected refusal. Unless its code is `SHARD_UNAVAILABLE`, nothing was written for what it is about.
#[derive(Debug, Clone, SimpleObject)]
pub struct UserError {
    /// What kind of refusal.
    pub code: UserErrorCode,
    /// A sentence that says what to do.
    pub message: String,
    /// The input field that it is about, outermost first.
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

/// A mutation's failure as its payload shows it, or, for a fault, as an error of the field.
pub fn user_error(error: ServiceError) -> Result<UserError, Error> {
    match (error.unavailable(), error) {
        (Some(database), _) => Ok(UserError {
            code: UserErrorCode::ShardUnavailable,
            message: unavailable(database),
            field: None,
            retryable: true,
        }),
        (None, ServiceError::Rejected(rejection)) => Ok(rejection.into()),
        (None, error) => Err(fault(error)),
    }
}

/// The failure of one item of several, which must not hide what became of the others.
#[must_use]
pub fn item_error(error: ServiceError) -> UserError {
    user_error(error).unwrap_or_else(|fault| Rejection::new(RejectionCode::Internal, "", fault.message).into())
}

/// A failure as an error of the field.
#[must_use]
pub fn fault(error: impl Into<ServiceError>) -> Error {
    let error = error.into();
    if let Some(database) = error.unavailable() {
        tracing::warn!(%database, "answered SHARD_UNAVAILABLE");
        return coded("SHARD_UNAVAILABLE", unavailable(database));
    }
    if let ServiceError::NotOwner(_) = error {
        return coded("FORBIDDEN", error.to_string());
    }
    if let Some(exceeded) = error.exceeded() {
        return limit_exceeded(exceeded);
    }
    if let ServiceError::Rejected(rejection) = error {
        let field = rejection.field.join(".");
        return coded(rejection_name(rejection.code), rejection.message)
            .extend_with(|_, e| e.set("field", field.clone()));
    }
    let mut chain = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(error) = cause {
        chain = format!("{chain}: {error}");
        cause = error.source();
    }
    tracing::error!(error = chain, "answered INTERNAL");
    coded("INTERNAL", "the server failed; the operators' log says why".to_owned())
}

/// An error of the field with a stable code.
#[must_use]
pub fn coded(code: &'static str, message: String) -> Error {
    Error::new(message).extend_with(|_, extensions| extensions.set("code", code))
}

/// The error of an operation that passed a limit.
#[must_use]
pub fn limit_exceeded(exceeded: Exceeded) -> Error {
    coded("LIMIT_EXCEEDED", exceeded.to_string()).extend_with(|_, extensions| {
        extensions.set("limit", exceeded.limit.name());
        extensions.set("allowed", exceeded.allowed);
    })
}

/// The answer where a shard is needed that can't be reached.
#[must_use]
pub fn shard_unavailable(shard: ShardIndex) -> Error {
    coded("SHARD_UNAVAILABLE", unavailable(DatabaseName::Shard(shard)))
}

/// The answer where live data is asked of a server that has no broker, or whose broker can't be reached.
#[must_use]
pub fn stream_unavailable() -> Error {
    coded("STREAM_UNAVAILABLE", "the event stream can't be reached; try again shortly".to_owned())
}

fn unavailable(database: DatabaseName) -> String {
    format!("{database} can't be reached, or is too busy; whether anything was written is unknown; try again shortly")
}

/// Name of a user error's code.
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
