-- Messages to workers (shards), each written in the transaction of its event.
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

-- Tables that NoETL's own server made before this one used the database. Their old rows are not deleted unless an
-- operator asks for it. Only NoETL's outbox has this column before the next statement.
CREATE TABLE IF NOT EXISTS noetl.adopted_table (table_name TEXT PRIMARY KEY);
INSERT INTO noetl.adopted_table (table_name)
SELECT 'outbox' FROM pg_attribute
WHERE attrelid = 'noetl.outbox'::regclass AND attname = 'payload_bytes' AND NOT attisdropped
ON CONFLICT DO NOTHING;

ALTER TABLE noetl.outbox
    -- A claim is a lease: it expires, and only its token settles the row.
    ADD COLUMN IF NOT EXISTS lease_until TIMESTAMPTZ,
    ADD COLUMN IF NOT EXISTS lease_token BIGINT,
    -- The message of a row whose codec is not JSON, as in NoETL's own table.
    ADD COLUMN IF NOT EXISTS payload_bytes BYTEA,
    -- Number of claims after which a row that was not delivered is dead, as the last claim set it.
    ADD COLUMN IF NOT EXISTS max_attempts INTEGER,
    -- See noetl.outbox_owner().
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default',
    -- Worker that holds the claim.
    ADD COLUMN IF NOT EXISTS claimant TEXT,
    -- The message id under which the row is published. It is given with the first claim, stays in repetitions, so that the
    -- broker recognises them, and belongs to one history of the database: after a restore or a failover, a row gets another
    -- id, because the broker may have delivered the message in the history that is gone.
    ADD COLUMN IF NOT EXISTS message_id UUID,
    ADD COLUMN IF NOT EXISTS message_history BIGINT;
CREATE SEQUENCE IF NOT EXISTS noetl.outbox_lease_token;

-- Returns the history of this database: a hash of what distinguishes it from its copies on the same server, on other
-- servers, and from before a promotion. The primary's WAL position has the timeline.
CREATE OR REPLACE FUNCTION noetl.database_history() RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(
        concat_ws(' ', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), oid), 0)
    FROM pg_control_system(), pg_database WHERE datname = current_database()
$$;

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

-- Tenant (`key` is tenant_id) or organization (organization_id) of an outbox row. NoETL's own server writes them to the
-- payload only.
CREATE OR REPLACE FUNCTION noetl.outbox_owner(stored TEXT, payload JSONB, key TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN stored <> 'default' THEN stored ELSE coalesce(nullif(payload ->> key, ''), 'default') END
$$;

-- A text as a token of a subject, like `token` in crates/domain/src/outbox_message.rs.
CREATE OR REPLACE FUNCTION noetl.subject_token(name TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(btrim(regexp_replace(coalesce(name, ''), '[^A-Za-z0-9_-]+', '-', 'g'), '-'), ''), 'default')
$$;

-- Subject to which the message of an outbox row is published: the stored one, else NoETL's subject for the event.
CREATE OR REPLACE FUNCTION noetl.outbox_subject(subject TEXT, tenant TEXT, organization TEXT, execution BIGINT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(subject, 'noetl.events.' || noetl.subject_token(tenant) || '.' || noetl.subject_token(organization)
                             || '.' || coalesce(nullif(execution, 0)::text, 'none') || '.0')
$$;

-- Whether the subject of an outbox row begins with one of these texts.
CREATE OR REPLACE FUNCTION noetl.outbox_selected(
    prefixes TEXT[], subject TEXT, tenant TEXT, organization TEXT, payload JSONB, execution BIGINT
) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(prefixes) AS wanted (prefix)
        WHERE starts_with(noetl.outbox_subject(subject, noetl.outbox_owner(tenant, payload, 'tenant_id'),
                                               noetl.outbox_owner(organization, payload, 'organization_id'), execution),
                          wanted.prefix))
$$;
