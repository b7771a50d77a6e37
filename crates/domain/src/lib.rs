//! The rules of the product. They are pure: no async, no database, no GraphQL, no clock, no environment. Functions that
//! depend on the time take it as an argument.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

pub mod actor;
pub mod backoff;
pub mod cursor;
pub mod document;
pub mod event;
pub mod event_list;
pub mod execution;
pub mod execution_order;
pub mod feed;
pub mod history;
pub mod ids;
pub mod labels;
pub mod lifecycle;
pub mod list_position;
pub mod node_id;
pub mod outbox;
pub mod outbox_message;
pub mod page;
pub mod page_parts;
pub mod projection;
pub mod quarter;
pub mod rebalance;
pub mod shard;
pub mod step_stats;
pub mod subscription_log;
pub mod tenant;
pub mod trace_context;
pub mod tx_snapshot;
pub mod workflow;
