-- How much of a large batch is in the stream, for the status of the feed: the number of its events, and the key of the
-- last of them. It belongs to the batch with this number.
--
-- The cursor is updated with each batch. Free space in its page lets most updates stay in the page, so that they change
-- no index, and old versions are removed without VACUUM.
ALTER TABLE noetl.tail_cursor
    ADD COLUMN IF NOT EXISTS progress_batch BIGINT,
    ADD COLUMN IF NOT EXISTS progress_events BIGINT,
    ADD COLUMN IF NOT EXISTS progress_event_id BIGINT,
    ADD COLUMN IF NOT EXISTS progress_execution_id BIGINT;
ALTER TABLE noetl.tail_cursor SET (fillfactor = 10);
