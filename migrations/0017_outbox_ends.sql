-- Every outbox row reaches an end.

-- Tables that NoETL's own server made before this one used the database. Their old rows are not deleted unless an
-- operator asks for it. Only NoETL's outbox has this column here.
CREATE TABLE IF NOT EXISTS noetl.adopted_table (table_name TEXT PRIMARY KEY);
INSERT INTO noetl.adopted_table (table_name)
SELECT 'outbox' FROM pg_attribute
WHERE attrelid = 'noetl.outbox'::regclass AND attname = 'payload_bytes' AND NOT attisdropped
ON CONFLICT DO NOTHING;

-- The message of a row whose codec is not JSON, as in NoETL's own table; and the number of claims after which a row
-- that was not delivered is dead, as the last claim set it.
ALTER TABLE noetl.outbox
    ADD COLUMN IF NOT EXISTS payload_bytes BYTEA,
    ADD COLUMN IF NOT EXISTS max_attempts INTEGER;

-- The status that the API shows. NoETL's table allows no other statuses than these four, and NoETL's publisher claims
-- FAILED rows when their time comes. So a DEAD row is stored as FAILED, and its time never comes.
CREATE OR REPLACE FUNCTION noetl.outbox_state(status TEXT, available_at TIMESTAMPTZ) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN status = 'FAILED' AND available_at = 'infinity'::timestamptz THEN 'DEAD'
        WHEN status IN ('PENDING', 'IN_FLIGHT', 'PUBLISHED', 'FAILED') THEN status
        ELSE 'UNKNOWN'
    END
$$;
