-- Name of a catalog entry (`metadata.name` of its document), by which the list is searched. NoETL's server does not fill
-- the column. Null: the name was not read from the document yet; an empty text: the document has none.
ALTER TABLE noetl.catalog ADD COLUMN IF NOT EXISTS name TEXT;
