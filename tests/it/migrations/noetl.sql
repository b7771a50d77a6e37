-- The tables of an existing NoETL server, without the additions of this server.
CREATE SCHEMA noetl;
CREATE TABLE noetl.resource (name VARCHAR PRIMARY KEY, meta JSONB);
CREATE TABLE noetl.catalog (
    catalog_id BIGINT PRIMARY KEY,
    path TEXT NOT NULL,
    version SMALLINT NOT NULL,
    kind VARCHAR NOT NULL REFERENCES noetl.resource (name),
    content TEXT,
    layout JSONB,
    payload JSONB,
    meta JSONB,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (path, version)
);
CREATE TABLE noetl.event (
    execution_id BIGINT,
    catalog_id BIGINT NOT NULL REFERENCES noetl.catalog (catalog_id),
    event_id BIGINT,
    parent_event_id BIGINT,
    parent_execution_id BIGINT,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    event_type VARCHAR,
    node_id VARCHAR,
    node_name VARCHAR,
    node_type VARCHAR,
    status VARCHAR,
    duration DOUBLE PRECISION,
    context JSONB,
    result JSONB,
    meta JSONB,
    error TEXT,
    current_index INTEGER,
    current_item TEXT,
    worker_id VARCHAR,
    distributed_state VARCHAR,
    context_key VARCHAR,
    context_value TEXT,
    trace_component JSONB,
    stack_trace TEXT,
    PRIMARY KEY (execution_id, event_id)
) PARTITION BY RANGE (execution_id);
CREATE TABLE noetl.event_first PARTITION OF noetl.event FOR VALUES FROM (0) TO (315000000000000000);
CREATE TABLE noetl.event_second PARTITION OF noetl.event FOR VALUES FROM (315000000000000000) TO (318000000000000000);
CREATE TABLE noetl.event_default PARTITION OF noetl.event DEFAULT;
CREATE INDEX idx_event_type ON noetl.event (event_type);
CREATE VIEW noetl.event_log AS SELECT * FROM noetl.event;
CREATE TABLE noetl.execution (
    execution_id BIGINT PRIMARY KEY,
    catalog_id BIGINT NOT NULL,
    status VARCHAR NOT NULL,
    last_event_type VARCHAR,
    last_node_name VARCHAR,
    last_event_id BIGINT,
    start_time TIMESTAMPTZ,
    end_time TIMESTAMPTZ,
    error TEXT,
    state JSONB,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE TABLE noetl.outbox (
    outbox_id BIGSERIAL PRIMARY KEY,
    execution_id BIGINT,
    event_id BIGINT NOT NULL,
    subject TEXT,
    payload JSONB NOT NULL,
    payload_bytes BYTEA,
    payload_codec TEXT NOT NULL DEFAULT 'arrow-feather',
    status TEXT NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'IN_FLIGHT', 'PUBLISHED', 'FAILED')),
    attempts INTEGER NOT NULL DEFAULT 0,
    available_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    locked_at TIMESTAMPTZ,
    published_at TIMESTAMPTZ,
    last_error TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (execution_id, event_id)
);
CREATE INDEX idx_outbox_ready ON noetl.outbox (status, available_at, outbox_id) WHERE status IN ('PENDING', 'FAILED');
CREATE INDEX idx_outbox_execution_event ON noetl.outbox (execution_id, event_id);
CREATE TABLE noetl.subscription_dedup (
    subscription_id BIGINT NOT NULL,
    dedup_key TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription_id, dedup_key)
);
CREATE TABLE noetl.projection_snapshot (
    aggregate_id TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    tenant_id TEXT NOT NULL DEFAULT 'default',
    organization_id TEXT NOT NULL DEFAULT 'default',
    version BIGINT NOT NULL,
    snapshot JSONB NOT NULL,
    checksum TEXT NOT NULL,
    meta JSONB NOT NULL DEFAULT '{}',
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, organization_id, aggregate_type, aggregate_id)
);
