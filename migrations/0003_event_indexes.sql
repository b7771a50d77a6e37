-- Order of lists, and the indexes of the event table. The indexes are created on the parent only, which reads no rows.
-- `migrate` then builds each partition's index concurrently and attaches it; a partition that is created later gets its
-- own with its creation.

-- Lists of executions, of source subscriptions and of events are ordered by this time, then by id. Ids alone do not order
-- them: those of noetl.snowflake_id() are about twice as large as other ids of the same time. An item without a time is
-- the oldest. The bounds are the times that the API can show.
CREATE OR REPLACE FUNCTION noetl.list_time(moment TIMESTAMPTZ) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(
        least(coalesce(moment, '0001-01-01 00:00:00+00'), '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00')
$$;

-- The same time, for the index with this place among the indexes that end with the order of a list. All places give the
-- same time. But to the planner they are different expressions, so only one index has the order of a statement, whatever
-- the statistics of the table say.
CREATE OR REPLACE FUNCTION noetl.list_time(moment TIMESTAMPTZ, place INTEGER) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(
        least(coalesce(moment, '0001-01-01 00:00:00+00'), '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00',
        -- Before the year 1.
        to_timestamp(-100000000000 - place))
$$;

-- Batches of the feed: rows by the transaction that wrote them.
CREATE INDEX IF NOT EXISTS event_tx_idx ON ONLY noetl.event (tx_id, event_id);

-- Pages of a large batch of the feed, in the order in which it is published. The transaction id is in the index so that a
-- page counts the events of the batch without reading those of others.
CREATE INDEX IF NOT EXISTS event_page_idx ON ONLY noetl.event (event_id, execution_id, tx_id);

-- A snapshot of a log is brought up to date by what its own transaction snapshot does not see: rows of one log by the
-- transaction that wrote them.
CREATE INDEX IF NOT EXISTS event_log_tx_idx ON ONLY noetl.event (execution_id, tx_id);

-- Events whose ids this server gave, by the keys of their senders. Empty if no sender uses keys.
CREATE UNIQUE INDEX IF NOT EXISTS event_key_idx ON ONLY noetl.event (execution_id, event_key)
    WHERE event_key IS NOT NULL;

-- The landmarks: the few events that give the kind and the state of a log, with the types that NoETL's other servers
-- write. Queries repeat parts of this list, as the planner must prove that the list implies theirs.
CREATE INDEX IF NOT EXISTS event_landmarks_idx ON ONLY noetl.event (execution_id, event_id)
    WHERE event_type IN (
        'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
        'subscription.draining', 'subscription.deactivated',
        'playbook_started', 'playbook.initialized',
        'playbook_completed', 'playbook.completed', 'workflow.completed',
        'playbook_failed', 'playbook.failed', 'workflow.failed',
        'playbook.cancelled', 'playbook_cancelled', 'execution.cancelled');

-- Source subscriptions, which are few among the landmarks: all of them, those of a path, newest first, and by time.
-- NoETL's server registers subscriptions without our registry, so a path without a live subscription in the registry is
-- searched for in the logs.
CREATE INDEX IF NOT EXISTS event_registered_idx ON ONLY noetl.event (execution_id)
    WHERE event_type = 'subscription.registered';
CREATE INDEX IF NOT EXISTS event_registered_path_idx ON ONLY noetl.event (node_name, execution_id DESC)
    WHERE event_type = 'subscription.registered';
CREATE INDEX IF NOT EXISTS event_registered_time_idx
    ON ONLY noetl.event (noetl.list_time(created_at AT TIME ZONE 'UTC'), execution_id)
    WHERE event_type = 'subscription.registered';

-- Lists of events over several executions, newest first: by type and status, by node, by tenant, by organization, and by
-- the parent of the executions. Each index ends with the order of the list. The texts are cut, because an index entry has
-- a limit and they have none; more texts in an entry leave less space for each. Queries compare the whole texts too. The
-- indexes on tenants and organizations are empty in a deployment that does not use them.
CREATE INDEX IF NOT EXISTS event_kind_idx ON ONLY noetl.event (
    (left(coalesce(event_type, ''), 255) COLLATE "C"), (left(coalesce(status, ''), 255) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC')), event_id, execution_id);
CREATE INDEX IF NOT EXISTS event_node_kind_idx ON ONLY noetl.event (
    (left(node_name, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"),
    (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 2)), event_id, execution_id)
    WHERE node_name IS NOT NULL;
CREATE INDEX IF NOT EXISTS event_tenant_kind_idx ON ONLY noetl.event (
    (left(tenant_id, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"),
    (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 3)), event_id, execution_id)
    WHERE tenant_id <> 'default';
CREATE INDEX IF NOT EXISTS event_tenant_node_idx ON ONLY noetl.event (
    (left(tenant_id, 160) COLLATE "C"), (left(node_name, 160) COLLATE "C"),
    (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 4)), event_id, execution_id)
    WHERE tenant_id <> 'default' AND node_name IS NOT NULL;
CREATE INDEX IF NOT EXISTS event_organization_idx ON ONLY noetl.event (
    (left(organization_id, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"),
    (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 5)), event_id, execution_id)
    WHERE organization_id <> 'default';
CREATE INDEX IF NOT EXISTS event_parent_idx ON ONLY noetl.event (
    parent_execution_id, (left(coalesce(event_type, ''), 160) COLLATE "C"),
    (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 6)), event_id, execution_id)
    WHERE parent_execution_id IS NOT NULL;
