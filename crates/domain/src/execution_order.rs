//! Orders of the list of executions.
//!
//! A list is ordered by a time, then by id. For the order by duration, the time is the duration after 1970-01-01, as
//! `noetl.duration_time` of the databases returns it.

use chrono::{DateTime, TimeDelta, Utc};

use super::cursor::CursorKind;
use super::list_position::{ListPosition, PositionRange};
use super::page::PageRequest;

/// 9999-12-31T00:00:00Z in seconds since the Unix epoch: the latest time of `noetl.list_time`.
const LATEST: i64 = 253_402_214_400;

/// Order of a list of executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecutionOrder {
    /// By start time, newest first.
    #[default]
    Newest,
    /// By start time, oldest first.
    Oldest,
    /// By duration, longest first; only executions that have ended.
    Longest,
    /// By end time, last first; only executions that have ended.
    LastEnded,
}

impl ExecutionOrder {
    /// Returns the name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "NEWEST",
            Self::Oldest => "OLDEST",
            Self::Longest => "LONGEST",
            Self::LastEnded => "LAST_ENDED",
        }
    }

    /// Returns the kind of the list's cursors.
    #[must_use]
    pub const fn cursor_kind(self) -> CursorKind {
        match self {
            Self::Newest => CursorKind::Execution,
            Self::Oldest => CursorKind::ExecutionOldest,
            Self::Longest => CursorKind::ExecutionLongest,
            Self::LastEnded => CursorKind::ExecutionLastEnded,
        }
    }

    /// Returns the position of an execution in the list.
    #[must_use]
    pub fn position(self, started: Option<DateTime<Utc>>, ended: Option<DateTime<Utc>>, id: i64) -> ListPosition {
        let at = match self {
            Self::Newest | Self::Oldest => started,
            Self::Longest => started.zip(ended).map(|(started, ended)| duration_time(started, ended)),
            Self::LastEnded => ended,
        };
        ListPosition::new(at, id)
    }

    /// Returns the range of a page.
    #[must_use]
    pub fn range(self, request: &PageRequest<ListPosition>) -> PositionRange {
        if self == Self::Oldest { request.earliest_first() } else { request.newest_first() }
    }
}

/// Returns the time by which a duration is ordered. A negative duration counts as none.
fn duration_time(started: DateTime<Utc>, ended: DateTime<Utc>) -> DateTime<Utc> {
    let duration = (ended - started).max(TimeDelta::zero());
    (DateTime::UNIX_EPOCH + duration).min(DateTime::from_timestamp(LATEST, 0).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_time_after_1970_and_an_unknown_one_is_the_shortest() {
        let time = |seconds| DateTime::from_timestamp(seconds, 0);
        let earliest = -62_135_596_800;
        let ten_thousand_years = (time(earliest), time(LATEST));
        for (case, (started, ended), expected) in [
            ("5 s", (time(100), time(105)), time(5)),
            ("negative", (time(105), time(100)), time(0)),
            ("without a start", (None, time(100)), time(earliest)),
            ("too long", ten_thousand_years, time(LATEST)),
        ] {
            assert_eq!(Some(ExecutionOrder::Longest.position(started, ended, 1).at), expected, "{case}");
        }
        let (started, ended) = (time(100), time(105));
        assert_eq!(Some(ExecutionOrder::LastEnded.position(started, ended, 1).at), ended);
        assert_eq!(Some(ExecutionOrder::Oldest.position(started, ended, 1).at), started);
    }
}
