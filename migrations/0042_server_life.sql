-- The life of the server: from one start, crash or promotion to the next. A crash loses the transaction ids that no commit
-- made durable, and the server assigns them again. So a state that was read before and is stored after it would claim to
-- contain events that it has never seen.
--
-- The recovery from a crash, also of a single process, and the promotion of a standby empty an unlogged table. A restart
-- changes the start time of the server.
CREATE UNLOGGED TABLE IF NOT EXISTS noetl.server_life (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    token     UUID NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO noetl.server_life DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Returns the life of this database's server; null on a standby, which can't read the table, and until the row is written.
CREATE OR REPLACE FUNCTION noetl.server_life() RETURNS TEXT LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT concat_ws(' ', oid, extract(epoch FROM pg_postmaster_start_time()), token)
            FROM noetl.server_life, pg_database WHERE datname = current_database());
END
$$;

-- Fails with a serialization failure unless all lives are the current one.
CREATE OR REPLACE FUNCTION noetl.require_server_life(lives TEXT[]) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
BEGIN
    IF (noetl.server_life() = ALL (lives)) IS NOT TRUE THEN
        RAISE EXCEPTION 'the server has restarted since a state was read' USING ERRCODE = '40001';
    END IF;
    RETURN true;
END
$$;
