-- The replica that holds a machine id, for the list of replicas (cluster database). An earlier server leaves the
-- description of an earlier holder: `described_owner` then differs from `owner`.
ALTER TABLE noetl.machine_lease
    ADD COLUMN IF NOT EXISTS described_owner UUID,
    ADD COLUMN IF NOT EXISTS replica TEXT,
    ADD COLUMN IF NOT EXISTS version TEXT,
    ADD COLUMN IF NOT EXISTS started_at TIMESTAMPTZ;
