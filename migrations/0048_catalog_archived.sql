-- Time at which a catalog entry was retired; null: it is not retired. A retired entry is not the newest of its path. NoETL's
-- server has the column from 3.79 on, and sets and clears it in the table.
ALTER TABLE noetl.catalog ADD COLUMN IF NOT EXISTS archived_at TIMESTAMPTZ;
