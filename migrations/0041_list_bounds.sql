-- Ends a list of executions with a prefix of the path that too many combinations of a path and a status have. Each of them
-- is searched, so the list would be slow. The servers know the SQLSTATE.
CREATE OR REPLACE FUNCTION noetl.refuse_path_prefix() RETURNS BOOLEAN LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION 'too many paths begin with the prefix' USING ERRCODE = 'NL001';
END
$$;
