//! Catalog entries: versioned documents that executions and source subscriptions run.

pub mod inputs;
pub mod loaders;
pub mod mutation;
mod payloads;
pub mod query;
pub mod types;
