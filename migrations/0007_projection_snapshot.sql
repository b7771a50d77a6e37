-- Folded states with their watermark; derived, rebuildable from the event log.
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
