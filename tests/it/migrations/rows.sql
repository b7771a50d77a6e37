-- Rows of the existing server: two live subscriptions, an ended one, a completed execution and a running one.
INSERT INTO noetl.resource VALUES ('playbook', '{"theirs": 1}'), ('subscription', NULL), ('Tool', NULL);
INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, created_at) VALUES
    (1, 'work/flow', 1, 'playbook', 'kind: playbook
workload: {n: 1}', '{"n": 1}', '2026-01-01 10:00:00'),
    (2, 'inbox/live', 1, 'subscription', 'kind: subscription', NULL, '2026-01-02 10:00:00'),
    (3, 'inbox/paused', 7, 'subscription', 'kind: subscription', NULL, '2026-01-03 10:00:00'),
    (4, 'inbox/ended', 1, 'subscription', 'kind: subscription', NULL, '2026-01-04 10:00:00');
INSERT INTO noetl.event (execution_id, catalog_id, event_id, event_type, node_id, node_name, node_type, status, created_at)
SELECT id, entry, 400000000000000000 + n, 'subscription.' || type, 'subscription', path, 'subscription', status,
       timestamp '2026-02-01' + n * interval '1 minute'
FROM (VALUES
    (1, 310000000000000001, 2, 'inbox/live', 'registered', 'REGISTERED'),
    (2, 310000000000000001, 2, 'inbox/live', 'activated', 'ACTIVE'),
    (3, 310000000000000002, 3, 'inbox/paused', 'registered', 'REGISTERED'),
    (4, 310000000000000002, 3, 'inbox/paused', 'activated', 'ACTIVE'),
    (5, 310000000000000002, 3, 'inbox/paused', 'paused', 'PAUSED'),
    (6, 310000000000000003, 4, 'inbox/ended', 'registered', 'REGISTERED'),
    (7, 310000000000000003, 4, 'inbox/ended', 'deactivated', 'DEACTIVATED')
) AS lifecycle (n, id, entry, path, type, status);
INSERT INTO noetl.event (execution_id, catalog_id, event_id, event_type, node_name, status, context, current_index,
                         worker_id, trace_component)
SELECT execution, 1, 410000000000000000 + n, type, 'work/flow', status, '{"workload": {"n": 2}}', n, 'worker', '{"t": 1}'
FROM (VALUES
    (1, 316000000000000001, 'playbook_started', 'STARTED'),
    (2, 316000000000000001, 'call.done', 'COMPLETED'),
    (3, 316000000000000001, 'playbook_completed', 'COMPLETED'),
    (4, 320000000000000002, 'playbook_started', 'STARTED')
) AS log (n, execution, type, status);
INSERT INTO noetl.execution (execution_id, catalog_id, status, last_event_id, start_time, end_time, state) VALUES
    (316000000000000001, 1, 'COMPLETED', 410000000000000003, '2026-02-01Z', '2026-02-02Z', '{"a": 1}'),
    (320000000000000002, 1, 'RUNNING', 410000000000000004, '2026-02-03Z', NULL, NULL);
INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_bytes) VALUES
    (316000000000000001, 410000000000000001, 'noetl.commands.shared.1', '{"n": 1}', NULL),
    (320000000000000002, 410000000000000004, 'noetl.commands.shared.2', '{"n": 2}', '\x01');
INSERT INTO noetl.subscription_dedup VALUES (310000000000000001, 'key', 316000000000000001, '2026-02-01Z');
INSERT INTO noetl.projection_snapshot (aggregate_id, aggregate_type, version, snapshot, checksum)
    VALUES ('316000000000000001', 'orchestrator_workflow_state', 410000000000000003, '{}', 'x');
