//! Settings, commands and telemetry of a process.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock, tasks and the environment directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod commands;
mod config;
mod reference;
mod telemetry;
