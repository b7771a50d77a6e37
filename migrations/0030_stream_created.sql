-- Time in nanoseconds since 1970 at which the stream of the shard was created. If the stream has another one, it was
-- deleted and created again: its messages are lost, even if its sequences are larger than before.
ALTER TABLE noetl.tail_cursor ADD COLUMN IF NOT EXISTS stream_created BIGINT;
