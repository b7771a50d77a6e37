//! Checks of the conditions that several filters have.

use async_graphql::ID;
use chrono::{DateTime, TimeDelta, Utc};

use crate::scalars::parse_ids;
use noetl_domain::ids::Id;
use noetl_use_cases::bounds::check_text;
use noetl_use_cases::error::Rejection;

/// Maximum number of values in a list of a filter.
const MAX_LIST: usize = 1000;

/// Refuses a list that is too long.
pub(super) fn check_list<T>(field: &str, list: &[T]) -> Result<(), Rejection> {
    if list.len() <= MAX_LIST {
        return Ok(());
    }
    Err(Rejection::invalid(field, format!("a list in a filter has at most {MAX_LIST} values, not {}", list.len())))
}

/// Parses a list of ids. Refuses a list that is too long.
pub(super) fn checked_ids(field: &str, ids: &[ID]) -> Result<Vec<Id>, Rejection> {
    check_list(field, ids)?;
    parse_ids(field, ids)
}

/// Refuses a list that is too long or has a malformed text.
pub(super) fn check_texts(field: &str, list: &[String]) -> Result<(), Rejection> {
    check_list(field, list)?;
    list.iter().try_for_each(|text| check_text(field, text))
}

/// Refuses a malformed text, such as a path or the name of a tenant.
pub(super) fn checked_text(field: &str, text: Option<String>) -> Result<Option<String>, Rejection> {
    text.map(|text| check_text(field, &text).map(|()| text)).transpose()
}

/// Returns a bound of times that has the same meaning and can be stored: in microseconds, and in the years 1 to 9999.
pub(super) fn time_bound(time: DateTime<Utc>) -> DateTime<Utc> {
    let second = |seconds| DateTime::from_timestamp(seconds, 0).unwrap_or(time);
    let time = time.clamp(second(-62_135_596_800), second(253_402_300_800));
    match i64::from(time.timestamp_subsec_nanos() % 1_000) {
        0 => time,
        finer => time + TimeDelta::nanoseconds(1_000 - finer),
    }
}
