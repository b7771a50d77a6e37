-- Fences and forwarded outbox rows of buckets that are moved between shards (shards).

-- Buckets of this shard whose rows can't be written: until a time, or for ever if `sealed`. `moved_to`: the shard that has
-- the bucket. The row of bucket -1 is changed with each fence; see noetl.check_bucket_fence().
CREATE TABLE IF NOT EXISTS noetl.bucket_fence (
    bucket   SMALLINT PRIMARY KEY CHECK (bucket BETWEEN -1 AND 5039),
    attempt  BIGINT NOT NULL DEFAULT 0,
    until    TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    sealed   BOOLEAN NOT NULL DEFAULT false,
    moved_to SMALLINT
);
INSERT INTO noetl.bucket_fence (bucket) VALUES (-1) ON CONFLICT DO NOTHING;

-- Id of an outbox row of a moved bucket on the shard that got the bucket.
CREATE TABLE IF NOT EXISTS noetl.outbox_forward (
    outbox_id BIGINT PRIMARY KEY,
    bucket    SMALLINT NOT NULL,
    shard     SMALLINT NOT NULL,
    new_id    BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS outbox_forward_bucket_idx ON noetl.outbox_forward (bucket);

-- Product of two numbers of 64 bits without sign, without the bits beyond 64. The second one is given by its upper half
-- and the two quarters of its lower half.
CREATE OR REPLACE FUNCTION noetl.multiply_64(a BIGINT, high BIGINT, middle BIGINT, low BIGINT) RETURNS BIGINT
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    a_low  BIGINT := a & 4294967295;
    a_high BIGINT := (a >> 32) & 4294967295;
    partial BIGINT := a_low * middle;
    lower  BIGINT := a_low * low + ((partial & 65535) << 16);
    upper  BIGINT := (partial >> 16) + (lower >> 32)
        + a_high * low + ((a_high * middle & 65535) << 16)
        + (a_low * (high & 65535) & 4294967295) + ((a_low * (high >> 16) & 65535) << 16);
BEGIN
    RETURN (upper << 32) | (lower & 4294967295);
END
$$;

-- Bucket of an execution: xxh64 of its little-endian bytes, modulo 5040, like `bucket_of` in crates/domain/src/shard.rs.
-- The cost is that of a built-in function, so that the plans of lists do not depend on it.
CREATE OR REPLACE FUNCTION noetl.bucket_of(execution BIGINT) RETURNS INTEGER
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1 AS $$
DECLARE
    h BIGINT;
BEGIN
    -- Primes of xxh64: 1 is 9E3779B1 85EB CA87, 2 is C2B2AE3D 27D4 EB4F, 3 is 165667B1 9E37 79F9.
    h := noetl.multiply_64(execution, 3266489917, 10196, 60239);
    h := (h << 31) | ((h >> 33) & 2147483647);
    h := noetl.multiply_64(h, 2654435761, 34283, 51847);
    -- The fifth prime and the length: 27D4EB2F165667C5 + 8.
    h := h # 2870177450012600269;
    h := (h << 27) | ((h >> 37) & 134217727);
    h := noetl.multiply_64(h, 2654435761, 34283, 51847);
    -- The fourth prime, 85EBCA77C2B2AE63, is added in halves.
    h := ((((h >> 32) & 4294967295) + 2246822519 + (((h & 4294967295) + 3266489955) >> 32)) << 32)
         | (((h & 4294967295) + 3266489955) & 4294967295);
    h := h # ((h >> 33) & 2147483647);
    h := noetl.multiply_64(h, 3266489917, 10196, 60239);
    h := h # ((h >> 29) & 34359738367);
    h := noetl.multiply_64(h, 374761393, 40503, 31225);
    h := h # ((h >> 32) & 4294967295);
    -- 2^32 modulo 5040 is 256.
    RETURN (((h >> 32) & 4294967295) % 5040 * 256 + (h & 4294967295)) % 5040;
END
$$;

-- Refuses changes of rows of fenced buckets. The triggers are created by the first move away from a shard. The statement that the
-- row belongs to holds ROW EXCLUSIVE on the table since before this function looked, so a mover that has committed a fence
-- waits for those who hold it: they may have looked before. A transaction with an old snapshot would not see a fence that
-- was committed after it. It locks the row of bucket -1, which each fence changes, so it fails or the fence waits for it.
CREATE OR REPLACE FUNCTION noetl.check_bucket_fence() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stored RECORD := NEW;
    wanted SMALLINT;
    fence  noetl.bucket_fence;
BEGIN
    IF TG_OP = 'DELETE' THEN
        stored := OLD;
    END IF;
    IF current_setting('noetl.moves_buckets', true) = 'on' THEN
        RETURN stored;
    END IF;
    IF TG_TABLE_NAME = 'projection_snapshot' THEN
        -- Only states of executions have a number of 64 bits as their id.
        IF stored.aggregate_id ~ '^-?[0-9]{1,19}$' THEN
            IF stored.aggregate_id::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
                wanted := noetl.bucket_of(stored.aggregate_id::bigint);
            END IF;
        END IF;
    ELSE
        wanted := noetl.bucket_of(stored.execution_id);
    END IF;
    IF wanted IS NULL THEN
        RETURN stored;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM FROM noetl.bucket_fence WHERE bucket = -1 FOR SHARE;
    END IF;
    SELECT * INTO fence FROM noetl.bucket_fence WHERE bucket = wanted;
    -- The rows of a bucket that has left can be deleted.
    IF NOT FOUND OR (TG_OP = 'DELETE' AND fence.moved_to IS NOT NULL) THEN
        RETURN stored;
    END IF;
    IF NOT fence.sealed AND fence.until <= clock_timestamp() THEN
        -- The time has passed, unless the mover is sealing the fence: the lock waits for that.
        SELECT * INTO fence FROM noetl.bucket_fence WHERE bucket = wanted FOR SHARE;
        IF NOT FOUND OR (NOT fence.sealed AND fence.until <= clock_timestamp()) THEN
            RETURN stored;
        END IF;
    END IF;
    RAISE EXCEPTION 'bucket % is being moved or has moved to another shard', wanted USING ERRCODE = 'NB001';
END
$$;
