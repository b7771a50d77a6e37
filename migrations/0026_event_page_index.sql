-- A large batch of the feed is read in pages along this index, in the order in which it is published. The transaction id
-- is in it so that a page counts the events of the batch without reading those of others. Parents only, as for the
-- other indexes of this table.
CREATE INDEX IF NOT EXISTS event_page_idx ON ONLY noetl.event (event_id, execution_id, tx_id);
