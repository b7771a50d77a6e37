//! Events: the logs of executions and source subscriptions, and their live delivery.

pub mod inputs;
pub mod live;
pub mod loaders;
pub mod log;
pub mod mutation;
mod object;
mod project_events;
pub mod query;
pub mod render_cache;
mod reserve_event_ids;
pub mod stream;
mod stream_cursor;
pub mod types;
