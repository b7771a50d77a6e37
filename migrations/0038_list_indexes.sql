-- Time by which lists are ordered, for the index with this place among the indexes that end with the order of a list. All
-- places give the same time. But to the planner they are different expressions, so only one index has the order of a
-- statement, whatever the statistics of the table say.
CREATE OR REPLACE FUNCTION noetl.list_time(moment TIMESTAMPTZ, place INTEGER) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(
        least(coalesce(moment, '0001-01-01 00:00:00+00'), '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00',
        -- Before the year 1.
        to_timestamp(-100000000000 - place))
$$;

-- Lists of executions with a condition on their end. A list is ordered by start time, so the executions that ended within
-- a time are found by their duration: an execution of a class started within the bounds of the class before its end.
-- Class 0: the duration is negative or unknown. Class 1: below 1 s. Class n: from 2^(n-2) s to 2^(n-1) s. The last class
-- has no upper bound.
CREATE OR REPLACE FUNCTION noetl.duration_class(started TIMESTAMPTZ, ended TIMESTAMPTZ) RETURNS INTEGER
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN isfinite(started) AND isfinite(ended)
        THEN width_bucket(date_part('epoch', ended - started), ARRAY[
            0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288,
            1048576, 2097152, 4194304, 8388608, 16777216, 33554432]::float8[])
        ELSE 0
    END
$$;

-- Shortest and longest duration of a class. Null: the class has no such bound.
CREATE OR REPLACE FUNCTION noetl.duration_bounds(class INTEGER) RETURNS TABLE (shortest INTERVAL, longest INTERVAL)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN class > 1 THEN make_interval(secs => 2.0 ^ (class - 2)) WHEN class = 1 THEN interval '0' END,
           CASE WHEN class BETWEEN 1 AND 26 THEN make_interval(secs => 2.0 ^ (class - 1)) END
$$;

-- Lists of events over several executions, like event_kind_idx: by node, by tenant, by organization, and by the parent of
-- the executions. `migrate` drops event_node_idx, which lacks type and status, when every partition has its successor.
-- Texts are cut, as in event_kind_idx; more texts in an entry leave less space for each.
-- The indexes on tenants and organizations are empty in a deployment that does not use them. Parents only, as for the
-- other indexes of this table.
CREATE INDEX IF NOT EXISTS event_node_kind_idx ON ONLY noetl.event (
    (left(node_name, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 2)), event_id, execution_id)
    WHERE node_name IS NOT NULL;
CREATE INDEX IF NOT EXISTS event_tenant_kind_idx ON ONLY noetl.event (
    (left(tenant_id, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 3)), event_id, execution_id)
    WHERE tenant_id <> 'default';
CREATE INDEX IF NOT EXISTS event_tenant_node_idx ON ONLY noetl.event (
    (left(tenant_id, 160) COLLATE "C"), (left(node_name, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 4)), event_id, execution_id)
    WHERE tenant_id <> 'default' AND node_name IS NOT NULL;
CREATE INDEX IF NOT EXISTS event_organization_idx ON ONLY noetl.event (
    (left(organization_id, 160) COLLATE "C"), (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 5)), event_id, execution_id)
    WHERE organization_id <> 'default';
CREATE INDEX IF NOT EXISTS event_parent_idx ON ONLY noetl.event (
    parent_execution_id, (left(coalesce(event_type, ''), 160) COLLATE "C"), (left(coalesce(status, ''), 160) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC', 6)), event_id, execution_id)
    WHERE parent_execution_id IS NOT NULL;
