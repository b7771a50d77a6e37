-- Which shard holds which bucket of executions (cluster database), filled at the first migration.
CREATE TABLE IF NOT EXISTS noetl.shard_bucket (
    bucket SMALLINT PRIMARY KEY CHECK (bucket BETWEEN 0 AND 5039),
    shard  SMALLINT NOT NULL CHECK (shard >= 0)
);

-- Which deployment and which shard a database belongs to, so that swapped connection strings are noticed.
CREATE TABLE IF NOT EXISTS noetl.database_identity (
    singleton  BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    cluster_id UUID NOT NULL,
    shard      SMALLINT
);
