-- The event log (shards). Shards hold it without a catalog of their own, so catalog_id references nothing here.
CREATE TABLE IF NOT EXISTS noetl.event (
    execution_id        BIGINT NOT NULL,
    catalog_id          BIGINT NOT NULL DEFAULT 0,
    event_id            BIGINT NOT NULL,
    parent_event_id     BIGINT,
    parent_execution_id BIGINT,
    created_at          TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    event_type          VARCHAR,
    node_id             VARCHAR,
    node_name           VARCHAR,
    node_type           VARCHAR,
    status              VARCHAR,
    duration            DOUBLE PRECISION,
    context             JSONB,
    result              JSONB,
    meta                JSONB,
    error               TEXT,
    stack_trace         TEXT,
    tenant_id           TEXT NOT NULL DEFAULT 'default',
    organization_id     TEXT NOT NULL DEFAULT 'default',
    PRIMARY KEY (execution_id, event_id)
) PARTITION BY RANGE (execution_id);

-- Rows whose execution id lies in no quarter's range (ids of other origin) are stored here.
DO $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM pg_partitioned_table WHERE partrelid = 'noetl.event'::regclass AND partdefid <> 0
    ) THEN
        CREATE TABLE noetl.event_default PARTITION OF noetl.event DEFAULT;
    END IF;
END
$$;

ALTER TABLE noetl.event
    -- Older tables of NoETL lack these columns. Constant defaults: no table is rewritten.
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS stack_trace TEXT,
    -- Key of an event whose id this server gave, unique in its log. It is not idempotency_key, a column of NoETL's tables
    -- that other programs fill.
    ADD COLUMN IF NOT EXISTS event_key TEXT,
    -- Transaction that wrote the row. The tail cursor and the snapshots compare it. The default is stable, not volatile, so
    -- existing rows get one stored value and are not rewritten.
    ADD COLUMN IF NOT EXISTS tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();

-- The default of noetl.event.tx_id is right, but a row that is copied from another server, or that logical replication
-- writes, brings an id of that server. The feed and the snapshots compare the column with the transactions of this server,
-- so such a row would be published late, in each batch, or never.
--
-- The function runs only for a row with a wrong id: for all others, the condition is evaluated without calling it. The mover
-- of buckets gives copied rows the transaction id 4, which every cursor of a feed sees as published.
--
-- The triggers also run in sessions of other programs, whose search path may begin with a schema in which others create
-- functions and operators. They find PostgreSQL's own ones only.
CREATE OR REPLACE FUNCTION noetl.assign_tx_id() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$
BEGIN
    IF current_setting('noetl.moves_buckets', true) IS DISTINCT FROM 'on' THEN
        NEW.tx_id := pg_current_xact_id();
    END IF;
    RETURN NEW;
END
$$;

-- An update by logical replication writes all columns of the other server's row. The role is checked here too, because
-- ENABLE TRIGGER ALL also enables this trigger for this server's own updates, which assign ids.
CREATE OR REPLACE FUNCTION noetl.keep_tx_id() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
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

-- Tenant and organization of a log: those of the event that started or registered it, else of its first event. No row:
-- the log is empty.
CREATE OR REPLACE FUNCTION noetl.log_owner(log BIGINT) RETURNS TABLE (tenant_id TEXT, organization_id TEXT)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT owner.tenant_id, owner.organization_id FROM (
        (SELECT event.tenant_id, event.organization_id FROM noetl.event
         WHERE event.execution_id = log
           AND event.event_type IN ('subscription.registered', 'playbook_started', 'playbook.initialized')
         ORDER BY event.event_id LIMIT 1)
        UNION ALL
        (SELECT event.tenant_id, event.organization_id FROM noetl.event
         WHERE event.execution_id = log ORDER BY event.event_id LIMIT 1)
    ) AS owner LIMIT 1
$$;

-- The largest event id of a log; null: the log is empty. In PL/pgSQL, so that a statement that does not call it does not
-- plan its query.
CREATE OR REPLACE FUNCTION noetl.log_end(log BIGINT) RETURNS BIGINT
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT event.event_id FROM noetl.event WHERE event.execution_id = log ORDER BY event.event_id DESC LIMIT 1);
END
$$;

-- The part of an event's meta that its sender decides: without the caller that this server adds (`actor`), and without
-- the caller that a sender named (`extra.sent_actor`). An empty map counts as no meta. A repeated event is compared with
-- the stored one by this part, because the caller of a repetition can be another one.
CREATE OR REPLACE FUNCTION noetl.sent_meta(meta JSONB) RETURNS JSONB
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN jsonb_typeof(meta) <> 'object' THEN nullif(meta, 'null')
        WHEN jsonb_typeof(meta -> 'extra') IS DISTINCT FROM 'object' THEN nullif(meta - 'actor', '{}')
        WHEN (meta -> 'extra') - 'sent_actor' = '{}' THEN nullif(meta - 'actor' - 'extra', '{}')
        ELSE (meta - 'actor') #- '{extra,sent_actor}'
    END
$$;
