//! Catalog entries: versioned documents that executions and source subscriptions run.

pub mod draft;
pub mod inputs;
pub mod kind;
pub mod loaders;
pub mod mutation;
pub mod order;
mod parts;
mod payloads;
pub mod query;
pub mod types;
mod workflow;
pub mod workload;
