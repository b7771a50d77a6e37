//! The feed of events, from the commit to the readers.

mod broker_conditions;
mod brokers;
mod clock_steps;
mod cursor_identity;
mod event_arrival;
mod event_order;
mod fan_out;
mod faults;
mod feed_backlog;
mod feed_identity;
mod foreign_messages;
mod idle_feed;
mod leader_takeover;
mod live_events;
mod noetl_tailer;
mod open_transactions;
mod oversize_events;
mod readers_after_broker_loss;
mod slow_readers;
mod start_at_time;
mod stream_cursors;
mod tail_gap_free;
mod transaction_ids;
mod undecodable_messages;
mod unusual_rows_published;
