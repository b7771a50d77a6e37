-- Values of the started event that lists of executions filter by: the pool that it names, and the execution of which this
-- one is a rerun.
ALTER TABLE noetl.execution
    ADD COLUMN IF NOT EXISTS execution_pool TEXT,
    ADD COLUMN IF NOT EXISTS rerun_of BIGINT;
