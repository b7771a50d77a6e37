//! The outbox: messages for delivery to the broker.

pub mod inputs;
pub mod loaders;
pub mod mutation;
mod payloads;
pub mod query;
pub mod settle;
pub mod stats;
pub mod status;
pub mod types;
