//! Executions: runs of catalog entries, and their state.

mod advance;
mod cancel_payloads;
pub mod current;
pub mod dedup;
pub mod history;
pub mod inputs;
pub mod lists;
pub mod live;
pub mod loaders;
pub mod mutation;
mod of_entry;
mod of_subscription;
pub mod order;
pub mod past;
mod payloads;
pub mod query;
mod rerun_inputs;
mod rerun_payloads;
pub mod state;
pub mod stats;
pub mod status;
pub mod step_stats;
pub mod types;
pub mod update;
pub mod updates;
