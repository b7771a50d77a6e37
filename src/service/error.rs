//! Errors of use cases: a rejection, which the caller can correct, or a fault, which it can't.

use std::sync::Arc;

use noetl_domain::ids::{Id, IdGenerationError};
use noetl_storage::budget::Exceeded;
use noetl_storage::error::{DatabaseName, StorageError};

/// Reasons for a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectionCode {
    /// A field is missing, malformed or out of bounds.
    InvalidInput,
    /// A field names an object that does not exist.
    NotFound,
    /// A field names an object of the wrong kind.
    WrongKind,
    /// The current state does not allow the action.
    InvalidTransition,
    /// The object changed after the version that the caller expected.
    StaleVersion,
    /// The dedup key belongs to a different request.
    IdempotencyMismatch,
    /// The lease no longer settles its row.
    StaleLease,
    /// A field is too large.
    PayloadTooLarge,
    /// A database can't be reached; the same request may succeed later.
    ShardUnavailable,
    /// One item of several failed because of a fault of the server; the log has the cause.
    Internal,
}

/// A refusal that the caller can correct; nothing was written.
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
    #[error("storage failed")]
    Storage(#[source] Arc<StorageError>),
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

impl From<StorageError> for ServiceError {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::Unstorable { .. }) {
            return Rejection::invalid(
                "",
                "a value can't be stored or searched for: it has a NUL character, or a year out of range",
            )
            .into();
        }
        Self::Storage(Arc::new(error))
    }
}

impl ServiceError {
    /// Returns whether this is a rejection: the same request would be refused again.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// Returns the limit that the operation exceeded, if that is the cause.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::Storage(error) => error.exceeded(),
            Self::IdGenerationError(_) | Self::Rejected(_) | Self::NotOwner(_) => None,
        }
    }

    /// Returns the database that can't be reached, if that is the cause.
    #[must_use]
    pub fn unavailable(&self) -> Option<DatabaseName> {
        match self {
            Self::Storage(error) => error.unavailable(),
            // Without the cluster database a lease can't be renewed.
            Self::IdGenerationError(NoIdReason::LeaseLost) => Some(DatabaseName::Cluster),
            Self::IdGenerationError(_) | Self::Rejected(_) | Self::NotOwner(_) => None,
        }
    }
}
