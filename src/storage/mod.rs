//! The only SQL. A file per table or aggregate; functions take a [`Database`] and answer with domain types.
//!
//! What joins a caller's transaction is a method of a guard that holds it ([`registry::PathLock`],
//! [`log::LockedLog`]). Lock order: a path's row in the cluster database, then a log's advisory lock in its shard;
//! nobody takes a path's row while holding a log.
//!
//! [`Database`]: pools::Database

pub mod budget;
mod cancel;
pub mod catalog;
mod connections;
pub mod dedup;
pub mod error;
pub mod events;
pub mod executions;
pub mod indexes;
pub mod ingest;
pub mod log;
pub mod machines;
mod metered;
pub mod migrate;
pub mod outbox;
pub mod partitions;
pub mod pools;
pub mod registry;
pub mod retention;
pub mod shard_map;
pub mod snapshots;
pub mod subscriptions;
pub mod tail;
pub mod tail_restore;
pub mod tail_session;
pub mod transactions;
