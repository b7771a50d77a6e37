-- Progress of a pass over the logs of this database. It gives a row in noetl.execution to each execution that has only a
-- log: NoETL's own server writes no such row, and events from before the feed began reach no projector. `position` is
-- the last log that was checked, so a pass continues where it was interrupted. A pass that began after the feed is the
-- last one: the projector keeps later executions current.
CREATE TABLE IF NOT EXISTS noetl.read_model_fill (
    singleton  BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    position   BIGINT NOT NULL DEFAULT -1,
    checked    BIGINT NOT NULL DEFAULT 0,
    filled     BIGINT NOT NULL DEFAULT 0,
    after_feed BOOLEAN NOT NULL,
    began_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    ended_at   TIMESTAMPTZ
);
