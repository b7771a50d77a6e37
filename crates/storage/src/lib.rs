//! All SQL of the server. Each table or aggregate has a file or a folder; functions take a [`Database`] and return rows
//! or domain types.
//!
//! A function that joins a caller's transaction is a method of the guard that holds it ([`registry::PathLock`],
//! [`log::LockedLog`]). Lock order: first a path's row in the cluster database, then a log's advisory lock in its
//! shard. No code takes a path's row while it holds a log's lock.
//!
//! [`Database`]: pools::Database

pub mod budget;
mod cancel;
pub mod catalog;
pub mod check;
mod connections;
pub mod content;
pub mod dedup;
mod durability;
pub mod error;
pub mod event_arrivals;
pub mod event_lists;
pub mod events;
mod execution_along;
mod execution_counts;
mod execution_errors;
mod execution_filter;
pub mod execution_history;
pub mod execution_history_close;
mod execution_history_rows;
pub mod execution_lists;
mod execution_select;
mod execution_sources;
pub mod executions;
mod grown_logs;
pub mod indexes;
pub mod ingest;
pub mod ingest_conflicts;
mod label_path;
pub mod lock_wait;
pub mod log;
pub mod login;
pub mod machines;
mod metered;
pub mod migrate;
pub mod moves;
pub mod outbox;
pub mod partitions;
pub mod pooler;
pub mod pools;
pub mod projection_cursor;
pub mod read_model;
pub mod registry;
pub mod retention;
pub mod rights;
mod servers;
mod session_settings;
pub mod shard_map;
pub mod snapshots;
pub mod subscriptions;
pub mod suitability;
pub mod tail;
pub mod tail_covered;
mod tail_foreign_ids;
pub mod tail_overlap;
pub mod tail_pages;
pub mod tail_restore;
mod tail_row;
pub mod tail_session;
mod tail_upgrade;
pub mod transactions;
pub mod triggers;
pub mod view;
