//! Quarters of the year as ranges of snowflake ids. A partition of the event table holds one quarter.

use chrono::{DateTime, Datelike, Months, NaiveDate, Utc};

use super::ids::{EPOCH_UNIX_MS, Id};

/// A calendar quarter in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarter {
    first_day: NaiveDate,
}

impl Quarter {
    /// Returns the quarter that contains a time.
    #[must_use]
    pub fn of(at: DateTime<Utc>) -> Self {
        let first_month = at.month0() / 3 * 3 + 1;
        Self { first_day: NaiveDate::from_ymd_opt(at.year(), first_month, 1).unwrap_or_default() }
    }

    /// Returns the next quarter.
    #[must_use]
    pub fn next(self) -> Self {
        Self { first_day: self.first_day.checked_add_months(Months::new(3)).unwrap_or(self.first_day) }
    }

    /// Returns the smallest id of the quarter.
    #[must_use]
    pub fn first_id(self) -> Id {
        let unix_ms = self.first_day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis();
        let ms = u64::try_from(unix_ms).unwrap_or_default().saturating_sub(EPOCH_UNIX_MS);
        Id::first_of(ms)
    }

    /// Returns the name of the quarter's partition, such as `event_p2026q4`.
    #[must_use]
    pub fn partition_name(self) -> String {
        format!("event_p{}q{}", self.first_day.year(), self.first_day.month0() / 3 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_adjacent_and_begin_on_their_first_day() {
        let quarter = Quarter::of("2026-11-21T02:00:00Z".parse().unwrap());
        assert_eq!(quarter.partition_name(), "event_p2026q4");
        assert_eq!(quarter.next().partition_name(), "event_p2027q1");
        assert_eq!(quarter.next(), Quarter::of("2027-01-01T00:00:00Z".parse().unwrap()));
        let first: DateTime<Utc> = "2026-10-01T00:00:00Z".parse().unwrap();
        let ms = u64::try_from(first.timestamp_millis()).unwrap() - EPOCH_UNIX_MS;
        assert_eq!(quarter.first_id().millis(), ms);
    }
}
