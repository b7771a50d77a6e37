-- Executions, outbox rows and source subscriptions belong to a tenant, and to an organization of it, as events do.
-- Constant defaults: no table is rewritten. NoETL's own server does not name these columns, so its rows get the defaults.
ALTER TABLE noetl.execution
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default';
ALTER TABLE noetl.outbox
    ADD COLUMN IF NOT EXISTS tenant_id TEXT NOT NULL DEFAULT 'default',
    ADD COLUMN IF NOT EXISTS organization_id TEXT NOT NULL DEFAULT 'default';

-- Another caller, or the sweeper, may write the registered event that an intent asks for.
ALTER TABLE noetl.subscription_registry
    ADD COLUMN IF NOT EXISTS intent_tenant_id TEXT,
    ADD COLUMN IF NOT EXISTS intent_organization_id TEXT;

-- Tenant (`key` is tenant_id) or organization (organization_id) of an outbox row. NoETL's own server writes them to the
-- payload only.
CREATE OR REPLACE FUNCTION noetl.outbox_owner(stored TEXT, payload JSONB, key TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN stored <> 'default' THEN stored ELSE coalesce(nullif(payload ->> key, ''), 'default') END
$$;

-- Tenant and organization of a log: those of the event that started or registered it, else of its first event. No row:
-- the log is empty.
CREATE OR REPLACE FUNCTION noetl.log_owner(log BIGINT) RETURNS TABLE (tenant_id TEXT, organization_id TEXT)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT owner.tenant_id, owner.organization_id FROM (
        (SELECT event.tenant_id, event.organization_id FROM noetl.event
         WHERE event.execution_id = log
           AND event.event_type IN ('subscription.registered', 'playbook_started', 'playbook.initialized')
         ORDER BY event.event_id LIMIT 1)
        UNION ALL
        (SELECT event.tenant_id, event.organization_id FROM noetl.event
         WHERE event.execution_id = log ORDER BY event.event_id LIMIT 1)
    ) AS owner LIMIT 1
$$;

-- The view of 0012, with the tenant and the organization of the registered event.
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
       registered.organization_id
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

-- Rows of executions that were listed before have the default tenant, even if their log names another one. The fill of
-- the list corrects them in a new pass.
UPDATE noetl.read_model_fill SET position = -1, checked = 0, filled = 0, began_at = now(), ended_at = NULL;
