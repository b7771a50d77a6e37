-- NoETL's own tailer keeps its position here: the last event id that it published. A feed that starts for the first time
-- continues from it.
CREATE TABLE IF NOT EXISTS noetl.stream_cursor (
    name       TEXT PRIMARY KEY,
    position   BIGINT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
