-- The position of a shard's feed.

-- Transactions whose events are published, and the lease of the replica that publishes. A batch is what `target` sees and
-- `done` does not; it is fixed here before it is published. Every write compares the fence, which each taking of the lease
-- raises.
--
-- The cursor is updated with each batch. Free space in its page lets most updates stay in the page, so that they change
-- no index, and old versions are removed without VACUUM.
CREATE TABLE IF NOT EXISTS noetl.tail_cursor (
    singleton             BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    origin                pg_snapshot NOT NULL,
    done                  pg_snapshot NOT NULL,
    target                pg_snapshot,
    batch                 BIGINT NOT NULL DEFAULT 0,
    feed_epoch            INTEGER NOT NULL DEFAULT 1,
    system_identifier     BIGINT NOT NULL,
    timeline              INTEGER NOT NULL,
    last_sequence         BIGINT NOT NULL DEFAULT 0,
    published_events      BIGINT NOT NULL DEFAULT 0,
    last_error            TEXT,
    fence                 BIGINT NOT NULL DEFAULT 0,
    lease_owner           TEXT,
    lease_until           TIMESTAMPTZ NOT NULL DEFAULT '-infinity',
    updated_at            TIMESTAMPTZ NOT NULL DEFAULT now(),
    -- Identity of the feed, which its messages and its readers' cursors carry, so that two deployments on one broker do not
    -- take each other's messages for their own.
    feed_id               UUID NOT NULL DEFAULT gen_random_uuid(),
    -- Messages of the stream that another state of this database published, such as the primary of a promoted standby.
    -- Those from `overlap_from` up to `discard_from` are events of this database, which the next batch skips. Those from
    -- `discard_from` to `discard_to` are not; the first message of the new epoch tells readers to discard them.
    overlap_from          BIGINT,
    discard_from          BIGINT,
    discard_to            BIGINT,
    -- How much of a large batch is in the stream, for the status of the feed: the number of its events, and the key of the
    -- last of them. It belongs to the batch with this number.
    progress_batch        BIGINT,
    progress_events       BIGINT,
    progress_event_id     BIGINT,
    progress_execution_id BIGINT,
    -- Time in nanoseconds since 1970 at which the stream of the shard was created. If the stream has another one, it was
    -- deleted and created again: its messages are lost, even if its sequences are larger than before.
    stream_created        BIGINT,
    -- The OID of the database in which the cursor was written: two databases of one server have the same system identifier
    -- and timeline.
    database_oid          OID,
    -- A random number of the batch that is being published. Its messages carry it. A copy of the database, also of the
    -- server's files, fixes other batches under the same numbers.
    batch_id              BIGINT
) WITH (fillfactor = 10);

-- Evidence that the tables of this database are those in which the cursor was written. The row is written when the
-- cursor is bound to a database, and holds the id of its own writing transaction. pg_upgrade keeps both the id and the
-- row's system column xmin. A restored dump keeps the id only.
CREATE TABLE IF NOT EXISTS noetl.tail_anchor (
    singleton BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    tx_id     xid8 NOT NULL DEFAULT pg_current_xact_id()
);

-- Progress of the renumbering of a restored database, so that it continues where it was interrupted. The position is
-- valid only on the server that stored it.
CREATE TABLE IF NOT EXISTS noetl.tail_renumbering (
    singleton         BOOLEAN PRIMARY KEY DEFAULT true CHECK (singleton),
    system_identifier BIGINT NOT NULL,
    execution_id      BIGINT NOT NULL,
    event_id          BIGINT NOT NULL
);

-- NoETL's own tailer keeps its position here: the last event id that it published. A feed that starts for the first time
-- continues from it.
CREATE TABLE IF NOT EXISTS noetl.stream_cursor (
    name       TEXT PRIMARY KEY,
    position   BIGINT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
