//! Tests of the product's guarantees, each in a file of its own, against real servers. All files are one binary, so
//! that the crate is linked only once. No file uses another; what they share is in `noetl-testkit`.
//!
//! `NOETL_TEST_PG` names a PostgreSQL server on which the user may create databases. `make test` starts such a server.
//! Without make: `scripts/test-servers run cargo test`. Every test has its own databases, broker and ports.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock, tasks and the environment directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::similar_names, reason = "similar names such as `won` and `one` are clear in tests")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

mod abandoned_folds;
mod access;
mod actors;
mod adopted_outbox;
mod broker_conditions;
mod broker_loss;
mod brokers;
mod budgets;
mod callers;
mod cancellations;
mod catalog;
mod catalog_documents;
mod cli;
mod clock_steps;
mod connections;
mod cursor_identity;
mod dedup;
mod dedup_beside_noetl;
mod dedup_claims;
mod dedup_crash;
mod demo;
mod dependencies;
mod documents;
mod event_id_conflicts;
mod event_order;
mod event_partitions;
mod execution_lists;
mod executions;
mod fan_out;
mod faults;
mod feed_backlog;
mod feed_identity;
mod foreign_messages;
mod hostile;
mod housekeeping;
mod idle_feed;
mod intents;
mod invalid_input;
mod json_roundtrip;
mod layering;
mod leader_takeover;
mod lease_connections;
mod list_order;
mod listener_tls;
mod live_events;
mod local_servers;
mod log_times;
mod machine_ids;
mod migrations;
mod network;
mod no_query_per_row;
mod noetl_catalog;
mod noetl_ids;
mod noetl_subscriptions;
mod noetl_tailer;
mod observability;
mod oidc;
mod one_database;
mod open_transactions;
mod outbox_claims;
mod outbox_dead_rows;
mod outbox_ends;
mod outbox_invalid_input;
mod outbox_lists;
mod outbox_settle;
mod oversize_events;
mod past_states;
mod project_documents;
mod project_events;
mod projections;
mod projector;
mod read_model_fill;
mod readers_after_broker_loss;
mod recorded_logs;
mod reference;
mod refused_writes;
mod register_race;
mod relay;
mod reruns;
mod restored_database;
mod schema;
mod selectors;
mod session_settings;
mod shard_down;
mod shutdown;
mod slow_readers;
mod sqlx_data;
mod start_at_time;
mod statement_cancellation;
mod subscription_backlog;
mod sweeper;
mod switchover;
mod system_status;
mod tail_gap_free;
mod tenants;
mod total_counts;
mod transaction_ids;
mod transitions;
mod undecodable_messages;
mod unlisted_executions;
mod unselected_columns;
mod unusual_rows_published;
mod updates;
mod upgraded_database;
mod work_independent_of_log_length;
