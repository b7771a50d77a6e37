-- Source subscriptions as their lifecycle events tell them: there is no state table, the latest lifecycle event is the
-- state. Both scans are over event_landmark_idx, so the other events of a log cost nothing.
CREATE OR REPLACE VIEW noetl.source_subscription AS
SELECT registered.execution_id AS id,
       registered.node_name AS path,
       registered.catalog_id,
       latest.status AS state,
       latest.event_id AS last_event_id,
       latest.event_type AS last_event_type,
       registered.created_at AT TIME ZONE 'UTC' AS registered_at,
       latest.created_at AT TIME ZONE 'UTC' AS updated_at
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
