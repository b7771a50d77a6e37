-- The triggers also run in sessions of other programs, whose search path may begin with a schema in which others create
-- functions and operators. They find PostgreSQL's own ones only.
ALTER FUNCTION noetl.assign_tx_id() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION noetl.keep_tx_id() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION noetl.check_bucket_fence() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION noetl.keep_row() SET search_path = pg_catalog, pg_temp;
