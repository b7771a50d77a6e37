-- Derived states of executions (shards), which can be built again from the event log: the list and the snapshots.

-- The list of executions.
CREATE TABLE IF NOT EXISTS noetl.execution (
    execution_id        BIGINT PRIMARY KEY,
    catalog_id          BIGINT NOT NULL,
    parent_execution_id BIGINT,
    status              VARCHAR NOT NULL,
    last_event_type     VARCHAR,
    last_node_name      VARCHAR,
    last_event_id       BIGINT,
    start_time          TIMESTAMPTZ,
    end_time            TIMESTAMPTZ,
    error               TEXT
);

ALTER TABLE noetl.execution
    ADD COLUMN IF NOT EXISTS parent_execution_id BIGINT,
    ADD COLUMN IF NOT EXISTS last_event_type VARCHAR,
    ADD COLUMN IF NOT EXISTS last_node_name VARCHAR,
    ADD COLUMN IF NOT EXISTS last_event_id BIGINT,
    -- The catalog is in the cluster database, so a path filter needs the path here.
    ADD COLUMN IF NOT EXISTS path TEXT,
    -- NoETL's own server does not name these columns, so its rows get the defaults.
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default',
    -- Values of the started event that lists filter by: the pool that it names, and the execution of which this one is a
    -- rerun.
    ADD COLUMN IF NOT EXISTS execution_pool TEXT,
    ADD COLUMN IF NOT EXISTS rerun_of BIGINT,
    -- Number of failed steps, by which lists are filtered: NoETL completes executions whose steps have failed. Null in rows
    -- of other programs.
    ADD COLUMN IF NOT EXISTS failed_steps INTEGER,
    -- Labels of the started event: names with texts. Null: there are none.
    ADD COLUMN IF NOT EXISTS labels JSONB,
    -- Time at which the first step began. Null: none has, or the row is of another program.
    ADD COLUMN IF NOT EXISTS first_step_time TIMESTAMPTZ;

-- Index of the labels: for each label of an execution an entry `name=value`, and one with the name alone. The columns
-- repeat those of the execution, so that one index finds a page of the executions with a label and a status. Their names
-- differ from those of noetl.execution, with which the table is joined.
CREATE TABLE IF NOT EXISTS noetl.execution_label (
    execution_id BIGINT NOT NULL,
    label        TEXT NOT NULL,
    label_tenant TEXT NOT NULL,
    label_status TEXT NOT NULL,
    label_time   TIMESTAMPTZ,
    PRIMARY KEY (execution_id, label)
);

-- Keeps the index of labels, whoever writes the execution: a server, a move of a bucket, a purge, or NoETL's server,
-- whose role has no right on the index. Executions without labels cost nothing. The search path is explained at
-- noetl.assign_tx_id(). The triggers are ordinary ones: logical replication copies the entries themselves, with which
-- the entries of a trigger would collide.
CREATE OR REPLACE FUNCTION noetl.index_labels() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- A session keeps the plan of the deletion, also when the table was empty as it was made.
SET enable_seqscan = off AS
$$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM noetl.execution_label WHERE execution_id = OLD.execution_id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO noetl.execution_label (execution_id, label, label_tenant, label_status, label_time)
        SELECT NEW.execution_id, entry.label, NEW.tenant_id, upper(NEW.status), NEW.start_time
        FROM jsonb_each_text(NEW.labels) AS pair (name, value)
        CROSS JOIN LATERAL (VALUES (pair.name), (pair.name || '=' || pair.value)) AS entry (label)
        -- An entry that a deletion without triggers has left.
        ON CONFLICT (execution_id, label) DO UPDATE
            SET label_tenant = excluded.label_tenant, label_status = excluded.label_status, label_time = excluded.label_time;
    END IF;
    RETURN NULL;
END
$$;
-- A trigger needs no right on its function when it fires. Without the right, no role can use the function in a trigger
-- of its own table.
REVOKE ALL ON FUNCTION noetl.index_labels() FROM PUBLIC;

DROP TRIGGER IF EXISTS execution_index_labels ON noetl.execution;
CREATE TRIGGER execution_index_labels AFTER INSERT ON noetl.execution
    FOR EACH ROW WHEN (NEW.labels IS NOT NULL) EXECUTE FUNCTION noetl.index_labels();
-- The projector changes a row often, and what the index has of it seldom. The condition is cheaper than a call.
DROP TRIGGER IF EXISTS execution_change_labels ON noetl.execution;
CREATE TRIGGER execution_change_labels AFTER UPDATE ON noetl.execution
    FOR EACH ROW WHEN ((OLD.labels IS NOT NULL OR NEW.labels IS NOT NULL)
        AND (OLD.labels, OLD.status, OLD.start_time, OLD.tenant_id)
            IS DISTINCT FROM (NEW.labels, NEW.status, NEW.start_time, NEW.tenant_id))
    EXECUTE FUNCTION noetl.index_labels();
DROP TRIGGER IF EXISTS execution_drop_labels ON noetl.execution;
CREATE TRIGGER execution_drop_labels AFTER DELETE ON noetl.execution
    FOR EACH ROW WHEN (OLD.labels IS NOT NULL) EXECUTE FUNCTION noetl.index_labels();

-- Lists of executions with a condition on their end. A list is ordered by start time, so the executions that ended within
-- a time are found by their duration: an execution of a class started within the bounds of the class before its end.
-- Class 0: the duration is negative or unknown. Class 1: below 1 s. Class n: from 2^(n-2) s to 2^(n-1) s. The last class
-- has no upper bound.
CREATE OR REPLACE FUNCTION noetl.duration_class(started TIMESTAMPTZ, ended TIMESTAMPTZ) RETURNS INTEGER
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN isfinite(started) AND isfinite(ended)
        THEN width_bucket(date_part('epoch', ended - started), ARRAY[
            0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288,
            1048576, 2097152, 4194304, 8388608, 16777216, 33554432]::float8[])
        ELSE 0
    END
$$;

-- Shortest and longest duration of a class. Null: the class has no such bound.
CREATE OR REPLACE FUNCTION noetl.duration_bounds(class INTEGER) RETURNS TABLE (shortest INTERVAL, longest INTERVAL)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN class > 1 THEN make_interval(secs => 2.0 ^ (class - 2)) WHEN class = 1 THEN interval '0' END,
           CASE WHEN class BETWEEN 1 AND 26 THEN make_interval(secs => 2.0 ^ (class - 1)) END
$$;

-- Duration of an execution as a time after 1970-01-01, so that a list is ordered by it as by another time. A negative
-- duration counts as none. Null: there is no start or no end.
CREATE OR REPLACE FUNCTION noetl.duration_time(started TIMESTAMPTZ, ended TIMESTAMPTZ) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN started IS NOT NULL AND ended IS NOT NULL
        THEN (timestamp '1970-01-01' + greatest(noetl.list_time(ended) - noetl.list_time(started), interval '0'))
             AT TIME ZONE 'UTC'
    END
$$;

-- Refuses a list of executions by a path prefix. The caller found too many combinations of a path and a status with the
-- prefix, and each would be searched. The function must be volatile: the planner evaluates other functions. The servers
-- know the SQLSTATE.
CREATE OR REPLACE FUNCTION noetl.refuse_path_prefix() RETURNS BOOLEAN LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION 'too many paths begin with the prefix' USING ERRCODE = 'NL001';
END
$$;

-- Progress of a pass over the logs of this database. It gives a row in noetl.execution to each execution that has only a
-- log, or a row of another program, because the projector reads later events only. `position` is the last
-- log that was checked, so a pass continues where it was interrupted. A pass that began after the feed is the last one,
-- because the projector keeps later executions current. `from_steps` is the setting NOETL_EXECUTION_STATUS_FROM_STEPS with
-- which the pass stores statuses; with another one, the pass is repeated.
CREATE TABLE IF NOT EXISTS noetl.read_model_fill (
    singleton  BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    position   BIGINT NOT NULL DEFAULT -1,
    checked    BIGINT NOT NULL DEFAULT 0,
    filled     BIGINT NOT NULL DEFAULT 0,
    after_feed BOOLEAN NOT NULL,
    from_steps BOOLEAN NOT NULL DEFAULT false,
    began_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    ended_at   TIMESTAMPTZ
);

-- Position of the projector: the transactions whose events are in the list and in the snapshots, and executions of earlier
-- ones that could not be advanced and are tried again. It begins here, because the first pass over the logs begins later,
-- and so finds all that was committed before. The ids of transactions belong to the server with this identifier.
CREATE TABLE IF NOT EXISTS noetl.projection_cursor (
    singleton         BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    done              pg_snapshot NOT NULL,
    deferred          BIGINT[] NOT NULL DEFAULT '{}',
    system_identifier BIGINT NOT NULL,
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT now()
);
INSERT INTO noetl.projection_cursor (done, system_identifier)
SELECT pg_current_snapshot(), system_identifier FROM pg_control_system()
ON CONFLICT DO NOTHING;

-- Folded states with their watermark. NoETL's own server writes its own kinds of states here.
CREATE TABLE IF NOT EXISTS noetl.projection_snapshot (
    aggregate_id    TEXT NOT NULL,
    aggregate_type  TEXT NOT NULL,
    tenant_id       TEXT NOT NULL DEFAULT 'default',
    organization_id TEXT NOT NULL DEFAULT 'default',
    version         BIGINT NOT NULL,
    snapshot        JSONB NOT NULL,
    checksum        TEXT NOT NULL,
    meta            JSONB NOT NULL DEFAULT '{}',
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, organization_id, aggregate_type, aggregate_id)
);

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
