//! Errors of publishing to the event stream.

use noetl_storage::error::StorageError;

/// Failure to publish a batch or to read the stream.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The broker can't be reached, or refused the request.
    #[error("broker error: {0}")]
    Broker(String),
    /// The stream does not end at the expected sequence: another client appended, or a message was lost. The caller
    /// reads the stream's end and continues from there.
    #[error("the stream did not end at the expected sequence")]
    OutOfStep,
    /// The stream was deleted while the leader used it. The next leader creates it if it does not exist.
    #[error("the event stream was deleted or created again")]
    Recreated,
    /// The broker treated the event for this sequence as a duplicate.
    #[error("the broker treated the event for sequence {0} as a duplicate")]
    Duplicate(u64),
    /// The batch could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A message of the stream has a tailer's headers, but is malformed.
    #[error("message {sequence} of the event stream is broken: {reason}; publishing stops until it is deleted")]
    Broken {
        /// Sequence of the message.
        sequence: u64,
        /// Cause.
        reason: String,
    },
}

pub(super) fn broker(error: impl std::fmt::Display) -> PublishError {
    PublishError::Broker(error.to_string())
}
