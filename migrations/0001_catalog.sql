-- Resource kinds and the versioned catalog (cluster database), in the shapes that NoETL gave them: naive UTC timestamps,
-- smallint versions.
--
-- All migrations work on an empty database and on the tables of NoETL's own server, which they only add to.
CREATE SCHEMA IF NOT EXISTS noetl;

-- Kinds of catalog entries.
CREATE TABLE IF NOT EXISTS noetl.resource (
    name VARCHAR PRIMARY KEY,
    meta JSONB
);

-- A catalog entry's kind references these rows. The `meta` of a kind that exists stays.
INSERT INTO noetl.resource (name, meta) VALUES
    ('playbook', '{"executable": true}'),
    ('agent', '{"executable": true}'),
    ('subscription', '{"executable": false}'),
    ('credential', '{"executable": false}'),
    ('mcp', '{"executable": false}'),
    ('memory', '{"executable": false}')
ON CONFLICT (name) DO NOTHING;

-- Versions of documents. Rows never change, except for the column `name` and those of the retirement.
CREATE TABLE IF NOT EXISTS noetl.catalog (
    catalog_id BIGINT PRIMARY KEY,
    path       TEXT NOT NULL,
    version    SMALLINT NOT NULL,
    kind       VARCHAR NOT NULL REFERENCES noetl.resource (name),
    content    TEXT,
    payload    JSONB,
    meta       JSONB,
    created_at TIMESTAMP NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    UNIQUE (path, version)
);

ALTER TABLE noetl.catalog
    -- NoETL stores the workflow of a document here.
    ADD COLUMN IF NOT EXISTS layout JSONB,
    -- Name of the entry (`metadata.name` of its document), by which the list is searched. NoETL's server does not fill the
    -- column. Null: the name was not read from the document yet; an empty text: the document has none.
    ADD COLUMN IF NOT EXISTS name TEXT,
    -- Time at which the entry was retired; null: it is not retired. A retired entry is not the newest of its path. NoETL's
    -- server has the column from 3.79 on, and sets and clears it in the table.
    ADD COLUMN IF NOT EXISTS archived_at TIMESTAMPTZ,
    -- Callers that registered and retired the entry. Null: they were not identified, or NoETL's server did it. NoETL's server
    -- leaves `archived_by` as it is, so it counts only for a retirement at `archived_by_at`.
    ADD COLUMN IF NOT EXISTS registered_by TEXT,
    ADD COLUMN IF NOT EXISTS archived_by TEXT,
    ADD COLUMN IF NOT EXISTS archived_by_at TIMESTAMPTZ;
