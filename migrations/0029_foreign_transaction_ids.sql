-- noetl.event.tx_id is the id of the writing transaction. Its default is right, but a row that is copied from another
-- server, or that logical replication writes, brings an id of that server. The feed and the snapshots compare the column
-- with the transactions of this server, so such a row would be published late, in each batch, or never.
--
-- The function runs only for a row with a wrong id: for all others, the condition is evaluated without calling it.
CREATE OR REPLACE FUNCTION noetl.assign_tx_id() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.tx_id := pg_current_xact_id(); RETURN NEW; END $$;

-- An update by logical replication writes all columns of the other server's row. The role is checked here too, because
-- ENABLE TRIGGER ALL also enables this trigger for this server's own updates, which assign ids.
CREATE OR REPLACE FUNCTION noetl.keep_tx_id() RETURNS trigger LANGUAGE plpgsql AS
$$
BEGIN
    IF current_setting('session_replication_role') = 'replica' THEN
        NEW.tx_id := OLD.tx_id;
    END IF;
    RETURN NEW;
END
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'noetl.event'::regclass AND tgname = 'event_assign_tx_id') THEN
        RETURN;
    END IF;
    CREATE TRIGGER event_assign_tx_id BEFORE INSERT ON noetl.event FOR EACH ROW
        WHEN (NEW.tx_id IS DISTINCT FROM pg_current_xact_id()) EXECUTE FUNCTION noetl.assign_tx_id();
    CREATE TRIGGER event_keep_tx_id BEFORE UPDATE ON noetl.event FOR EACH ROW
        WHEN (NEW.tx_id IS DISTINCT FROM OLD.tx_id) EXECUTE FUNCTION noetl.keep_tx_id();
    -- Logical replication runs only triggers of these two kinds.
    ALTER TABLE noetl.event ENABLE ALWAYS TRIGGER event_assign_tx_id;
    ALTER TABLE noetl.event ENABLE REPLICA TRIGGER event_keep_tx_id;
END
$$;

-- Evidence that the tables of this database are those in which the cursor was written. The row is written when the
-- cursor is bound to a database, and holds the id of its own writing transaction. pg_upgrade keeps both the id and the
-- row's system column xmin. A restored dump keeps the id only.
CREATE TABLE IF NOT EXISTS noetl.tail_anchor (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    tx_id     xid8 NOT NULL DEFAULT pg_current_xact_id()
);
INSERT INTO noetl.tail_anchor (singleton)
SELECT true FROM noetl.tail_cursor JOIN pg_control_system() AS control USING (system_identifier)
ON CONFLICT DO NOTHING;

-- Progress of the renumbering of a restored database, so that it continues where it was interrupted. The position is
-- valid only on the server that stored it.
CREATE TABLE IF NOT EXISTS noetl.tail_renumbering (
    singleton         BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    system_identifier BIGINT NOT NULL,
    execution_id      BIGINT NOT NULL,
    event_id          BIGINT NOT NULL
);
