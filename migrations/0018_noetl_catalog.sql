-- NoETL stores the workflow of a document as `layout`. Databases that NoETL's server created have the column.
ALTER TABLE noetl.catalog ADD COLUMN IF NOT EXISTS layout JSONB;

-- Source subscriptions of a path, newest first: NoETL's server registers subscriptions without our registry, so a path
-- without a live subscription in the registry is searched for in the logs.
CREATE INDEX IF NOT EXISTS event_registered_path_idx ON ONLY noetl.event (node_name, execution_id DESC)
    WHERE event_type = 'subscription.registered';
