-- The executions' list read model; rebuildable from the event log.
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
    -- The catalog lives in the cluster database, so a path filter needs the path here.
    ADD COLUMN IF NOT EXISTS path TEXT;
