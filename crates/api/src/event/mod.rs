//! Events: the logs of executions and source subscriptions, and their live delivery.

pub mod inputs;
pub mod live;
pub mod loaders;
pub mod log;
pub mod mutation;
mod object;
pub mod project_events;
pub mod query;
pub mod render_cache;
mod reserve_event_ids;
pub mod stream;
pub mod stream_cursor;
pub mod types;
