//! Scalars, and the conversion of ids.

use async_graphql::{ID, InputValueError, InputValueResult, Scalar, ScalarType, Value};
use chrono::{DateTime, SecondsFormat, Utc};

use graphql_transport::CheckedScalar;
use noetl_domain::ids::Id;
use noetl_domain::node_id::NodeId;
use noetl_use_cases::error::Rejection;
use plain_json::{RawJson, Text, from_graphql};

/// The scalar `DateTime`, whose values are checked before an operation runs. So a wrong time is refused with its path,
/// like a wrong number.
pub const DATE_TIME: CheckedScalar =
    CheckedScalar { name: "DateTime", example: "\"2026-01-31T12:00:00Z\"", fits: is_date_time };

/// A time in UTC. In the years 0 to 9999, the texts have one length, so they sort as the times do.
#[derive(Debug, Clone, Copy)]
pub struct Time(pub DateTime<Utc>);

/// Time as an RFC 3339 string. The server shows UTC, with six digits after the second.
#[Scalar(name = "DateTime", specified_by_url = "https://datatracker.ietf.org/doc/html/rfc3339")]
impl ScalarType for Time {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Self(DateTime::parse(value).map_err(InputValueError::propagate)?))
    }

    fn to_value(&self) -> Value {
        Value::String(self.to_text())
    }
}

impl Time {
    /// Returns the text that responses contain.
    #[must_use]
    pub fn to_text(self) -> String {
        self.0.to_rfc3339_opts(SecondsFormat::Micros, false)
    }
}

/// Name of the scalar [`Json`]. In variables, the transport carries its values as text.
pub const JSON: &str = "JSON";

fn is_date_time(value: &Value) -> bool {
    matches!(value, Value::String(text) if text.parse::<DateTime<Utc>>().is_ok())
}

/// A signed 64-bit integer as a decimal string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BigInt(pub i64);

/// A signed 64-bit integer as a decimal string.
#[Scalar]
impl ScalarType for BigInt {
    fn parse(value: Value) -> InputValueResult<Self> {
        match &value {
            Value::String(text) => text.parse().map(Self).map_err(InputValueError::custom),
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.to_string())
    }
}

/// Any JSON value: an object, list, string, number, boolean or null.
#[derive(Debug, Clone, PartialEq)]
pub struct Json(pub serde_json::Value);

/// Any JSON value: an object, list, string, number, boolean or null.
#[Scalar(name = "JSON")]
impl ScalarType for Json {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Self(from_graphql(value)?))
    }

    fn to_value(&self) -> Value {
        Value::from_json(self.0.clone()).unwrap_or_default()
    }
}

/// A JSON value of a request that is kept as the text that arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonInput(pub RawJson);

/// Any JSON value: an object, list, string, number, boolean or null.
#[Scalar(name = "JSON")]
impl ScalarType for JsonInput {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Self(RawJson::from_graphql(value)?))
    }

    fn to_value(&self) -> Value {
        Value::Binary(self.0.to_bytes())
    }
}

/// A JSON value of a response that is kept as text.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonText(pub Text);

/// Any JSON value: an object, list, string, number, boolean or null.
#[Scalar(name = "JSON")]
impl ScalarType for JsonText {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Self(Text::or_error_value(&RawJson::from_graphql(value)?)))
    }

    fn to_value(&self) -> Value {
        Value::Binary(self.0.to_bytes())
    }
}

impl From<u64> for BigInt {
    fn from(number: u64) -> Self {
        Self(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Item of a list in an input.
#[derive(Debug)]
pub struct GivenItem<T> {
    /// Id in the item, as the caller gave it.
    pub id: ID,
    /// The item with its parsed ids. A malformed id refuses only its own item.
    pub item: Result<T, Rejection>,
}

/// Parses an `ID`, or returns a rejection that names the field.
pub fn parse_id(field: &str, id: &ID) -> Result<Id, Rejection> {
    id.parse().map_err(|malformed: noetl_domain::ids::MalformedId| Rejection::invalid(field, malformed.to_string()))
}

/// Parses the `ID` of a catalog entry in either form, or returns a rejection that names the field.
pub fn parse_catalog_id(field: &str, id: &ID) -> Result<Id, Rejection> {
    NodeId::catalog_entry(id).map_err(|malformed| Rejection::invalid(field, malformed.to_string()))
}

/// Parses the `ID` of an event in a log in either form, or returns a rejection that names the field.
pub fn parse_event_id(field: &str, id: &ID, log: Id) -> Result<Id, Rejection> {
    NodeId::event(id, Some(log)).map_err(|malformed| Rejection::invalid(field, malformed.to_string()))
}

/// Parses a list of `ID`s, or returns a rejection that names the field and the index of the malformed one.
pub fn parse_ids(field: &str, ids: &[ID]) -> Result<Vec<Id>, Rejection> {
    let parse = |(index, id): (usize, &ID)| parse_id(&format!("{field}.{index}"), id);
    ids.iter().enumerate().map(parse).collect()
}

/// Converts a number to GraphQL's 32-bit `Int`. A number beyond its range becomes the nearest number in it.
#[must_use]
pub fn to_graphql_int(number: impl TryInto<i64>) -> i32 {
    let number = number.try_into().unwrap_or(i64::MAX);
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Returns an id as the API shows it.
#[must_use]
pub fn show_id(id: Id) -> ID {
    ID(id.to_string())
}

/// Returns the seconds between two times; `None` if one is missing.
pub(super) fn seconds_between(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Option<f64> {
    Some((to? - from?).as_seconds_f64())
}
