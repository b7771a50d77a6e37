//! Parts that every task of the process needs: the clock, wake-ups, shared statements, the supervisor, crash points and telemetry.

pub mod clock;
pub mod coalesce;
pub mod crash_point;
pub mod stalls;
pub mod supervisor;
pub mod telemetry;
pub mod wake;
