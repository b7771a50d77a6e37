//! Reasons for the end of a socket, with the close codes of the protocol.
//!
//! The codes 44xx are those of graphql-transport-ws; clients do not reconnect on them. 1001, 1002, 1007, 1009, 1012 and
//! 1013 are those of RFC 6455 and its registry; clients reconnect on them.

use std::io::ErrorKind;

use axum::extract::ws::{CloseFrame, Message};
use tungstenite::Error;
use tungstenite::error::ProtocolError;

/// Maximum number of bytes of a close frame's reason (RFC 6455, section 5.5: 125 with the code).
const MAX_REASON: usize = 123;

/// The end of a socket.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Close {
    /// The client closed, or the connection is gone.
    #[error("")]
    Gone,
    #[error("No message or pong arrived in time")]
    IdleTimeout,
    #[error("Protocol error: {0}")]
    Protocol(ProtocolError),
    #[error("Text is not UTF-8")]
    NotUtf8,
    #[error("{0}")]
    TooBig(&'static str),
    #[error("Service restart")]
    Restart,
    #[error("Messages are not read fast enough")]
    Slow,
    #[error("Too many connections or unfinished messages; try again later")]
    Overloaded,
    #[error("{0}")]
    BadMessage(String),
    #[error("Unauthorized")]
    Unauthorized,
    #[error("Forbidden")]
    Forbidden,
    #[error("The token has expired or was withdrawn")]
    Expired,
    #[error("Subprotocol not acceptable")]
    Subprotocol,
    #[error("Connection initialisation timeout")]
    InitTimeout,
    #[error("Subscriber for {0} already exists")]
    Duplicate(String),
    #[error("Too many initialisation requests")]
    TooManyInits,
}

impl Close {
    /// Converts a read error of axum's WebSocket, whose cause is an error of tungstenite.
    pub(super) fn from_read_error(error: axum::Error) -> Self {
        match error.into_inner().downcast_ref::<Error>() {
            Some(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Self::Gone,
            Some(Error::Protocol(error)) => Self::Protocol(error.clone()),
            Some(Error::Utf8(_)) => Self::NotUtf8,
            Some(Error::Io(error)) if error.kind() == ErrorKind::OutOfMemory => Self::Overloaded,
            Some(Error::Capacity(_)) => Self::TooBig("The message is too big"),
            _ => Self::Gone,
        }
    }

    /// Returns the close code; `None` if the client is already gone.
    pub(super) fn code(&self) -> Option<u16> {
        Some(match self {
            Self::Gone => return None,
            Self::IdleTimeout => 1001,
            Self::Protocol(_) => 1002,
            Self::NotUtf8 => 1007,
            Self::TooBig(_) => 1009,
            Self::Restart => 1012,
            Self::Slow | Self::Overloaded => 1013,
            Self::BadMessage(_) => 4400,
            Self::Unauthorized => 4401,
            Self::Forbidden | Self::Expired => 4403,
            Self::Subprotocol => 4406,
            Self::InitTimeout => 4408,
            Self::Duplicate(_) => 4409,
            Self::TooManyInits => 4429,
        })
    }

    /// Returns the close frame; `None` if the client is already gone.
    pub(super) fn message(&self) -> Option<Message> {
        let mut reason = self.to_string();
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        Some(Message::Close(Some(CloseFrame { code: self.code()?, reason: reason.into() })))
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::error::CapacityError;

    use super::*;

    #[test]
    fn each_read_error_closes_with_its_own_code() {
        let io = |kind: ErrorKind| Error::Io(kind.into());
        let too_long = CapacityError::MessageTooLong { size: 2, max_size: 1 };
        for (error, expected) in [
            (Error::Protocol(ProtocolError::ResetWithoutClosingHandshake), None),
            (Error::ConnectionClosed, None),
            (io(ErrorKind::ConnectionReset), None),
            (Error::Protocol(ProtocolError::UnmaskedFrameFromClient), Some(1002)),
            (Error::Utf8("invalid".to_owned()), Some(1007)),
            (Error::Capacity(too_long), Some(1009)),
            (io(ErrorKind::OutOfMemory), Some(1013)),
        ] {
            let text = error.to_string();
            assert_eq!(Close::from_read_error(axum::Error::new(error)).code(), expected, "{text}");
        }
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let Some(Message::Close(Some(frame))) = Close::BadMessage("é".repeat(100)).message() else {
            panic!("no frame")
        };
        assert_eq!((frame.code, frame.reason.as_str()), (4400, "é".repeat(61).as_str()));
        assert_eq!(Close::Gone.message(), None);
    }
}
