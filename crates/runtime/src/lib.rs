//! Parts that the tasks of a process share: the clock, wake-ups, shared statements, the supervisor, crash points,
//! causes of errors and stalled tasks.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may call functions banned in production code"))]

pub mod causes;
pub mod clock;
pub mod coalesce;
pub mod crash_point;
pub mod supervisor;
pub mod wake;
