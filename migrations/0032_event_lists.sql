-- Lists of events over several executions, newest first: by type and status, and by node. Both indexes end with the
-- order of the list. The texts are cut, because an index entry has a limit and they have none; queries compare the whole
-- texts too. Parents only, as for the other indexes of this table.
CREATE INDEX IF NOT EXISTS event_kind_idx ON ONLY noetl.event (
    (left(coalesce(event_type, ''), 255) COLLATE "C"), (left(coalesce(status, ''), 255) COLLATE "C"),
    (noetl.list_time(created_at AT TIME ZONE 'UTC')), event_id, execution_id);
CREATE INDEX IF NOT EXISTS event_node_idx ON ONLY noetl.event (
    (left(node_name, 255) COLLATE "C"), (noetl.list_time(created_at AT TIME ZONE 'UTC')), event_id, execution_id)
    WHERE node_name IS NOT NULL;
