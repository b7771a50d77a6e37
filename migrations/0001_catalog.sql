-- Resource kinds and the versioned catalog, in the shapes that NoETL gave them (naive UTC timestamps, smallint versions).
CREATE SCHEMA IF NOT EXISTS noetl;

CREATE TABLE IF NOT EXISTS noetl.resource (
    name VARCHAR PRIMARY KEY,
    meta JSONB
);

-- A catalog entry's kind references these rows; what an existing database says of a kind stays.
INSERT INTO noetl.resource (name, meta) VALUES
    ('playbook', '{"executable": true}'),
    ('agent', '{"executable": true}'),
    ('subscription', '{"executable": false}'),
    ('credential', '{"executable": false}'),
    ('mcp', '{"executable": false}'),
    ('memory', '{"executable": false}')
ON CONFLICT (name) DO NOTHING;

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
