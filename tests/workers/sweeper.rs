//! The sweeper finishes what crashed callers left, in pages that are bounded in bytes. What a database refuses does not
//! hold up the rest.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, QUIET, eventually};
use serde_json::json;

const MIB: u64 = 1 << 20;
const RESERVED: &str = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
const EXECUTIONS: &str = "SELECT count(*) FROM noetl.execution";

/// Inserts the claims of crashed callers for the executions 1 to `count`, with workloads of this size. Every hundredth
/// one, beginning with the first, is of the path `bad`.
async fn abandon(deployment: &Deployment, count: i64, bytes: u64) {
    let claims = format!(
        "INSERT INTO noetl.subscription_dedup
             (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at)
         SELECT 0, 'm-' || n, n, '\\x00', 0,
                jsonb_build_object('execution_id', n, 'event_id', n + 1, 'parent_execution_id', NULL, 'catalog_id', 0,
                    'path', CASE WHEN n % 100 = 1 THEN 'bad' ELSE 'good' END,
                    'workload', jsonb_build_object('text', text), 'pool', NULL, 'trace', NULL,
                    'emitted_at', '2026-11-21T02:00:00Z', 'actor', NULL,
                    'tenancy', jsonb_build_object('tenant_id', 'default', 'organization_id', 'default')),
                now() - interval '1 hour', now() + interval '1 hour'
         FROM generate_series(1, {count}) AS n, repeat('x', {bytes}) AS text"
    );
    run(&mut deployment.cluster().await, &claims).await;
}

#[tokio::test]
async fn refused_creations_do_not_hold_up_the_others_of_their_shard() {
    let deployment = Deployment::start(1).await;
    let refuse = "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
                  $$ BEGIN IF NEW.path = 'bad' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON noetl.execution FOR EACH ROW EXECUTE FUNCTION public.refuse()";
    run(&mut deployment.shard(0).await, refuse).await;
    abandon(&deployment, 500, 10).await;
    let _server = deployment.replica_with(&QUIET).await;
    let finished = async || (deployment.in_cluster(RESERVED).await == 5).then_some(());
    eventually("all claims except the refused ones are settled", finished).await;
    assert_eq!(deployment.sum_over_shards(EXECUTIONS).await, 495);

    run(&mut deployment.shard(0).await, "DROP TRIGGER refuse ON noetl.execution").await;
    let finished = async || (deployment.in_cluster(RESERVED).await == 0).then_some(());
    eventually("the refused claims are settled when the cause is removed", finished).await;
    assert_eq!(deployment.sum_over_shards(EXECUTIONS).await, 500);
}

#[tokio::test]
async fn large_abandoned_requests_are_finished_in_bounded_memory() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    server.data("{ executions(first: 100) { nodes { id } } }", json!({})).await;
    let before = server.peak_memory();
    // 80 MiB of requests, fewer than a page has rows. Each is in memory several times while it is created.
    abandon(&deployment, 20, 4 * MIB).await;
    let finished = async || (deployment.in_cluster(RESERVED).await == 0).then_some(());
    eventually("all claims are settled", finished).await;
    assert_eq!(deployment.sum_over_shards(EXECUTIONS).await, 20);
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 150 * MIB, "the process grew by {} MiB", grown / MIB);
}

#[tokio::test]
async fn a_refused_registration_does_not_hold_up_the_others() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("inbox/000", &json!({ "kind": "subscription" })).await;
    let entries = "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, payload, layout, meta, name)
                   SELECT catalog_id + n, 'inbox/' || to_char(n, 'FM000'), version, kind, content, payload, layout, meta,
                          name
                   FROM noetl.catalog, generate_series(1, 119) AS n";
    run(&mut deployment.cluster().await, entries).await;
    // The second intent is for a path without a catalog entry.
    let intents = "INSERT INTO noetl.subscription_registry (path, subscription_id, intent_after, updated_at)
                   SELECT 'inbox/' || to_char(n, 'FM000') || CASE n WHEN 1 THEN '/gone' ELSE '' END, n + 1, 0,
                          now() - interval '1 hour'
                   FROM generate_series(0, 119) AS n";
    run(&mut deployment.cluster().await, intents).await;
    let open = "SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL";
    let finished = async || (deployment.in_cluster(open).await == 1).then_some(());
    eventually("all other registrations are finished", finished).await;
}
