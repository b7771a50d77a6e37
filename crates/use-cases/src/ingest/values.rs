//! Parsing of values that workers write in more than one form. An empty text counts as absent for ids, durations and
//! times.

use chrono::{DateTime, Datelike, NaiveDateTime, Utc};
use plain_json::RawJson;
use serde_json::Value;

use crate::bounds::check_text;
use crate::error::Rejection;
use noetl_domain::ids::{Id, MalformedId};

/// Years that both PostgreSQL and RFC 3339 support.
const YEARS: std::ops::RangeInclusive<i32> = 1..=9999;

/// Parses an id: a decimal number from 1 to 9223372036854775807.
pub(super) fn id(field: &str, given: Option<String>) -> Result<Option<Id>, Rejection> {
    match known_or_zero(field, given)? {
        Some(id) if id.get() == 0 => Err(Rejection::invalid(field, format!("{field} is 0, which is not an id"))),
        id => Ok(id),
    }
}

/// Returns the decimal number of an id that is given in the form with a prefix; other texts are returned as they are.
pub(super) fn number<E: std::error::Error>(
    field: &str,
    given: Option<String>,
    parse: impl Fn(&str) -> Result<Id, E>,
) -> Result<Option<String>, Rejection> {
    match given {
        Some(given) if given.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            let id = parse(&given).map_err(|bad| Rejection::invalid(field, format!("{field} is {bad}")))?;
            Ok(Some(id.to_string()))
        }
        given => Ok(given),
    }
}

/// Parses an id for which 0 means unknown.
pub(super) fn known_id(field: &str, given: Option<String>) -> Result<Option<Id>, Rejection> {
    Ok(known_or_zero(field, given)?.filter(|id| id.get() != 0))
}

fn known_or_zero(field: &str, given: Option<String>) -> Result<Option<Id>, Rejection> {
    let given = given.filter(|given| !given.is_empty());
    let malformed = |malformed: MalformedId| Rejection::invalid(field, format!("{field} is {malformed}"));
    given.map(|given| given.parse().map_err(malformed)).transpose()
}

/// Parses JSON that was checked when the request was read.
pub(super) fn value(field: &str, json: &RawJson) -> Result<Value, Rejection> {
    json.read().map_err(|error| Rejection::invalid(field, format!("{field} can't be read: {error}")))
}

/// Checks that a text can be stored.
pub(super) fn text(field: &str, given: Option<String>) -> Result<Option<String>, Rejection> {
    given.map(|given| check_text(field, &given).map(|()| given)).transpose()
}

/// Parses a finite number of seconds: a number, or its decimal text.
pub(super) fn seconds(field: &str, given: Option<Value>) -> Result<Option<f64>, Rejection> {
    let number = match given.unwrap_or_default() {
        Value::Null => return Ok(None),
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    let finite = number.filter(|number: &f64| number.is_finite());
    let refusal = || Rejection::invalid(field, format!("{field} must be a finite number of seconds"));
    finite.map(Some).ok_or_else(refusal)
}

/// Parses RFC 3339 text; the offset may be missing, as in the times that PostgreSQL writes.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let naive = || {
        let forms = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
        forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
    };
    let exact = DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    exact.or_else(|| naive().map(|naive| naive.and_utc()))
}

/// Parses a time as RFC 3339 text. A time without an offset is UTC.
pub(super) fn time(field: &str, given: Option<Value>) -> Result<Option<DateTime<Utc>>, Rejection> {
    let read = match given.unwrap_or_default() {
        Value::Null => return Ok(None),
        Value::String(text) if text.is_empty() => return Ok(None),
        Value::String(text) => parse_time(text.trim()),
        _ => None,
    };
    let message = || {
        let years = format!("{} to {}", YEARS.start(), YEARS.end());
        Rejection::invalid(
            field,
            format!("{field} must be RFC 3339 text in the years {years}, such as 2026-01-31T10:00:00Z"),
        )
    };
    read.filter(|time| YEARS.contains(&time.year())).map(Some).ok_or_else(message)
}
