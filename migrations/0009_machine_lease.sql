-- Machine ids of live replicas (cluster database). The holder makes no id past `ceiling_ms` (milliseconds since
-- 2024-01-01T00:00:00Z), and its successor starts above it, so no two ever make the same id.
CREATE TABLE IF NOT EXISTS noetl.machine_lease (
    machine_id SMALLINT PRIMARY KEY CHECK (machine_id BETWEEN 0 AND 1023),
    owner      UUID,
    expires_at TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    ceiling_ms BIGINT NOT NULL DEFAULT 0
);

INSERT INTO noetl.machine_lease (machine_id) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;
