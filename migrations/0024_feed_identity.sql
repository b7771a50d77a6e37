-- A feed has an identity, which its messages and its readers' cursors carry, so that two deployments on one broker do
-- not take each other's messages for their own. The table has at most one row, so the default may be volatile.
ALTER TABLE noetl.tail_cursor
    ADD COLUMN IF NOT EXISTS feed_id UUID NOT NULL DEFAULT gen_random_uuid(),
    -- Messages of the stream that another state of this database published, such as the primary of a promoted standby.
    -- Those from `overlap_from` up to `discard_from` are events of this database, which the next batch skips. Those from
    -- `discard_from` to `discard_to` are not; the first message of the new epoch tells readers to discard them.
    ADD COLUMN IF NOT EXISTS overlap_from BIGINT,
    ADD COLUMN IF NOT EXISTS discard_from BIGINT,
    ADD COLUMN IF NOT EXISTS discard_to BIGINT;
