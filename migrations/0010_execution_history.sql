-- The history of executions (shards): how many started and ended in each minute, hour and day, computed from
-- noetl.execution.

-- Start of the span with this length that contains a time. Spans are counted from 2000-01-01 in UTC.
CREATE OR REPLACE FUNCTION noetl.span_start(moment TIMESTAMPTZ, seconds INTEGER) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN isfinite(moment)
        THEN to_timestamp(946684800
            + floor(date_part('epoch', moment - timestamptz '2000-01-01 00:00:00+00') / seconds) * seconds)
        ELSE moment
    END
$$;

-- Class of a duration: 0 up to 1 ms; n above f^(n-1) ms, up to f^n ms, with f = 1.05 / 0.95, as in
-- crates/domain/src/history.rs. Null: the duration is negative or unknown.
CREATE OR REPLACE FUNCTION noetl.history_class(started TIMESTAMPTZ, ended TIMESTAMPTZ) RETURNS SMALLINT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN isfinite(started) AND isfinite(ended) AND ended >= started
        THEN ceil(ln(greatest(date_part('epoch', ended - started) * 1000, 1)) / ln(1.05::float8 / 0.95::float8))::smallint
    END
$$;

-- Numbers of executions of a span: 60, 3600 or 86400 seconds from `at`. The texts are empty if the executions have none.
-- `classes` has the classes of the durations of the executions that ended, in order, and `counts` the number of executions
-- for each. `wait_classes` and `wait_counts` have those of their waits until the first step, if they had one. The key is for
-- logical replication, which needs one to delete rows.
CREATE TABLE IF NOT EXISTS noetl.execution_history (
    row_id          UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    span            INTEGER NOT NULL CHECK (span IN (60, 3600, 86400)),
    at              TIMESTAMPTZ NOT NULL,
    tenant_id       TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    path            TEXT NOT NULL,
    execution_pool  TEXT NOT NULL,
    started         BIGINT NOT NULL,
    completed       BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    cancelled       BIGINT NOT NULL,
    classes         SMALLINT[] NOT NULL,
    counts          BIGINT[] NOT NULL,
    wait_classes    SMALLINT[] NOT NULL DEFAULT '{}',
    wait_counts     BIGINT[] NOT NULL DEFAULT '{}'
);
-- No unique index: a path has no limit, and an index entry has one. The task that writes the rows holds a lock. Each index
-- has another expression of the time, so that the planner uses the one that a read names.
CREATE INDEX IF NOT EXISTS execution_history_time_idx ON noetl.execution_history (span, at);
CREATE INDEX IF NOT EXISTS execution_history_tenant_idx
    ON noetl.execution_history (tenant_id, span, noetl.list_time(at, 1)) WHERE tenant_id <> 'default';
CREATE INDEX IF NOT EXISTS execution_history_path_idx
    ON noetl.execution_history (md5(path), span, noetl.list_time(at, 2));

-- Progress of the task that computes the rows. Rows before `closed_to` are computed; reads count the executions from there
-- on. `next_to` is the next such time, valid when all transactions up to `next_xid` have ended. Rows before `final_to` are
-- not computed again, because the retention may have deleted their executions. `held` has the bits of the buckets that the
-- shard had when the rows were computed, and the number of switches that it had taken part in (null: none are computed).
CREATE TABLE IF NOT EXISTS noetl.execution_history_progress (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    closed_to TIMESTAMPTZ,
    next_to   TIMESTAMPTZ,
    next_xid  XID8,
    final_to  TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    held      BYTEA
);
INSERT INTO noetl.execution_history_progress DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Hours with executions that changed later than a minute after their start or end, and those that a repair found to be wrong,
-- with the transaction that noted them. The task computes them again. A restored database can have notes of transactions with
-- the same ids as its own, so `row_id` is a part of the key.
CREATE TABLE IF NOT EXISTS noetl.execution_history_late (
    hour   TIMESTAMPTZ NOT NULL,
    tx_id  XID8 NOT NULL DEFAULT pg_current_xact_id(),
    row_id UUID NOT NULL DEFAULT gen_random_uuid(),
    PRIMARY KEY (hour, tx_id, row_id)
);

-- Notes the hours that a late change of an execution concerns, once for each transaction. The mover's changes are not
-- noted: it copies and deletes only rows of buckets that the shard does not have, which are not counted. NoETL's
-- servers need no right on the tables of the history.
CREATE OR REPLACE FUNCTION noetl.note_late_execution() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moments TIMESTAMPTZ[];
BEGIN
    IF current_setting('noetl.moves_buckets', true) = 'on' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        moments := ARRAY[NEW.start_time, NEW.end_time];
    ELSIF TG_OP = 'DELETE' THEN
        moments := ARRAY[OLD.start_time, OLD.end_time];
    ELSE
        moments := ARRAY[OLD.end_time, NEW.end_time];
        IF (OLD.start_time, OLD.path, OLD.execution_pool, OLD.tenant_id, OLD.organization_id)
            IS DISTINCT FROM (NEW.start_time, NEW.path, NEW.execution_pool, NEW.tenant_id, NEW.organization_id)
        THEN
            moments := moments || ARRAY[OLD.start_time, NEW.start_time];
        END IF;
    END IF;
    INSERT INTO noetl.execution_history_late (hour)
    SELECT changed.hour FROM (
        SELECT DISTINCT noetl.span_start(moment, 3600) AS hour FROM unnest(moments) AS moment
        WHERE isfinite(moment) AND moment < clock_timestamp() - interval '1 minute'
          AND moment >= (SELECT final_to FROM noetl.execution_history_progress)
    ) AS changed
    WHERE NOT EXISTS (
        SELECT FROM noetl.execution_history_late AS noted
        WHERE noted.hour = changed.hour AND noted.tx_id = pg_current_xact_id()
          AND noted.xmin = pg_current_xact_id()::xid);
    RETURN NULL;
END
$$;
-- A trigger needs no right on its function when it fires. Without the right, no role can use the function in a trigger
-- of its own table.
REVOKE ALL ON FUNCTION noetl.note_late_execution() FROM PUBLIC;

-- The conditions exclude what the servers do all the time: an execution that starts or ends now costs no call.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger
               WHERE tgrelid = 'noetl.execution'::regclass AND tgname = 'execution_history_insert') THEN
        RETURN;
    END IF;
    CREATE TRIGGER execution_history_insert AFTER INSERT ON noetl.execution FOR EACH ROW
        WHEN (least(NEW.start_time, NEW.end_time) < clock_timestamp() - interval '1 minute')
        EXECUTE FUNCTION noetl.note_late_execution();
    CREATE TRIGGER execution_history_delete AFTER DELETE ON noetl.execution FOR EACH ROW
        WHEN (least(OLD.start_time, OLD.end_time) < clock_timestamp() - interval '1 minute')
        EXECUTE FUNCTION noetl.note_late_execution();
    CREATE TRIGGER execution_history_update AFTER UPDATE ON noetl.execution FOR EACH ROW
        WHEN (((OLD.end_time, OLD.status, OLD.first_step_time)
                       IS DISTINCT FROM (NEW.end_time, NEW.status, NEW.first_step_time)
               AND least(OLD.end_time, NEW.end_time) < clock_timestamp() - interval '1 minute')
              OR ((OLD.start_time, OLD.path, OLD.execution_pool, OLD.tenant_id, OLD.organization_id)
                      IS DISTINCT FROM
                      (NEW.start_time, NEW.path, NEW.execution_pool, NEW.tenant_id, NEW.organization_id)
                  AND least(OLD.start_time, OLD.end_time, NEW.start_time, NEW.end_time)
                      < clock_timestamp() - interval '1 minute'))
        EXECUTE FUNCTION noetl.note_late_execution();
    -- Also for a writer that applies logical replication.
    ALTER TABLE noetl.execution ENABLE ALWAYS TRIGGER execution_history_insert;
    ALTER TABLE noetl.execution ENABLE ALWAYS TRIGGER execution_history_delete;
    ALTER TABLE noetl.execution ENABLE ALWAYS TRIGGER execution_history_update;
END
$$;
