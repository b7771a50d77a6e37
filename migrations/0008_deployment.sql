-- The databases and replicas of a deployment, and the map of buckets to shards (cluster database).

-- The deployment and the shard that a database belongs to, so that swapped connection strings are noticed. Every database
-- of a deployment has the row.
CREATE TABLE IF NOT EXISTS noetl.database_identity (
    singleton  BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    cluster_id UUID NOT NULL,
    shard      SMALLINT
);

-- Machine ids of live replicas. The holder makes no id past `ceiling_ms` (milliseconds since 2024-01-01T00:00:00Z), and its
-- successor starts above it, so no two ever make the same id.
CREATE TABLE IF NOT EXISTS noetl.machine_lease (
    machine_id      SMALLINT PRIMARY KEY CHECK (machine_id BETWEEN 0 AND 1023),
    owner           UUID,
    expires_at      TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    ceiling_ms      BIGINT NOT NULL DEFAULT 0,
    -- The replica that holds the id, for the list of replicas. The description is of an earlier holder if `described_owner`
    -- differs from `owner`.
    described_owner UUID,
    replica         TEXT,
    version         TEXT,
    started_at      TIMESTAMPTZ,
    -- Version of the map that the holder uses, and its number of shards. The values are of an earlier holder if `map_owner`
    -- differs from `owner`.
    map_owner       UUID,
    map_version     BIGINT,
    shards          SMALLINT
);

INSERT INTO noetl.machine_lease (machine_id) SELECT generate_series(0, 1023) ON CONFLICT DO NOTHING;

-- The shard that holds each bucket of executions, filled at the first migration.
CREATE TABLE IF NOT EXISTS noetl.shard_bucket (
    bucket SMALLINT PRIMARY KEY CHECK (bucket BETWEEN 0 AND 5039),
    shard  SMALLINT NOT NULL CHECK (shard >= 0)
);

-- Version of the map in noetl.shard_bucket. A switch raises it in the transaction that changes the map.
CREATE TABLE IF NOT EXISTS noetl.shard_map_version (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    version   BIGINT NOT NULL DEFAULT 0
);
INSERT INTO noetl.shard_map_version (singleton) VALUES (true) ON CONFLICT DO NOTHING;

-- Moves of buckets, one row for each move and bucket. A row with a map version is a part of the bucket's history; the
-- barrier is the end of the source's stream at the switch (feed null: the source publishes nothing). `attempt` is raised
-- with each fence, so that a process that was stopped changes nothing when it continues.
CREATE TABLE IF NOT EXISTS noetl.bucket_move (
    move_id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bucket           SMALLINT NOT NULL CHECK (bucket BETWEEN 0 AND 5039),
    source           SMALLINT NOT NULL,
    target           SMALLINT NOT NULL CHECK (target <> source),
    state            TEXT NOT NULL DEFAULT 'copying'
        CHECK (state IN ('copying', 'fenced', 'switched', 'settled', 'cleaned')),
    attempt          BIGINT NOT NULL DEFAULT 0,
    barrier_feed     UUID,
    barrier_epoch    INTEGER,
    barrier_sequence BIGINT,
    map_version      BIGINT,
    began_at         TIMESTAMPTZ NOT NULL DEFAULT now(),
    changed_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    CHECK ((map_version IS NULL) = (state IN ('copying', 'fenced')))
);
CREATE UNIQUE INDEX IF NOT EXISTS bucket_move_open_idx ON noetl.bucket_move (bucket)
    WHERE state IN ('copying', 'fenced', 'switched');
