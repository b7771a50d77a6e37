-- A snapshot of a log is brought up to date by what its own transaction snapshot does not see: rows of one log by the
-- transaction that wrote them. Parents only, as for the other indexes of this table.
CREATE INDEX IF NOT EXISTS event_log_tx_idx ON ONLY noetl.event (execution_id, tx_id);
