-- How far a shard's log is published. A batch is what `target` sees and `done` does not; it is fixed here before it is
-- published. Every write compares the fence, which each taking of the lease raises.
CREATE TABLE IF NOT EXISTS noetl.tail_cursor (
    singleton         BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    origin            pg_snapshot NOT NULL,
    done              pg_snapshot NOT NULL,
    target            pg_snapshot,
    batch             BIGINT NOT NULL DEFAULT 0,
    feed_epoch        INTEGER NOT NULL DEFAULT 1,
    system_identifier BIGINT NOT NULL,
    timeline          INTEGER NOT NULL,
    last_sequence     BIGINT NOT NULL DEFAULT 0,
    published_events  BIGINT NOT NULL DEFAULT 0,
    last_error        TEXT,
    fence             BIGINT NOT NULL DEFAULT 0,
    lease_owner       TEXT,
    lease_until       TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    updated_at        TIMESTAMPTZ NOT NULL DEFAULT now()
);
