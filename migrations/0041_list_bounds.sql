-- Refuses a list of executions by a path prefix. The caller found too many combinations of a path and a status with the
-- prefix, and each would be searched. The function must be volatile: the planner evaluates other functions. The servers
-- know the SQLSTATE.
CREATE OR REPLACE FUNCTION noetl.refuse_path_prefix() RETURNS BOOLEAN LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION 'too many paths begin with the prefix' USING ERRCODE = 'NL001';
END
$$;
