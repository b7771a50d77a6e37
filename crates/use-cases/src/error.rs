//! Errors of use cases: a rejection, which the caller can correct, or a fault, which it can't.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_graphql::Enum;
use async_graphql::resolver_utils::EnumType;

use noetl_domain::ids::{Id, IdGenerationError};
use noetl_domain::shard::ShardIndex;
use noetl_runtime::coalesce::Unfinished;
use noetl_storage::budget::Exceeded;
use noetl_storage::error::{DatabaseName, MAX_PATH_KINDS, StorageError};

/// Code of a user error: the reason a mutation was refused.
// This is the only list of these codes. The API's enum, with these descriptions, and docs/errors.md derive from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Enum)]
#[graphql(name = "UserErrorCode")]
pub enum RejectionCode {
    /// A field is missing, malformed or out of range.
    InvalidInput,
    /// The object that a field names does not exist.
    NotFound,
    /// The caller may only use the data of its own tenant, and the request names or needs another one.
    ForeignTenant,
    /// The object that a field names is of the wrong kind.
    WrongKind,
    /// The current status does not allow the action.
    InvalidTransition,
    /// The object has changed since the expected version. Read it again before the next attempt.
    StaleVersion,
    /// The dedup key belongs to a different request.
    IdempotencyMismatch,
    /// Another event with this id or key is in the log. The event was not stored.
    EventIdConflict,
    /// The lease does not hold the outbox entry: the entry was settled, or another caller has claimed it since. A lease
    /// that has expired is not extended.
    StaleLease,
    /// A field is too large.
    PayloadTooLarge,
    /// A database can't be reached, or data is being moved from it to another one. If the request is a mutation, it is
    /// unknown whether anything was written. The same request may succeed later.
    ShardUnavailable,
    /// The operation, or a statement of it in a database, did not end in time. A mutation may have written.
    Timeout,
    /// The server failed to process one item of several. The server's log contains the cause.
    Internal,
}

impl RejectionCode {
    /// Returns every code.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::items().iter().map(|item| item.value)
    }

    /// Returns the name of the code in responses and in the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::items().iter().find(|item| item.value == self).map_or("", |item| item.name)
    }

    /// Returns whether the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::ShardUnavailable | Self::Timeout)
    }

    /// Returns whether the error is a fault of the server or of a database, and not of the request.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::ShardUnavailable | Self::Timeout | Self::Internal)
    }

    /// Returns what the caller can do, for docs/errors.md.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::InvalidInput => "Correct the field that `field` names. The message says what is allowed.",
            Self::NotFound => "Check the id or the path, or create the object first.",
            Self::ForeignTenant => {
                "Leave the tenant out, or use a token of that tenant. What all tenants share needs a token without a tenant."
            }
            Self::WrongKind => "Name an object of the kind that the message asks for.",
            Self::InvalidTransition => "Read the object's status. Send an action that this status allows.",
            Self::StaleVersion => "Read the object again, decide again, and send the new version.",
            Self::IdempotencyMismatch => "Use a new dedup key for a different request.",
            Self::EventIdConflict => {
                "Send the event with another key, or with a new id, which `reserveEventIds` gives. Send a repetition unchanged."
            }
            Self::StaleLease => "Drop the entry. Its current holder settles it.",
            Self::PayloadTooLarge => "Send a smaller value. The message has the limit.",
            Self::ShardUnavailable => {
                "Send the same request again after a pause. Use a dedup key to start an execution at most once."
            }
            Self::Timeout => "Read the state first, then send the request again.",
            Self::Internal => "Ask the operator to search the server's log for the cause.",
        }
    }
}

/// A refusal of a request, or of one item of several. Unless the code is [`RejectionCode::ShardUnavailable`] or
/// [`RejectionCode::Timeout`], nothing was written for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// Reason for the refusal.
    pub code: RejectionCode,
    /// Sentence for the caller.
    pub message: String,
    /// Path of the input field at fault, outermost field first.
    pub field: Vec<String>,
}

impl Rejection {
    /// Creates a rejection of `field`, a dotted path into the input.
    #[must_use]
    pub fn new(code: RejectionCode, field: &str, message: impl Into<String>) -> Self {
        let field = field.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { code, message: message.into(), field }
    }

    /// Creates a rejection with the code [`RejectionCode::InvalidInput`].
    #[must_use]
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(RejectionCode::InvalidInput, field, message)
    }

    /// Returns the rejection with `outer`, a dotted path, before its field.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field.splice(0..0, outer.split('.').map(str::to_owned));
        self
    }

    /// Creates a rejection with the code [`RejectionCode::NotFound`].
    #[must_use]
    pub fn not_found(field: &str, message: impl Into<String>) -> Self {
        Self::new(RejectionCode::NotFound, field, message)
    }
}

/// Error of a use case. It is cheap to clone, because one fault can fail many items of a batch.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The caller can correct this.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The caller may change only the subscriptions that it registered, and another caller registered this one.
    #[error("subscription {0} was registered by another caller; changing its state needs the capability LIFECYCLE")]
    NotOwner(Id),
    /// A database failed.
    #[error(transparent)]
    Storage(Arc<StorageError>),
    /// The item of a live subscription that needed this has ended.
    #[error("the item that needed this has ended")]
    Abandoned,
    /// A statement that this call shared with others panicked.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// There is something else under the id of a new execution or source subscription. Nothing was created.
    #[error("another program has used {0}, the id of a new log")]
    IdTaken(Id),
    /// No id can be made: this replica holds no machine-id lease, or no larger id than the given one exists.
    #[error("no id can be made")]
    IdGenerationError(#[from] NoIdReason),
}

/// Reasons for which a replica can't make an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoIdReason {
    /// The lease on the machine id expired and could not be renewed.
    #[error("the lease on the machine id is lost")]
    LeaseLost,
    /// The generator can't make it.
    #[error(transparent)]
    Generator(#[from] IdGenerationError),
}

/// Errors of a read of many executions, by the executions that could not be read. They are not by shard, because the
/// shard of an execution may be another one as soon as it has been read.
pub type ReadFailures = BTreeMap<Id, ServiceError>;

impl From<StorageError> for ServiceError {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::Unstorable { .. }) {
            return Rejection::invalid(
                "",
                "a value can't be stored or searched for: it has a NUL character, or a year out of range",
            )
            .into();
        }
        if matches!(error, StorageError::TooManyPaths) {
            let message = format!(
                "more than {MAX_PATH_KINDS} combinations of a path and a status in a shard begin with pathPrefix; use a longer \
                 prefix, or a shorter range of start times"
            );
            return Rejection::invalid("filter.pathPrefix", message).into();
        }
        Self::Storage(Arc::new(error))
    }
}

impl ServiceError {
    /// Returns the error with `outer`, a dotted path, before the field of a rejection.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        match self {
            Self::Rejected(rejection) => Self::Rejected(rejection.within(outer)),
            fault => fault,
        }
    }

    /// Returns the shard that could not be reached in time, if that is the cause.
    #[must_use]
    pub fn failed_shard(&self) -> Option<ShardIndex> {
        match self.unavailable().or_else(|| self.timed_out())? {
            DatabaseName::Shard(shard) => Some(shard),
            DatabaseName::Cluster => None,
        }
    }

    /// Returns whether this is a rejection: the same request would be refused again.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// Returns the code of a rejection.
    #[must_use]
    pub fn rejected_with(&self) -> Option<RejectionCode> {
        if let Self::Rejected(rejection) = self { Some(rejection.code) } else { None }
    }

    /// Returns the limit that the operation exceeded, if that is the cause.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        self.of_storage()?.exceeded()
    }

    /// Returns the database that did not finish a statement in time, if that is the cause.
    #[must_use]
    pub fn timed_out(&self) -> Option<DatabaseName> {
        self.of_storage()?.timed_out()
    }

    /// Returns the shard that refused a row of a bucket that is being moved or has moved, if that is the cause.
    #[must_use]
    pub fn bucket_moves(&self) -> Option<DatabaseName> {
        self.of_storage()?.bucket_moves()
    }

    /// Returns the database that can't be reached, or the shard that refused a row of a bucket that is being moved or has
    /// moved, if that is the cause.
    #[must_use]
    pub fn unavailable(&self) -> Option<DatabaseName> {
        match self {
            // Without the cluster database a lease can't be renewed. At its ceiling, the next renewal raises it.
            Self::IdGenerationError(
                NoIdReason::LeaseLost | NoIdReason::Generator(IdGenerationError::CeilingReached { .. }),
            ) => Some(DatabaseName::Cluster),
            other => other.of_storage()?.unavailable().or_else(|| other.bucket_moves()),
        }
    }

    fn of_storage(&self) -> Option<&StorageError> {
        if let Self::Storage(error) = self { Some(error) } else { None }
    }
}
