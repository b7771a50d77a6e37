//! Use cases. Each loads rows, decides with the rules of `domain`, and writes. Only this layer joins databases.

pub mod bounds;
pub mod catalog;
pub mod clock;
pub mod error;
pub mod executions;
pub mod fan_out;
pub mod fault;
pub mod feed;
pub mod ids;
pub mod ingest;
pub mod outbox;
pub mod projections;
pub mod registry;
pub mod retention;
pub mod shards;
pub mod subscriptions;
mod trace;
pub mod wake;
