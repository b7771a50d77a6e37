-- Source subscriptions: their states (shards), and the registry of live ones and the dedup claims (cluster database).

-- Source subscriptions according to their logs: there is no state table, the latest lifecycle event is the state. Tenant
-- and organization are those of the registered event. Both scans use event_landmarks_idx, so the other events of a log
-- cost nothing.
CREATE OR REPLACE VIEW noetl.source_subscription AS
SELECT registered.execution_id AS id,
       registered.node_name AS path,
       registered.catalog_id,
       latest.status AS state,
       latest.event_id AS last_event_id,
       latest.event_type AS last_event_type,
       registered.created_at AT TIME ZONE 'UTC' AS registered_at,
       latest.created_at AT TIME ZONE 'UTC' AS updated_at,
       registered.tenant_id,
       registered.organization_id,
       registered.meta -> 'labels' AS labels
FROM noetl.event AS registered
CROSS JOIN LATERAL (
    SELECT event_id, event_type, status, created_at
    FROM noetl.event
    WHERE execution_id = registered.execution_id AND event_type IN (
        'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
        'subscription.draining', 'subscription.deactivated')
    ORDER BY event_id DESC
    LIMIT 1
) AS latest
WHERE registered.event_type = 'subscription.registered';

-- One row per path: the only subscription of the path that may be live. Its row lock serialises everything that makes a
-- subscription live. A row with `intent_after` is a reservation: subscription_id is to become live by a registered or
-- activated event with a larger id, and every reader of the row completes that. The event names the caller, the tenant and
-- the organization that made the reservation, because another caller, or the sweeper, may write it.
CREATE TABLE IF NOT EXISTS noetl.subscription_registry (
    path                   TEXT PRIMARY KEY,
    subscription_id        BIGINT NOT NULL UNIQUE,
    intent_after           BIGINT,
    updated_at             TIMESTAMPTZ NOT NULL DEFAULT now(),
    intent_actor           TEXT,
    intent_tenant_id       TEXT,
    intent_organization_id TEXT
);

CREATE INDEX IF NOT EXISTS subscription_registry_intent_idx
    ON noetl.subscription_registry (path) WHERE intent_after IS NOT NULL;

-- Dedup claims. A claim is reserved (0) until its execution is created (1); a reserved one carries the request, so that
-- every replica can complete it. Rows of NoETL's own server count as created, with NoETL's window of 300 s.
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
    ADD COLUMN IF NOT EXISTS request JSONB,
    -- Duplicates of the message, for the operator's search for a key.
    ADD COLUMN IF NOT EXISTS duplicates BIGINT NOT NULL DEFAULT 0;

-- NoETL's server deletes the claims of a scope that are older than the window of its request. Claims of this server have
-- windows of their own, so a claim that is reserved, or whose window has not passed, is kept. Rows without expires_at are
-- NoETL's and have no window. The search path is explained at noetl.assign_tx_id().
CREATE OR REPLACE FUNCTION noetl.keep_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$$ BEGIN RETURN NULL; END $$;

DROP TRIGGER IF EXISTS subscription_dedup_keep_claim ON noetl.subscription_dedup;
CREATE TRIGGER subscription_dedup_keep_claim BEFORE DELETE ON noetl.subscription_dedup
    FOR EACH ROW WHEN (OLD.state = 0 OR OLD.expires_at > now()) EXECUTE FUNCTION noetl.keep_row();
