-- A claim counts its duplicates, so that an operator can ask what became of a key. NoETL's server deletes the claims of
-- a scope that are older than the window of its request. Claims of this server have windows of their own, so a claim
-- that is reserved, or whose window has not passed, is kept. Rows without expires_at are NoETL's and have no window.
ALTER TABLE noetl.subscription_dedup ADD COLUMN IF NOT EXISTS duplicates BIGINT NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION noetl.keep_row() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RETURN NULL; END $$;

DROP TRIGGER IF EXISTS subscription_dedup_keep_claim ON noetl.subscription_dedup;
CREATE TRIGGER subscription_dedup_keep_claim BEFORE DELETE ON noetl.subscription_dedup
    FOR EACH ROW WHEN (OLD.state = 0 OR OLD.expires_at > now()) EXECUTE FUNCTION noetl.keep_row();
