//! Source subscriptions: long-lived resources that receive messages and run an execution for each message.

pub mod changes;
pub mod inputs;
pub mod lifecycle;
pub mod live;
pub mod loaders;
pub mod mutation;
mod payloads;
pub mod query;
mod spec;
pub mod types;
