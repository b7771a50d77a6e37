-- The landmarks of a log, with the types that NoETL's other servers write. Queries repeat parts of this list, as the
-- planner must prove that the list implies theirs. Parents only, as for the other indexes of this table. `migrate`
-- drops event_landmark_idx, which lacks some types, when every partition has this index.
CREATE INDEX IF NOT EXISTS event_landmarks_idx ON ONLY noetl.event (execution_id, event_id)
    WHERE event_type IN (
        'subscription.registered', 'subscription.activated', 'subscription.paused', 'subscription.resumed',
        'subscription.draining', 'subscription.deactivated',
        'playbook_started', 'playbook.initialized',
        'playbook_completed', 'playbook.completed', 'workflow.completed',
        'playbook_failed', 'playbook.failed', 'workflow.failed',
        'playbook.cancelled', 'playbook_cancelled', 'execution.cancelled');
