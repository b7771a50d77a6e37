//! Every metric of the server, except those of the transport. docs/metrics.md lists both.

use graphql_transport::{Metric, listener};

/// Metrics of the server. A test compares this table with the metrics that the sources record.
pub const METRICS: [Metric; 82] = [
    Metric::gauge("noetl_broker_up", &[], "Whether the connection to the broker is up: 1 or 0"),
    Metric::gauge("noetl_build_info", &["version"], "1, with the version of the program"),
    Metric::counter("noetl_callers_refused_total", &[], "Callers that were refused because of their token"),
    Metric::counter("noetl_catalog_named_total", &[], "Catalog entries of NoETL's server whose names were read"),
    Metric::counter(
        "noetl_database_connection_timeouts_total",
        &["database"],
        "Callers that got no connection of a pool within 3 seconds, because all were in use",
    ),
    Metric::counter(
        "noetl_database_connection_waits_total",
        &["database"],
        "Callers that waited for a connection of a pool, because all were in use",
    ),
    Metric::gauge(
        "noetl_database_connections",
        &["database", "state"],
        "Open connections of the pool, by state: `used` or `idle`",
    ),
    Metric::gauge("noetl_database_connections_max", &["database"], "Maximum number of connections of the pool"),
    Metric::gauge(
        "noetl_database_up",
        &["database"],
        "Whether the database can be reached and written, according to the last probe: 1 or 0",
    ),
    Metric::counter("noetl_dedup_purged_total", &[], "Expired dedup claims that were deleted"),
    Metric::counter(
        "noetl_dedup_swept_total",
        &[],
        "Abandoned dedup claims that a pass of the sweeper found; one that can't be finished counts in each pass",
    ),
    Metric::counter("noetl_duplicate_audits_lost_total", &[], "Audit events of duplicates that were not written"),
    Metric::counter(
        "noetl_event_partitions_blocked_total",
        &[],
        "Event partitions that could not be created, because of rows in the default partition or a missing right",
    ),
    Metric::counter("noetl_event_partitions_dropped_total", &[], "Event partitions that the retention dropped"),
    Metric::counter("noetl_event_partitions_kept_total", &["reason"], "Old event partitions that were kept, by reason"),
    Metric::counter("noetl_event_partitions_made_total", &[], "Event partitions that were created"),
    Metric::gauge(
        "noetl_event_stream_last_event_id",
        &["shard"],
        "Id of the event that was published last; the last 10 bits are rounded",
    ),
    Metric::counter(
        "noetl_event_stream_published_total",
        &["shard", "event_type"],
        "Events that were published to the stream, by type; `other` for types that the server does not know",
    ),
    Metric::counter("noetl_events_duplicate_total", &[], "Events of workers that were skipped as duplicates"),
    Metric::counter("noetl_events_projected_total", &[], "Events of workers that were stored"),
    Metric::counter("noetl_events_rejected_total", &[], "Events of workers that were not stored because of an error"),
    Metric::counter("noetl_outbox_claimed_total", &["shard"], "Outbox rows that were claimed"),
    Metric::gauge("noetl_outbox_dead", &["shard"], "DEAD outbox rows at the last count, up to 100,000"),
    Metric::counter("noetl_outbox_dead_total", &["shard"], "Outbox rows that became DEAD"),
    Metric::counter("noetl_outbox_discarded_total", &["shard"], "DEAD outbox rows that were discarded"),
    Metric::counter("noetl_outbox_failed_total", &[], "Outbox rows that were marked as failed"),
    Metric::gauge(
        "noetl_outbox_oldest_pending_seconds",
        &["shard"],
        "Age of the oldest claimable outbox row at the last count",
    ),
    Metric::gauge(
        "noetl_outbox_oldest_waiting_seconds",
        &["shard"],
        "Age of the oldest outbox row that is claimable or waits for its next attempt, at the last count",
    ),
    Metric::gauge("noetl_outbox_pending", &["shard"], "Claimable outbox rows at the last count, up to 100,000"),
    Metric::counter("noetl_outbox_published_total", &[], "Outbox rows that were marked as published"),
    Metric::counter("noetl_outbox_purged_total", &[], "Published outbox rows that were deleted"),
    Metric::counter(
        "noetl_outbox_redelivered_total",
        &["shard"],
        "Delivered notifications that the broker lost, and that are delivered again",
    ),
    Metric::gauge("noetl_outbox_relay_in_flight", &["shard"], "Outbox rows that the relay is delivering"),
    Metric::counter("noetl_outbox_relay_pauses_total", &[], "Pauses of a relay after a failure"),
    Metric::counter("noetl_outbox_renewed_total", &[], "Outbox rows whose leases were extended"),
    Metric::counter(
        "noetl_outbox_retaken_total",
        &["shard"],
        "Outbox rows that were claimed after the lease of an earlier claim expired",
    ),
    Metric::counter(
        "noetl_outbox_stale_total",
        &[],
        "Settlements that were refused because their lease no longer settles the row",
    ),
    Metric::gauge(
        "noetl_outbox_waiting",
        &["shard"],
        "Outbox rows that are claimable or wait for their next attempt, at the last count, up to 100,000",
    ),
    Metric::counter(
        "noetl_projection_events_folded_total",
        &[],
        "Events that advances folded, beyond those of the stored snapshot",
    ),
    Metric::counter("noetl_projections_saved_total", &[], "Snapshots that were stored"),
    Metric::counter(
        "noetl_projector_deferred_total",
        &[],
        "Executions that the projector could not advance and tries again, counted at each attempt",
    ),
    Metric::counter("noetl_projector_executions_total", &[], "Executions that the projector advanced"),
    Metric::counter(
        "noetl_projector_given_up_total",
        &[],
        "Executions that the projector gave up until their next events, after several attempts",
    ),
    Metric::gauge(
        "noetl_projector_lag_seconds",
        &["shard"],
        "Time in seconds for which new events have waited for the projector",
    ),
    Metric::gauge(
        "noetl_read_model_fill_remaining",
        &["database"],
        "Executions whose log the fill of the list has not checked, up to 100,000",
    ),
    Metric::counter(
        "noetl_read_model_filled_total",
        &[],
        "Executions that were added to the list, or updated in it, from their log",
    ),
    Metric::counter(
        "noetl_registry_swept_total",
        &[],
        "Abandoned registrations that a pass of the sweeper found; one that can't be finished counts in each pass",
    ),
    Metric::counter(
        "noetl_retention_executions_purged_total",
        &[],
        "Executions whose derived rows were deleted after their log",
    ),
    Metric::counter("noetl_snapshots_ignored_total", &["reason"], "Stored snapshots that were ignored, by reason"),
    Metric::counter("noetl_sql_statements_total", &[], "Statements that were sent to databases"),
    Metric::counter(
        "noetl_statements_cancelled_total",
        &[],
        "Statements that were cancelled because their caller had gone",
    ),
    Metric::counter("noetl_status_polls_total", &[], "Reads of the system status for dashboards"),
    Metric::gauge("noetl_stream_buffered_bytes", &["shard"], "Bytes of decoded events that the hub keeps for readers"),
    Metric::counter(
        "noetl_stream_foreign_messages_total",
        &["shard"],
        "Messages of a shard's stream that readers skipped, because they are not events",
    ),
    Metric::counter("noetl_stream_gaps_total", &["reason"], "Gaps that readers received, by reason"),
    Metric::counter(
        "noetl_stream_incomplete_events_total",
        &[],
        "Events of the stream that readers completed from the database",
    ),
    Metric::counter(
        "noetl_stream_interruptions_total",
        &["shard"],
        "Times that the live feed of a shard was interrupted and tried again",
    ),
    Metric::counter(
        "noetl_stream_order_waits_total",
        &[],
        "Times that a stream of a reader waited for another stream, because a bucket had moved between the shards",
    ),
    Metric::counter(
        "noetl_stream_oversize_events_total",
        &["shard"],
        "Events that were published without their large values, because they exceed the broker's limit",
    ),
    Metric::gauge("noetl_stream_readers", &[], "Readers of live events"),
    Metric::counter("noetl_stream_readers_lagged_total", &[], "Times that a reader was too slow for the hub's ring"),
    Metric::counter(
        "noetl_stream_rendered_events_total",
        &[],
        "Events that were written as JSON for readers; readers with the same selection share the text",
    ),
    Metric::counter(
        "noetl_stream_replayed_pages_total",
        &[],
        "Pages of stored messages that were read from the broker for replays",
    ),
    Metric::counter("noetl_stream_replays_total", &[], "Replays from the stream"),
    Metric::gauge("noetl_stream_replays_waiting", &[], "Replays that wait for stored messages"),
    Metric::counter("noetl_stream_taken_events_total", &[], "Events that readers took from the hub's ring"),
    Metric::histogram(
        "noetl_tailer_batch_events",
        &["shard"],
        "Number of events in a published batch",
        &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0],
    ),
    Metric::counter(
        "noetl_tailer_foreign_messages_total",
        &["shard"],
        "Messages of other programs that the tailer found in its stream",
    ),
    Metric::gauge("noetl_tailer_is_leader", &["shard"], "1 on the replica that publishes the shard's events, else 0"),
    Metric::gauge("noetl_tailer_lag_events", &["shard"], "Committed events that are not published, up to 100,000"),
    Metric::gauge("noetl_tailer_lag_seconds", &["shard"], "Age of the oldest committed event that is not published"),
    Metric::gauge(
        "noetl_tailer_oldest_open_transaction_seconds",
        &["shard"],
        "Age of the oldest open write transaction",
    ),
    Metric::counter(
        "noetl_tailer_other_feed_messages_total",
        &["shard"],
        "Messages of tailers of other feeds that the tailer found in its stream",
    ),
    Metric::counter("noetl_tailer_published_total", &["shard"], "Events that were published to the stream"),
    Metric::counter(
        "noetl_tailer_refused_total",
        &["shard"],
        "Publishes that the broker refused because the stream had changed",
    ),
    Metric::counter("noetl_tailer_republished_total", &["shard"], "Events that were published again with a new epoch"),
    Metric::counter(
        "noetl_tailer_rewinds_total",
        &["shard", "because"],
        "Returns of the feed to an earlier position, by cause",
    ),
    Metric::counter(
        "noetl_tailer_stood_back_total",
        &["shard", "because"],
        "Times that this replica held the lease and did not publish, by reason: other_feed, rival",
    ),
    Metric::counter("noetl_tailer_takeovers_total", &["shard"], "Times that this replica became the leader of a shard"),
    Metric::gauge("noetl_token_file_problems", &[], "Invalid lines of the token file, or 1 if it can't be read"),
    Metric::counter(
        "noetl_trace_exports_failed_total",
        &[],
        "Batches of spans that could not be sent to the collector of traces",
    ),
    Metric::counter(
        "noetl_user_errors_total",
        &["mutation", "code"],
        "User errors of mutations and of their items, by mutation and code",
    ),
];

/// Returns the metrics of the process: those of the server, of the transport and of the listener.
pub fn all() -> impl Iterator<Item = Metric> {
    METRICS.into_iter().chain(graphql_transport::METRICS).chain(listener::METRICS)
}

/// Describes the metrics to the recorder, as the transport and the listener do with theirs, and starts all counters.
/// `databases` are the names of the databases, and `shards` those of the shards.
pub fn begin(databases: Vec<String>, shards: Vec<String>) {
    let values = [("database", databases), ("shard", shards)];
    METRICS.iter().for_each(Metric::describe);
    all().for_each(|metric| metric.begin(&values));
    ::metrics::gauge!("noetl_build_info", "version" => crate::VERSION).set(1);
}
