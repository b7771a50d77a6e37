//! The messages of graphql-transport-ws, as JSON text frames.

use axum::extract::ws::Message;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::operation::Parameters;
use super::super::operation_error::OperationError;
use super::super::reply::Reply;
use super::close::Close;
use plain_json::{self as json, Typed};

/// Maximum number of bytes in an operation's id. Clients use counters and UUIDs.
const MAX_ID: usize = 256;

/// A message from the client.
#[derive(Debug)]
pub(super) enum Incoming {
    ConnectionInit { payload: Option<Map<String, Value>> },
    Ping,
    Pong,
    Subscribe { id: String, payload: Box<RawValue> },
    Complete { id: String },
}

/// Wire format of a message from the client.
#[derive(Debug, Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: Kind,
    id: Option<String>,
    payload: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    ConnectionInit,
    Ping,
    Pong,
    Subscribe,
    Complete,
}

impl Typed for Frame {}

impl Incoming {
    /// Reads a message. A message that does not follow the protocol closes the socket with 4400.
    pub(super) fn parse(text: &str) -> Result<Self, Close> {
        if !text.trim_ascii_start().starts_with('{') {
            return Err(Close::BadMessage("A message must be a JSON object".into()));
        }
        let Frame { kind, id, payload } = json::parse(text.as_bytes()).map_err(|error| bad(&error))?;
        let missing = |field| Close::BadMessage(format!("OperationError message: missing field `{field}`"));
        Ok(match kind {
            Kind::ConnectionInit => Self::ConnectionInit { payload: payload.map(|text| init(&text)).transpose()? },
            Kind::Ping => Self::Ping,
            Kind::Pong => Self::Pong,
            Kind::Complete => Self::Complete { id: id.ok_or_else(|| missing("id"))? },
            Kind::Subscribe => {
                let id = id.ok_or_else(|| missing("id"))?;
                if id.is_empty() || id.len() > MAX_ID {
                    return Err(Close::BadMessage(format!("An id must have 1 to {MAX_ID} bytes")));
                }
                Self::Subscribe { id, payload: payload.ok_or_else(|| missing("payload"))? }
            }
        })
    }
}

fn init(payload: &RawValue) -> Result<Map<String, Value>, Close> {
    match json::read(payload.get()).map_err(|error| bad(&error))? {
        Value::Object(map) => Ok(map),
        _ => Err(Close::BadMessage("OperationError message: the payload is not an object".into())),
    }
}

/// Reads the payload of a `subscribe`. JSON that can't be represented unchanged is an error of the operation.
pub(super) fn parameters(payload: Box<RawValue>) -> Result<Result<Parameters, OperationError>, Close> {
    let text = Bytes::from(String::from(Box::<str>::from(payload)));
    if let Err(value) = json::check("", &text) {
        return Ok(Err(OperationError::Unrepresentable(value)));
    }
    Parameters::read(&text).map(Ok).map_err(|error| bad(&error))
}

fn bad(error: &dyn std::error::Error) -> Close {
    Close::BadMessage(format!("OperationError message: {error}"))
}

/// A message to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Outgoing<'a> {
    ConnectionAck,
    Pong,
    Error { id: &'a str, payload: &'a [async_graphql::ServerError] },
    Complete { id: &'a str },
}

impl Outgoing<'_> {
    pub(super) fn to_message(&self) -> Message {
        let text = serde_json::to_string(self).unwrap_or_else(|error| {
            tracing::error!(%error, "a message could not be written as JSON");
            String::new()
        });
        Message::text(text)
    }
}

/// Returns the message with a reply.
pub(super) fn next(id: &str, reply: &Reply) -> Message {
    let id = serde_json::to_string(id).unwrap_or_default();
    let text = reply.framed(format!(r#"{{"type":"next","id":{id},"payload":"#).as_bytes(), b"}");
    // The texts of values are UTF-8.
    Message::text(String::from_utf8(text).unwrap_or_default())
}
