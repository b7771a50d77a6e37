//! The server: this replica, its caller, and the health of the shards, the event stream and the outbox.

pub mod event_stream;
pub mod info;
pub mod live;
pub mod query;
pub mod replicas;
pub mod settings;
pub mod shards;
pub mod status;
pub mod viewer;
