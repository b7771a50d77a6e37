//! Each outbox row has one lease holder at a time. The rows of an execution are claimed in outbox order and are in
//! flight with one holder at a time. Every row is claimed eventually.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::future::join_all;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::lock_wait::LockWait;
use noetl_storage::outbox::{self, Claim, Claimed, LowWatermarks, Ref};
use noetl_storage::pools::Database;
use noetl_storage::view::View;
use noetl_testkit::copies::{back_up, own_server, restore_back_up};
use noetl_testkit::feed::run;
use noetl_testkit::outbox::{NO_RELAY, ids, reference, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const CLAIMANTS: usize = 16;
const EXECUTIONS: usize = 100;
const ROWS: i64 = 4_000;

/// Leases of the executions in flight, as the claimants know them. A claimant enters the executions of a claim when it
/// has the response, and removes them before it sends the settlement.
#[derive(Default)]
struct Ledger {
    held: BTreeMap<String, String>,
    last: BTreeMap<String, i64>,
    rows: i64,
}

impl Ledger {
    fn take(&mut self, claims: &[Value]) {
        for claim in claims {
            let execution = claim["executionId"].as_str().unwrap().to_owned();
            let number: i64 = claim["entryId"].as_str().unwrap().split_once('-').unwrap().1.parse().unwrap();
            let lease = claim["lease"].as_str().unwrap();
            let held = &*self.held.entry(execution.clone()).or_insert_with(|| lease.to_owned());
            assert_eq!(held, lease, "execution {execution} is in flight with two lease holders");
            let last = self.last.insert(execution.clone(), number).unwrap_or_default();
            assert!(last < number, "execution {execution}: {number} came after {last}");
            assert_eq!(claim["attempts"], 1, "{claim}");
            self.rows += 1;
        }
    }

    fn give(&mut self, claims: &[Value]) {
        for claim in claims {
            self.held.remove(claim["executionId"].as_str().unwrap());
        }
    }
}

/// Claims and settles rows until every row was claimed. A claimant settles a claim after its next claim. So it holds rows
/// while it and the others claim, and the ledger detects a second lease on an execution.
async fn drain(server: &Server, claimant: usize, ledger: &Mutex<Ledger>) {
    // Most limits are smaller than the number of rows of an execution, so that claimants compete for the rows of one
    // execution.
    let limit = [30, 35, 20, 125][claimant % 4];
    let input = json!({ "limit": limit, "leaseSeconds": 600 });
    let mut held = json!({ "claims": [] });
    while ledger.lock().unwrap().rows < ROWS {
        let claimed = server.claim(input.clone()).await;
        assert_eq!(claimed["userErrors"], json!([]));
        let claims = claimed["claims"].as_array().unwrap();
        assert!(claims.len() <= limit);
        ledger.lock().unwrap().take(claims);
        settle(server, &held, ledger).await;
        held = claimed;
    }
    settle(server, &held, ledger).await;
}

async fn settle(server: &Server, claimed: &Value, ledger: &Mutex<Ledger>) {
    let claims = claimed["claims"].as_array().unwrap();
    if claims.is_empty() {
        return;
    }
    ledger.lock().unwrap().give(claims);
    let settled = server.published(&references(claimed)).await;
    assert_eq!(settled, json!({ "published": claims.len(), "stale": [], "userErrors": [] }));
}

#[tokio::test]
async fn sixteen_workers_drain_all_rows_once_each_and_in_order_per_execution() {
    let deployment = Deployment::start(2).await;
    let servers = join_all((0..3).map(|_| deployment.replica_with(&[NO_RELAY]))).await;
    for shard in 0..2 {
        let executions = deployment.ids_on(shard, 1, EXECUTIONS / 2);
        deployment.fill_outbox(shard, &executions, ROWS / i64::try_from(EXECUTIONS).unwrap()).await;
    }
    let ledger = Mutex::default();
    let claimants = (0..CLAIMANTS).map(|claimant| drain(&servers[claimant % servers.len()], claimant, &ledger));
    join_all(claimants).await;
    assert_eq!(ledger.into_inner().unwrap().rows, ROWS);
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED' AND attempts = 1").await, ROWS);
    assert_eq!(servers[0].claim(json!({})).await["claims"], json!([]));
}

#[tokio::test]
async fn rows_of_killed_workers_become_claimable_once_after_their_lease_expires() {
    let deployment = Deployment::start(2).await;
    let (mut doomed, server) = tokio::join!(deployment.replica_with(&[NO_RELAY]), deployment.replica_with(&[NO_RELAY]));
    for shard in 0..2 {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 10), 10).await;
    }
    let claims = (0..4).map(|_| doomed.claim(json!({ "limit": 50, "leaseSeconds": 4 })));
    let held: usize = join_all(claims).await.iter().map(|claimed| ids(claimed).len()).sum();
    assert!(held > 0);
    // Keeps each row's first lease, to compare it with the time of the row's second claim.
    let first = "CREATE TABLE first AS SELECT outbox_id, lease_until FROM noetl.outbox WHERE status = 'IN_FLIGHT'";
    join_all((0..2).map(|shard| deployment.on_shard(shard, first))).await;
    doomed.kill_9().await;

    let seen = Mutex::new(Vec::new());
    let others = (0..4).map(async |_| {
        eventually("every row is delivered", async || {
            let claimed = server.claim(json!({ "limit": 20, "leaseSeconds": 600 })).await;
            server.published(&references(&claimed)).await;
            let mut seen = seen.lock().unwrap();
            seen.extend(ids(&claimed));
            (seen.len() >= 200).then_some(())
        })
        .await;
    });
    join_all(others).await;
    let mut seen = seen.into_inner().unwrap();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200, "a row was claimed more than once");
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED'").await, 200);
    assert_eq!(deployment.outbox_rows("attempts = 2").await, i64::try_from(held).unwrap());
    let early = "SELECT count(*) FROM noetl.outbox JOIN first USING (outbox_id) WHERE locked_at < first.lease_until";
    assert_eq!(deployment.sum_over_shards(early).await, 0, "a row was claimed again before its lease had expired");
}

#[tokio::test]
async fn every_row_is_claimed_eventually_and_in_the_order_of_its_execution() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    one_in_four_single_row_claims_takes_a_failed_row(&deployment, &server).await;
    rows_of_an_execution_wait_for_its_earlier_rows(&deployment, &server).await;
    a_row_that_commits_late_is_claimed(&deployment, &server).await;
    rows_without_execution_and_expired_rows_of_other_servers_are_claimed(&deployment, &server).await;
    a_row_below_the_low_watermark_is_claimed_before_later_rows_of_its_execution(&deployment, &server).await;
    large_payloads_are_claimed_in_parts(&deployment, &server).await;
    a_row_with_a_payload_too_large_for_a_response_is_dead(&deployment, &server).await;
    // It leaves a trigger.
    concurrent_claims_never_split_an_execution_even_if_a_row_commits_in_between(&deployment, &server).await;
}

/// Claims the rows of one execution while earlier rows are in flight, back off, or have an expired lease.
async fn rows_of_an_execution_wait_for_its_earlier_rows(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[7], 5).await;
    let first = server.claim(json!({ "limit": 3 })).await;
    assert_eq!(ids(&first), ["0-1", "0-2", "0-3"]);
    let claim = async || ids(&server.claim(json!({})).await);
    assert_eq!(claim().await, [""; 0], "the execution is in flight");

    server.published(&references(&first)[..1]).await;
    server.failed(&reference(&first["claims"][2]), "no", Some(600)).await;
    // The row backs off for the whole test.
    let later = "UPDATE noetl.outbox SET available_at = now() + interval '1 hour' WHERE status = 'FAILED'";
    deployment.on_shard(0, later).await;
    assert_eq!(claim().await, [""; 0], "the second row is still in flight");
    server.published(&references(&first)[1..2]).await;
    assert_eq!(claim().await, [""; 0], "the third row is backing off");
    deployment.fill_outbox(0, &[8], 1).await;
    assert_eq!(claim().await, ["0-6"], "the rows of another execution are claimable");

    assert_eq!(server.retry(json!({ "statuses": ["FAILED"] }), false).await["retried"], 1);
    let again = server.claim(json!({ "leaseSeconds": 1 })).await;
    assert_eq!(ids(&again), ["0-3", "0-4", "0-5"]);
    let expired = eventually("the lease expires", async || {
        let claimed = server.claim(json!({ "limit": 2 })).await;
        (!ids(&claimed).is_empty()).then_some(claimed)
    });
    assert_eq!(ids(&expired.await), ["0-3", "0-4"], "a claim takes the first rows, although all leases have expired");
    assert_eq!(claim().await, [""; 0]);
}

/// A worker that claims one row at a time gets fresh rows, even if failed rows are always due.
async fn one_in_four_single_row_claims_takes_a_failed_row(deployment: &Deployment, server: &Server) {
    deployment.fill_outbox(0, &(1..=16).collect::<Vec<_>>(), 1).await;
    let failed = "UPDATE noetl.outbox SET status = 'FAILED', attempts = 1, available_at = now() - interval '1 hour'
                  WHERE outbox_id <= 8";
    deployment.on_shard(0, failed).await;
    let mut attempts = Vec::new();
    for _ in 0..8 {
        attempts.push(server.claim(json!({ "limit": 1 })).await["claims"][0]["attempts"].as_i64().unwrap());
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 1, 1, 1, 1, 1, 2, 2]);
}

/// A row whose transaction commits late is claimed, even if rows with larger ids were claimed before.
async fn a_row_that_commits_late_is_claimed(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let insert = |execution: i64| {
        format!("INSERT INTO noetl.outbox (execution_id, event_id, payload) VALUES ({execution}, 1, '{{}}')")
    };
    let mut late = deployment.shard(0).await;
    run(&mut late, &format!("BEGIN; {}", insert(1))).await;
    deployment.on_shard(0, &insert(2)).await;
    let claimed = server.claim(json!({})).await;
    assert_eq!(ids(&claimed), ["0-2"]);
    server.published(&references(&claimed)).await;
    assert_eq!(ids(&server.claim(json!({})).await), [""; 0]);
    run(&mut late, "COMMIT").await;
    let claimed = eventually("the late row is claimed", async || {
        let claimed = server.claim(json!({})).await;
        (!ids(&claimed).is_empty()).then_some(claimed)
    });
    assert_eq!(ids(&claimed.await), ["0-1"]);
}

/// A claim searches only from the low watermark on. If it takes an execution, it also takes the earlier rows of that
/// execution.
async fn a_row_below_the_low_watermark_is_claimed_before_later_rows_of_its_execution(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.restart_outbox(server).await;
    deployment.fill_outbox(0, &[7], 4).await;
    let expired =
        "UPDATE noetl.outbox SET status = 'IN_FLIGHT', lease_token = 1, lease_until = now() - interval '1 hour'
                   WHERE outbox_id = 1";
    deployment.on_shard(0, expired).await;
    let database = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    let lease = chrono::DateTime::from_timestamp(4_000_000_000, 0).unwrap();
    let marks = LowWatermarks { pending: 3, lease, ..LowWatermarks::START };
    let claim = Claim {
        limit: 3,
        retried: 1,
        lease_seconds: 600,
        max_attempts: 20,
        payload_bytes: 1 << 20,
        subjects: None,
        claimant: None,
    };
    let rows = outbox::claim(View::whole(&database), &Scope::Unrestricted, &claim, &marks).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.outbox_id).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Returns the number of the database's sessions that wait for a lock.
async fn waiting(deployment: &Deployment) -> i64 {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    sqlx::query_scalar(query).fetch_one(&mut deployment.shard(0).await).await.unwrap()
}

/// A trigger stops a claim between its search and its commit. Meanwhile an earlier row of the same execution commits, and
/// a second claim starts.
async fn concurrent_claims_never_split_an_execution_even_if_a_row_commits_in_between(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.restart_outbox(server).await;
    let stop = "CREATE FUNCTION public.stop() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7, 7); RETURN NEW; END $$;
                CREATE TRIGGER stop BEFORE UPDATE ON noetl.outbox FOR EACH ROW EXECUTE FUNCTION public.stop()";
    deployment.on_shard(0, stop).await;
    let insert =
        |event: i64| format!("INSERT INTO noetl.outbox (execution_id, event_id, payload) VALUES (7, {event}, '{{}}')");
    let (mut late, mut gate) = (deployment.shard(0).await, deployment.shard(0).await);
    run(&mut late, &format!("BEGIN; {}", insert(1))).await;
    deployment.on_shard(0, &insert(2)).await;
    run(&mut gate, "BEGIN; SELECT pg_advisory_xact_lock(7, 7)").await;

    let first = server.claim(json!({}));
    let rest = async {
        eventually("the first claim waits", async || (waiting(deployment).await == 1).then_some(())).await;
        run(&mut late, "COMMIT").await;
        let second = server.claim(json!({}));
        let opened = async {
            // The second claim must skip the execution. If it waits too, it would split the execution.
            let both = eventually("both claims wait", async || (waiting(deployment).await == 2).then_some(()));
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), both).await;
            run(&mut gate, "COMMIT").await;
        };
        tokio::join!(second, opened).0
    };
    let (first, second) = tokio::join!(first, rest);
    assert_eq!((ids(&first), ids(&second)), (vec!["0-2".to_owned()], vec![]));
    server.published(&references(&first)).await;
    assert_eq!(ids(&server.claim(json!({})).await), ["0-1"]);
}

/// Rows without an execution have no order. Rows in flight with a server that has no leases become claimable after some
/// time.
async fn rows_without_execution_and_expired_rows_of_other_servers_are_claimed(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.restart_outbox(server).await;
    let loose = "INSERT INTO noetl.outbox (event_id, payload) SELECT n, '{}' FROM generate_series(1, 30) AS n";
    deployment.on_shard(0, loose).await;
    let claims = join_all((0..4).map(|_| server.claim(json!({ "limit": 10 })))).await;
    let mut all: Vec<String> = claims.iter().flat_map(ids).collect();
    all.sort();
    all.dedup();
    let rest = ids(&server.claim(json!({})).await);
    assert_eq!(all.len() + rest.len(), 30);

    deployment.fill_outbox(0, &[8], 1).await;
    let failed = references(&server.claim(json!({})).await);
    server.failed(&failed[0], "no", None).await;
    deployment.fill_outbox(0, &[5, 6], 2).await;
    let theirs = |execution: i64, ago: &str| {
        format!(
            "UPDATE noetl.outbox SET status = 'IN_FLIGHT', attempts = 1, locked_at = now() - interval '{ago}'
             WHERE outbox_id = (SELECT min(outbox_id) FROM noetl.outbox WHERE execution_id = {execution})"
        )
    };
    deployment.on_shard(0, &theirs(5, "31 seconds")).await;
    deployment.on_shard(0, &theirs(6, "1 second")).await;
    // Another server does not change the lease columns. Here the old lease would have expired already.
    deployment
        .on_shard(0, "UPDATE noetl.outbox SET lease_until = lease_until - interval '1 hour' WHERE execution_id = 8")
        .await;
    deployment.on_shard(0, &theirs(8, "1 second")).await;
    let claimed = server.claim(json!({})).await;
    let executions: Vec<_> = claimed["claims"].as_array().unwrap().iter().map(|claim| &claim["executionId"]).collect();
    assert_eq!(executions, ["5", "5"], "{claimed}");
    assert_eq!(claimed["claims"][0]["attempts"], 2);
    assert_eq!(server.published(&failed).await["published"], 0, "the other server holds the row that failed here");
}

/// A claim takes an equal share from each shard. If a shard has too few rows, the other shards give more.
#[tokio::test]
async fn a_claim_takes_an_equal_share_from_each_shard() {
    let deployment = Deployment::start(3).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    for (shard, rows) in [(0, 500), (1, 500), (2, 10)] {
        deployment.fill_outbox(shard, &deployment.ids_on(shard, 1, 5), rows / 5).await;
    }
    let per_shard = |claimed: &Value| {
        let count = |shard: &str| ids(claimed).iter().filter(|id| id.starts_with(shard)).count();
        [count("0-"), count("1-"), count("2-")]
    };
    let claimed = server.claim(json!({ "limit": 90 })).await;
    assert_eq!(per_shard(&claimed), [40, 40, 10]);
    server.published(&references(&claimed)).await;
    let claimed = server.claim(json!({ "limit": 50, "shard": 1 })).await;
    assert_eq!(per_shard(&claimed), [0, 50, 0]);
    let ones = join_all((0..30).map(|_| server.claim(json!({ "limit": 1 })))).await;
    let firsts: usize = ones.iter().map(|claimed| per_shard(claimed)[0]).sum();
    assert!((1..30).contains(&firsts), "small claims must take rows from different shards");
}

/// A claim takes as many rows as fit into its bytes.
async fn large_payloads_are_claimed_in_parts(deployment: &Deployment, server: &Server) {
    const MAX_BYTES: usize = 64 << 10;
    deployment.restart_outbox(server).await;
    let insert = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
                  SELECT n % 3, n, 'noetl.executions.test', to_jsonb(repeat('x', size << 10))
                  FROM unnest(ARRAY[1, 1, 40, 1, 60, 1, 30, 30, 20, 63, 1, 1, 1]) WITH ORDINALITY AS row (size, n)";
    deployment.on_shard(0, insert).await;
    let database = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 1);
    let claim = Claim {
        limit: 1000,
        retried: 250,
        lease_seconds: 600,
        max_attempts: 20,
        payload_bytes: MAX_BYTES,
        subjects: None,
        claimant: None,
    };
    let mut parts = Vec::new();
    loop {
        let rows =
            outbox::claim(View::whole(&database), &Scope::Unrestricted, &claim, &LowWatermarks::START).await.unwrap();
        if rows.is_empty() {
            break;
        }
        assert!(rows.iter().map(Claimed::size).sum::<usize>() <= MAX_BYTES);
        let references: Vec<Ref> =
            rows.iter().map(|row| Ref { outbox_id: row.outbox_id, lease_token: row.lease_token }).collect();
        assert_eq!(
            outbox::mark_published(&database, &Scope::Unrestricted, &references, LockWait::Long).await.unwrap().len(),
            rows.len()
        );
        parts.push(rows.len());
    }
    assert!(parts.len() > 3 && parts.iter().sum::<usize>() == 13, "{parts:?}");
    // A claim that was rolled back and repeated counts once.
    assert_eq!(deployment.outbox_rows("status = 'PUBLISHED' AND attempts = 1").await, 13);
}

/// After a restore of a copy that lacks the claim, another worker claims the row. The worker from before settles nothing.
#[tokio::test]
async fn a_lease_of_another_history_settles_nothing() {
    let (mut postgres, folder) = own_server().await;
    let (data, copy) = (folder.path().join("postgres").join("data"), folder.path().join("copy"));
    let deployment = Deployment::on(&postgres.dsn("postgres"), 1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    deployment.fill_outbox(0, &[7], 1).await;
    back_up(&postgres, &data, &copy).await;
    let claim = async || references(&server.claim(json!({ "leaseSeconds": 600 })).await);
    let before = claim().await;
    restore_back_up(&mut postgres, &data, &copy).await;
    let after = eventually("the row is claimed again", async || {
        let claims = claim().await;
        (!claims.is_empty()).then_some(claims)
    });
    let after = after.await;
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!(server.published(&before).await["published"], 0);
    assert_eq!(server.published(&after).await["published"], 1);
}

/// A row that no response can contain becomes DEAD, and the next one is claimed.
async fn a_row_with_a_payload_too_large_for_a_response_is_dead(deployment: &Deployment, server: &Server) {
    deployment.restart_outbox(server).await;
    let insert = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
                  SELECT 1, n, 'noetl.executions.test', to_jsonb(repeat('x', size))
                  FROM unnest(ARRAY[17 << 20, 1]) WITH ORDINALITY AS row (size, n)";
    deployment.on_shard(0, insert).await;
    let rows = eventually("the row after the DEAD one is claimed", async || {
        let claimed = server.claim(json!({ "limit": 10 })).await;
        claimed["claims"].as_array().filter(|claims| !claims.is_empty()).cloned()
    })
    .await;
    assert_eq!((rows.len(), &rows[0]["payload"]), (1, &json!("x")));
    let dead =
        "available_at = 'infinity' AND last_error LIKE 'the payload has 178257__ bytes; the maximum is 16777216'";
    assert_eq!(deployment.outbox_rows(dead).await, 1);
}
