-- One row per path (cluster database): the only subscription of the path that may be live. Its row lock serialises
-- whatever makes a subscription live. A row with `intent_after` is a reservation: subscription_id is to become live by a
-- registered or activated event with a larger id, and whoever reads it finishes that.
CREATE TABLE IF NOT EXISTS noetl.subscription_registry (
    path            TEXT PRIMARY KEY,
    subscription_id BIGINT NOT NULL UNIQUE,
    intent_after    BIGINT,
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS subscription_registry_intent_idx
    ON noetl.subscription_registry (path) WHERE intent_after IS NOT NULL;
