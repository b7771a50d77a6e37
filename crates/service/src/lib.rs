//! The use cases, carried out. Each loads rows, decides with the rules of `domain`, and writes. Only this layer joins
//! databases. Each file implements the trait of [`noetl_use_cases`] that declares its use cases.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may call functions banned in production code"))]

mod bisection;
pub mod catalog;
pub mod check;
pub mod executions;
pub mod fan_out;
pub mod ids;
pub mod ingest;
pub mod outbox;
pub mod projections;
pub mod read_model;
pub mod retention;
pub mod shards;
pub mod subscriptions;
mod trace;
