//! Use cases. Each loads rows, decides with the rules of `domain`, and writes. Only this layer joins databases.

mod bisection;
pub mod bounds;
pub mod catalog;
pub mod check;
pub mod error;
pub mod executions;
pub mod fan_out;
pub mod feed;
pub mod ids;
pub mod ingest;
pub mod outbox;
pub mod projections;
pub mod read_model;
pub mod retention;
pub mod shards;
pub mod subscriptions;
mod tenancy;
mod trace;
