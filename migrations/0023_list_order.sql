-- Lists of executions and of source subscriptions are ordered by time, then by id. Ids alone do not order them: those of
-- noetl.snowflake_id() are about twice as large as other ids of the same time. An item without a time is the oldest. The
-- bounds are the times that the API can show.
CREATE OR REPLACE FUNCTION noetl.list_time(moment TIMESTAMPTZ) RETURNS TIMESTAMPTZ
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(
        least(coalesce(moment, '0001-01-01 00:00:00+00'), '9999-12-31 00:00:00+00'), '0001-01-01 00:00:00+00')
$$;

-- Parents only, as for the other indexes of this table.
CREATE INDEX IF NOT EXISTS event_registered_time_idx
    ON ONLY noetl.event (noetl.list_time(created_at AT TIME ZONE 'UTC'), execution_id)
    WHERE event_type = 'subscription.registered';
