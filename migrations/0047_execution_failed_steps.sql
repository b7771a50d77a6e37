-- Number of failed steps of an execution, by which lists are filtered: NoETL completes executions whose steps have failed.
-- Null in rows of earlier builds, and of other programs.
ALTER TABLE noetl.execution ADD COLUMN IF NOT EXISTS failed_steps INTEGER;
