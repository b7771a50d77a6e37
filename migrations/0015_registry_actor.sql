-- An intent names the caller that left it: another caller, or the sweeper, may write the event that it asks for, and the
-- event names its cause.
ALTER TABLE noetl.subscription_registry ADD COLUMN IF NOT EXISTS intent_actor text;
