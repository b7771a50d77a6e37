//! What a use case answers when it does not succeed: a rejection, which is the caller's to mend, or a fault, which is not.

use std::sync::Arc;

use crate::domain::ids::{Id, NoId};
use crate::storage::budget::Exceeded;
use crate::storage::error::{DatabaseName, StorageError};

/// Why a request was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectionCode {
    /// A field is missing, malformed or out of bounds.
    InvalidInput,
    /// What a field names does not exist.
    NotFound,
    /// What a field names exists, but is of another kind.
    WrongKind,
    /// The state does not allow it.
    InvalidTransition,
    /// Something happened since the version that the caller expected.
    StaleVersion,
    /// The dedup key belongs to a different request.
    IdempotencyMismatch,
    /// The lease no longer settles what it was given for.
    StaleLease,
    /// A field is too large.
    PayloadTooLarge,
    /// A database can't be reached; the same request may succeed later.
    ShardUnavailable,
    /// The server failed at one item of several; the log says why.
    Internal,
}

/// A refusal that the caller can act on; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// What kind of refusal.
    pub code: RejectionCode,
    /// A sentence that says what to do.
    pub message: String,
    /// The input field that it is about, outermost first.
    pub field: Vec<String>,
}

impl Rejection {
    /// A rejection that is about `field`, a dotted path into the input.
    #[must_use]
    pub fn new(code: RejectionCode, field: &str, message: impl Into<String>) -> Self {
        let field = field.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { code, message: message.into(), field }
    }

    /// [`RejectionCode::InvalidInput`].
    #[must_use]
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(RejectionCode::InvalidInput, field, message)
    }

    /// [`RejectionCode::NotFound`].
    #[must_use]
    pub fn not_found(field: &str, message: impl Into<String>) -> Self {
        Self::new(RejectionCode::NotFound, field, message)
    }
}

/// What went wrong in a use case. Cheap to clone: in a batch one fault may befall many items.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The caller's to mend.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The caller may move only the subscriptions that it registered, and did not register this one.
    #[error("subscription {0} was registered by another caller; moving it needs the capability LIFECYCLE")]
    NotOwner(Id),
    /// A database failed.
    #[error("storage failed")]
    Storage(#[source] Arc<StorageError>),
    /// No id can be made: this replica holds no machine lease, or an id to follow leaves no room.
    #[error("no id can be made")]
    NoId(#[from] NoIdReason),
}

/// Why a replica can't make ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoIdReason {
    /// The lease on the machine id ran out and could not be renewed.
    #[error("the machine id's lease is lost")]
    LeaseLost,
    /// See [`NoId`].
    #[error(transparent)]
    Generator(#[from] NoId),
}

impl From<StorageError> for ServiceError {
    fn from(error: StorageError) -> Self {
        if matches!(error, StorageError::Unstorable { .. }) {
            return Rejection::invalid(
                "",
                "a value can't be stored or looked for: a text with a NUL character, or a year out of range",
            )
            .into();
        }
        Self::Storage(Arc::new(error))
    }
}

impl ServiceError {
    /// Whether the same request would be refused again.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// The limit that the operation passed, where that is the trouble.
    #[must_use]
    pub fn exceeded(&self) -> Option<Exceeded> {
        match self {
            Self::Storage(error) => error.exceeded(),
            Self::NoId(_) | Self::Rejected(_) | Self::NotOwner(_) => None,
        }
    }

    /// The database that can't be reached, where that is the trouble.
    #[must_use]
    pub fn unavailable(&self) -> Option<DatabaseName> {
        match self {
            Self::Storage(error) => error.unavailable(),
            // Without the cluster database a lease can't be renewed.
            Self::NoId(NoIdReason::LeaseLost) => Some(DatabaseName::Cluster),
            Self::NoId(_) | Self::Rejected(_) | Self::NotOwner(_) => None,
        }
    }
}
