//! The messages of graphql-transport-ws, as JSON text frames.

use axum::extract::ws::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::operation::Parameters;
use super::super::reply::Reply;
use super::close::Close;

/// Bytes of an operation's id; clients use counters and UUIDs.
const MAX_ID: usize = 256;

/// A message from the client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Incoming {
    ConnectionInit { payload: Option<Map<String, Value>> },
    Ping,
    Pong,
    Subscribe { id: String, payload: Map<String, Value> },
    Complete { id: String },
}

impl Incoming {
    /// Reads a message; what the protocol does not know closes the socket with 4400.
    pub(super) fn parse(text: &str) -> Result<Self, Close> {
        if !text.trim_ascii_start().starts_with('{') {
            return Err(Close::BadMessage("A message is a JSON object".into()));
        }
        let message = serde_json::from_str(text).map_err(|error| bad(&error))?;
        match &message {
            Self::Subscribe { id, .. } if id.is_empty() || id.len() > MAX_ID => {
                Err(Close::BadMessage(format!("An id has 1 to {MAX_ID} bytes")))
            }
            _ => Ok(message),
        }
    }
}

/// Reads the payload of a `subscribe`.
pub(super) fn parameters(payload: Map<String, Value>) -> Result<Parameters, Close> {
    serde_json::from_value(Value::Object(payload)).map_err(|error| bad(&error))
}

fn bad(error: &serde_json::Error) -> Close {
    Close::BadMessage(format!("Invalid message: {error}"))
}

/// A message to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Outgoing<'a> {
    ConnectionAck,
    Pong,
    Next { id: &'a str, payload: &'a Reply },
    Error { id: &'a str, payload: &'a [async_graphql::ServerError] },
    Complete { id: &'a str },
}

impl Outgoing<'_> {
    pub(super) fn to_message(&self) -> Message {
        let text = serde_json::to_string(self).or_else(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            let (Self::Next { id, .. } | Self::Error { id, .. } | Self::Complete { id }) = self else {
                return Ok(String::new());
            };
            serde_json::to_string(&Outgoing::Next { id, payload: &Reply::internal() })
        });
        Message::text(text.unwrap_or_else(|_: serde_json::Error| String::new()))
    }
}
