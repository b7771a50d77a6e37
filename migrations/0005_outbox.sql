-- Messages written in the transaction of the event that they tell of.
CREATE TABLE IF NOT EXISTS noetl.outbox (
    outbox_id     BIGSERIAL PRIMARY KEY,
    execution_id  BIGINT,
    event_id      BIGINT NOT NULL,
    subject       TEXT,
    payload       JSONB NOT NULL,
    payload_codec TEXT NOT NULL DEFAULT 'json',
    status        TEXT NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'IN_FLIGHT', 'PUBLISHED', 'FAILED')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    available_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    locked_at     TIMESTAMPTZ,
    published_at  TIMESTAMPTZ,
    last_error    TEXT,
    created_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at    TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (execution_id, event_id)
);

-- A claim is a lease: it expires, and only its token settles the row.
ALTER TABLE noetl.outbox
    ADD COLUMN IF NOT EXISTS lease_until TIMESTAMPTZ,
    ADD COLUMN IF NOT EXISTS lease_token BIGINT;
CREATE SEQUENCE IF NOT EXISTS noetl.outbox_lease_token;
