-- The event log. Shards hold it without a catalog of their own, so catalog_id references nothing here.
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

-- Rows whose execution id lies in no quarter's range (ids of other origin) live here.
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
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS stack_trace TEXT;

-- The writing transaction of each row: what the tail cursor and the snapshots compare. The default is stable, not
-- volatile, so rows that are there get one stored value and no rewrite takes place.
ALTER TABLE noetl.event
    ADD COLUMN IF NOT EXISTS tx_id xid8 NOT NULL DEFAULT pg_current_xact_id();
