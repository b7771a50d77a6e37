-- A claim of outbox rows names its claimant, and can select rows by their subjects.
ALTER TABLE noetl.outbox ADD COLUMN IF NOT EXISTS claimant TEXT;

-- A text as a token of a subject, like `token` in crates/domain/src/outbox_message.rs.
CREATE OR REPLACE FUNCTION noetl.subject_token(name TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(btrim(regexp_replace(coalesce(name, ''), '[^A-Za-z0-9_-]+', '-', 'g'), '-'), ''), 'default')
$$;

-- Subject to which the message of an outbox row is published: the stored one, else NoETL's subject for the event.
CREATE OR REPLACE FUNCTION noetl.outbox_subject(subject TEXT, tenant TEXT, organization TEXT, execution BIGINT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(subject, 'noetl.events.' || noetl.subject_token(tenant) || '.' || noetl.subject_token(organization)
                             || '.' || coalesce(nullif(execution, 0)::text, 'none') || '.0')
$$;

-- Whether the subject of an outbox row begins with one of these texts.
CREATE OR REPLACE FUNCTION noetl.outbox_selected(
    prefixes TEXT[], subject TEXT, tenant TEXT, organization TEXT, payload JSONB, execution BIGINT
) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(prefixes) AS wanted (prefix)
        WHERE starts_with(noetl.outbox_subject(subject, noetl.outbox_owner(tenant, payload, 'tenant_id'),
                                               noetl.outbox_owner(organization, payload, 'organization_id'), execution),
                          wanted.prefix))
$$;
