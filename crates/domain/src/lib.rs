//! The rules of the product. They are pure: no async, no database, no GraphQL, no clock, no environment. Functions that
//! depend on the time take it as an argument.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

pub mod actor;
pub mod backoff;
pub mod bucket_bits;
pub mod catalog_list;
pub mod cursor;
pub mod dedup_claims;
pub mod document;
pub mod event;
pub mod event_list;
pub mod execution;
pub mod execution_order;
pub mod feed;
pub mod history;
pub mod id_ranges;
pub mod id_span;
pub mod ids;
pub mod labels;
pub mod lifecycle;
pub mod list_position;
pub mod node_id;
pub mod outbox;
pub mod outbox_forward;
pub mod outbox_message;
pub mod outbox_reads;
pub mod outbox_shares;
pub mod page;
pub mod partition;
pub mod projection;
pub mod quarter;
pub mod rebalance;
pub mod shard;
pub mod shard_failures;
pub mod step_stats;
pub mod subscription_log;
pub mod tail_progress;
pub mod tenant;
pub mod trace_context;
pub mod tx_snapshot;
pub mod tx_spans;
pub mod workflow;
