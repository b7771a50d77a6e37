-- The part of an event's meta that its sender decides: without the caller that this server adds (`actor`), and without
-- the caller that a sender named (`extra.sent_actor`). An empty map counts as no meta. A repeated event is compared with
-- the stored one by this part, because the caller of a repetition can be another one.
CREATE OR REPLACE FUNCTION noetl.sent_meta(meta JSONB) RETURNS JSONB
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN jsonb_typeof(meta) <> 'object' THEN nullif(meta, 'null')
        WHEN jsonb_typeof(meta -> 'extra') IS DISTINCT FROM 'object' THEN nullif(meta - 'actor', '{}')
        WHEN (meta -> 'extra') - 'sent_actor' = '{}' THEN nullif(meta - 'actor' - 'extra', '{}')
        ELSE (meta - 'actor') #- '{extra,sent_actor}'
    END
$$;
