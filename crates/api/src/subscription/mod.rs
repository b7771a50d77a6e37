//! Source subscriptions: long-lived resources that receive messages and run an execution for each message.

pub mod inputs;
pub mod lifecycle;
pub mod live;
pub mod loaders;
pub mod mutation;
mod payloads;
pub mod query;
mod spec;
pub mod types;
pub mod update;
pub mod updates;
