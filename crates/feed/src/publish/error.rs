//! Errors of publishing to the event stream.

use super::leader::Leader;
use noetl_domain::feed::FeedOwner;
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

/// Reason for which a leader must not publish, although it holds the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum StandBack {
    /// The stream belongs to another feed.
    #[error(
        "the stream {stream} belongs to another feed ({}, system identifier {}); give this deployment streams of its own \
         with NOETL_EVENT_STREAM_PREFIX, or delete the stream if its deployment no longer exists",
        .owner.feed, .owner.system_identifier
    )]
    OtherFeed { stream: String, owner: FeedOwner },
    /// Another copy of the database publishes the same feed.
    #[error(
        "another copy of this database publishes to the stream {stream}: it has the system identifier {}, the timeline {} \
         and the database OID {}, this one has {}, {} and {}; stop the servers of the copy that is not needed, or give a \
         copy streams of its own with NOETL_EVENT_STREAM_PREFIX",
        .other.owner.system_identifier, .other.owner.timeline, .other.database,
        .this.owner.system_identifier, .this.owner.timeline, .this.database
    )]
    Rival { stream: String, other: Leader, this: Leader },
}

impl StandBack {
    /// Returns the label of the reason in metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::OtherFeed { .. } => "other_feed",
            Self::Rival { .. } => "rival",
        }
    }
}

pub(super) fn broker(error: impl std::fmt::Display) -> PublishError {
    PublishError::Broker(error.to_string())
}
