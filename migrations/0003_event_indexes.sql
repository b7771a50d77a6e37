-- Parents only: this reads no rows. `migrate` then builds each partition's index concurrently and attaches it; a
-- partition made later gets its own at birth.
CREATE INDEX IF NOT EXISTS event_tx_idx ON ONLY noetl.event (tx_id, event_id);

-- The few events that say what a log is and how it stands: lifecycle, start and end. Queries repeat this list word for
-- word, as the planner must prove that it implies theirs.
CREATE INDEX IF NOT EXISTS event_landmark_idx ON ONLY noetl.event (execution_id, event_id)
    WHERE event_type IN (
        'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
        'subscription.draining', 'subscription.deactivated',
        'playbook_started', 'playbook_completed', 'playbook.completed', 'playbook_failed', 'playbook.failed',
        'playbook.cancelled');

-- Source subscriptions are few among the landmarks; a list of them reads this one.
CREATE INDEX IF NOT EXISTS event_registered_idx ON ONLY noetl.event (execution_id)
    WHERE event_type = 'subscription.registered';
