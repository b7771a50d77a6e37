//! Parts that every task of the process needs: the clock, wake-ups, shared statements, the supervisor, crash points,
//! causes of errors and telemetry.

pub mod causes;
pub mod clock;
pub mod coalesce;
pub mod crash_point;
pub mod stalls;
pub mod supervisor;
pub mod telemetry;
pub mod wake;

/// Version of the program. `scripts/release` gives it to the build, from the tag of the commit.
pub const VERSION: &str = match option_env!("NOETL_GRAPHQL_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
