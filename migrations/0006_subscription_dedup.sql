-- Dedup claims (cluster database). A claim is reserved (0) until its execution is created (1); a reserved one carries
-- the request, so that anybody can finish it. Rows of older servers count as created, with NoETL's window of 300 s.
CREATE TABLE IF NOT EXISTS noetl.subscription_dedup (
    subscription_id BIGINT NOT NULL,
    dedup_key       TEXT NOT NULL,
    execution_id    BIGINT NOT NULL,
    seen_at         TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription_id, dedup_key)
);

ALTER TABLE noetl.subscription_dedup
    ADD COLUMN IF NOT EXISTS request_hash BYTEA,
    ADD COLUMN IF NOT EXISTS state SMALLINT NOT NULL DEFAULT 1 CHECK (state IN (0, 1)),
    ADD COLUMN IF NOT EXISTS expires_at TIMESTAMPTZ,
    ADD COLUMN IF NOT EXISTS request JSONB;
