-- The message id under which a row is published. It is given with the first claim, stays in repetitions, so that the broker
-- recognises them, and belongs to one history of the database: after a restore or a failover, a row gets another id, because
-- the broker may have delivered the message in the history that is gone.
ALTER TABLE noetl.outbox
    ADD COLUMN IF NOT EXISTS message_id UUID,
    ADD COLUMN IF NOT EXISTS message_history BIGINT;

-- Returns the history of this database: a hash of what distinguishes it from its copies on the same server, on other
-- servers, and from before a promotion. The primary's WAL position has the timeline.
CREATE OR REPLACE FUNCTION noetl.database_history() RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(
        concat_ws(' ', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), oid), 0)
    FROM pg_control_system(), pg_database WHERE datname = current_database()
$$;
