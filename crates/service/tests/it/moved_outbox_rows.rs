//! Outbox rows whose bucket moves while a process uses the map of before the switch: their old ids lead to them, their
//! leases stay valid, and no row is delivered twice. The purge keeps the ids that are needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use noetl_domain::ids::Id;
use noetl_domain::outbox::{OutboxId, OutboxPolicy};
use noetl_domain::tenant::{Caller, Scope};
use noetl_runtime::clock;
use noetl_runtime::wake::WakeUps;
use noetl_service::outbox::Outbox;
use noetl_storage::error::DatabaseName;
use noetl_storage::machines::Lease;
use noetl_storage::outbox::{self, Forward, OutboxFilter};
use noetl_storage::pools::{Database, Databases};
use noetl_storage::shard_map;
use noetl_testkit::feed::run;
use noetl_testkit::mover::{buckets, kill_at, moved, with_executions, with_executions_from};
use noetl_testkit::outbox::{ids, reference};
use noetl_testkit::{Deployment, QUIET};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::ids::ReserveIds;
use noetl_use_cases::outbox::{
    ChangeRows, Claim, ClaimRef, ClaimRows, FailedDelivery, ReadOutbox, RowChange, SettleClaims,
};
use serde_json::{Value, json};

const ANY: Scope = Scope::Unrestricted;

/// Ids without a lease. A move waits for each process with a lease.
#[derive(Debug)]
struct Unleased(AtomicI64);

#[async_trait]
impl ReserveIds for Unleased {
    async fn leases(&self) -> Result<Vec<Lease>, ServiceError> {
        Ok(Vec::new())
    }

    async fn reserve(&self, count: u32) -> Result<Vec<Id>, ServiceError> {
        Ok((0..count).map(|_| Id::new(self.0.fetch_add(1, Ordering::Relaxed))).collect())
    }

    fn machine_id(&self) -> u16 {
        0
    }
}

/// A process that keeps the map with which it was started until a shard refuses one of its statements.
struct Process {
    databases: Databases,
    outbox: Outbox,
}

impl Process {
    async fn start(deployment: &Deployment) -> Self {
        let database = |name, dsn: &str| Arc::new(Database::new(name, dsn.parse().unwrap(), 4));
        let cluster = database(DatabaseName::Cluster, &deployment.cluster_dsn);
        let shards = (0..).zip(&deployment.shard_dsns).map(|(index, dsn)| database(DatabaseName::Shard(index), dsn));
        let shards: Vec<Arc<Database>> = shards.collect();
        let map = shard_map::load(&cluster, 2).await.unwrap().unwrap();
        let databases = Databases::new(cluster, shards, map, clock::now());
        let policy = OutboxPolicy { max_attempts: 10, retention: None };
        let ids = Arc::new(Unleased(AtomicI64::new(1)));
        let outbox = Outbox::new(databases.clone(), ids, WakeUps::new(2), policy);
        Self { databases, outbox }
    }

    /// Runs a statement while the map is read when the process requests it.
    async fn run<T>(&self, statement: impl Future<Output = T>) -> T {
        let refresh = async {
            loop {
                self.databases.new_map_requested().await;
                self.databases.refresh_map().await.unwrap();
            }
        };
        tokio::select! {
            done = statement => done,
            () = refresh => unreachable!(),
        }
    }
}

fn claim_ref(claim: &Value) -> ClaimRef {
    let text = |field: &str| claim[field].as_str().unwrap().to_owned();
    ClaimRef { id: text("entryId").parse().unwrap(), lease: text("lease").parse().unwrap() }
}

/// Returns the number of an execution's rows on both shards with this status, counting rows that moved once.
async fn current(deployment: &Deployment, execution: i64, status: &str) -> i64 {
    let query = format!(
        "SELECT count(*) FROM noetl.outbox
         WHERE execution_id = {execution} AND status = '{status}' AND NOT EXISTS (
             SELECT FROM noetl.bucket_fence
             WHERE bucket = noetl.bucket_of(execution_id) AND sealed AND outbox.status <> 'PUBLISHED')"
    );
    deployment.sum_over_shards(&query).await
}

/// Moves the bucket of an execution with six rows while a process has the map of before the switch, and uses all rows
/// by their old ids. The command is killed at a point after the switch, or completes the move. The execution is the
/// first one from an id on.
async fn used_by_old_ids(deployment: &Deployment, from: i64, is_announced: bool, killed_at: Option<&str>) {
    let case = format!("announced: {is_announced}, killed at {killed_at:?}");
    let server = deployment.replica_with(&QUIET).await;
    let executions = with_executions_from(deployment, &server, from, 1).await;
    let more = "INSERT INTO noetl.outbox (execution_id, event_id, payload) SELECT execution_id, n, payload
                FROM noetl.outbox, generate_series(3, 6) AS n WHERE event_id = 1";
    run(&mut deployment.shard(0).await, more).await;
    let claimed = server.claim(json!({ "limit": 6, "shard": 0, "leaseSeconds": 3600 })).await;
    let claims: Vec<Value> = claimed["claims"].as_array().unwrap().clone();
    assert_eq!(claims.len(), 6, "{claimed}");
    let failed = server.failed(&claims[5], "broken", Some(600)).await;
    assert_eq!(failed["dead"], false, "{failed}");
    assert!(server.stop().await.success());
    let held: Vec<ClaimRef> = claims.iter().map(claim_ref).collect();

    if is_announced {
        kill_at(deployment, &executions, "shards_move.announced").await;
    }
    let process = Process::start(deployment).await;
    let version = process.databases.map().version();
    match killed_at {
        Some(point) => kill_at(deployment, &executions, point).await,
        None => drop(moved(deployment, &buckets(&executions), 1, &[]).await),
    }
    let outbox = &process.outbox;
    // The token of another claim stays invalid, and the token of the claim stays valid.
    let stale = ClaimRef { lease: held[0].lease + 1, ..held[0] };
    let published = process.run(outbox.mark_published(&[stale, held[0]], &ANY)).await.unwrap();
    assert_eq!((published.published, published.failed.len()), (1, 0), "{case}: {published:?}");
    assert_eq!(published.stale.into_iter().collect::<Vec<_>>(), [stale], "{case}");
    // A repetition changes nothing, and is not stale.
    let again = process.run(outbox.mark_published(&held[..1], &ANY)).await.unwrap();
    assert_eq!((again.published, again.stale.len(), again.failed.len()), (0, 0, 0), "{case}: {again:?}");
    if killed_at.is_none() {
        assert_eq!(process.databases.map().version(), version, "{case}: the map is still that of before the switch");
    }
    let renewed = process.run(outbox.renew_leases(&held[1..2], 3600, &ANY)).await.unwrap();
    assert_eq!(renewed.outcomes.keys().collect::<Vec<_>>(), [&held[1]], "{case}: {renewed:?}");
    let failure = FailedDelivery { claim: held[2], error: "broken".to_owned() };
    let failed = process.run(outbox.mark_failed(&[failure], 600, &ANY)).await.unwrap();
    assert_eq!(failed.outcomes.keys().collect::<Vec<_>>(), [&held[2]], "{case}: {failed:?}");
    process.run(outbox.release(&held[3..4], Duration::ZERO, None)).await.unwrap();
    if !is_announced {
        // A process reads the map every second.
        process.databases.refresh_map().await.unwrap();
    }
    for claim in &held {
        let found = process.run(outbox.by_ids(&[claim.id], false, &ANY)).await;
        assert!(found.contains_key(&claim.id), "{case}: {claim:?}");
    }
    let counts = ["PUBLISHED", "IN_FLIGHT", "FAILED", "PENDING"];
    let counts = counts.map(async |status| current(deployment, executions[0], status).await);
    assert_eq!(join_all(counts).await, [1, 2, 2, 1], "{case}");

    // Only the released row can be claimed. The others are delivered or held.
    moved(deployment, &buckets(&executions), 1, &[]).await;
    let server = deployment.replica_with(&QUIET).await;
    assert_eq!(
        ids(&server.claim(json!({ "limit": 10 })).await),
        Vec::<String>::new(),
        "{case}: an earlier row is held"
    );
    let rest: Vec<Value> = [&claims[1], &claims[4]].map(reference).to_vec();
    let settled = server.published(&rest).await;
    assert_eq!((&settled["published"], &settled["stale"]), (&json!(2), &json!([])), "{case}: {settled}");
    let events = "SELECT event_id FROM noetl.outbox WHERE status = 'PUBLISHED' AND execution_id = $1";
    let mut delivered = Vec::new();
    for shard in 0..2 {
        let events = sqlx::query_scalar::<_, i64>(events).bind(executions[0]);
        delivered.extend(events.fetch_all(&mut deployment.shard(shard).await).await.unwrap());
    }
    delivered.sort_unstable();
    assert_eq!(delivered, [1, 2, 5], "{case}");
    // The next move of the deployment has no replica and no due row either.
    assert!(server.stop().await.success());
    deployment.on_shard(1, "DELETE FROM noetl.outbox").await;
}

#[tokio::test]
async fn rows_are_settled_by_their_old_ids_with_the_map_of_before_the_switch() {
    let cases = [true, false].map(async |is_announced| {
        let deployment = Deployment::start(2).await;
        Box::pin(used_by_old_ids(&deployment, 1000, is_announced, Some("shards_move.opened"))).await;
        Box::pin(used_by_old_ids(&deployment, 2000, is_announced, None)).await;
    });
    join_all(cases).await;
}

/// Retries and reads a failed row by its old id with the map of before the switch.
async fn retried_by_old_id(killed_at: Option<&str>) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = with_executions(&deployment, &server, 1).await;
    assert!(server.stop().await.success());
    let fail = "UPDATE noetl.outbox SET status = 'FAILED', attempts = 10, available_at = 'infinity'";
    run(&mut deployment.shard(0).await, fail).await;
    let id = |number| OutboxId { shard: 0, number };
    kill_at(&deployment, &executions, "shards_move.announced").await;
    let [reader, retrier, discarder] =
        [Process::start(&deployment).await, Process::start(&deployment).await, Process::start(&deployment).await];
    match killed_at {
        Some(point) => kill_at(&deployment, &executions, point).await,
        None => drop(moved(&deployment, &buckets(&executions), 1, &[]).await),
    }
    let found = reader.run(reader.outbox.by_ids(&[id(1)], false, &ANY)).await;
    assert_eq!(found[&id(1)].as_ref().unwrap().row.status, "FAILED", "{killed_at:?}");
    let filter = |number| OutboxFilter { ids: Some(vec![id(number)]), ..OutboxFilter::default() };
    let caller = Caller { actor: None, scope: ANY, imports: false };
    let change = RowChange { reason: None, dry_run: false, caller: &caller };
    let retried = retrier.run(retrier.outbox.retry(&filter(1), change)).await.unwrap();
    assert_eq!((retried.matched, retried.changed, retried.unavailable.len()), (1, 1, 0), "{killed_at:?}: {retried:?}");
    let discarded = discarder.run(discarder.outbox.discard(&filter(2), change)).await.unwrap();
    assert_eq!((discarded.matched, discarded.changed), (1, 1), "{killed_at:?}: {discarded:?}");
    let due = "SELECT event_id FROM noetl.outbox WHERE available_at <= now()";
    let due: Vec<i64> = sqlx::query_scalar(due).fetch_all(&mut deployment.shard(1).await).await.unwrap();
    assert_eq!(due, [1], "{killed_at:?}");
    assert_eq!(deployment.outbox(1).await.len(), 1, "{killed_at:?}");
}

#[tokio::test]
async fn rows_are_read_and_retried_by_their_old_ids_with_the_map_of_before_the_switch() {
    tokio::join!(retried_by_old_id(Some("shards_move.opened")), retried_by_old_id(None));
}

#[tokio::test]
async fn copied_rows_can_t_be_taken_on_the_target_before_the_switch() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = with_executions(&deployment, &server, 1).await;
    assert!(server.stop().await.success());
    // A process that does not know of the move, as one that lost its connection to the cluster database.
    let process = Process::start(&deployment).await;
    kill_at(&deployment, &executions, "shards_move.last_rows").await;
    assert_eq!(deployment.outbox(1).await.len(), 2, "the rows are copied");
    let claim = Claim {
        limit: 10,
        lease_seconds: 60,
        shard: Some(1),
        max_attempts: None,
        subjects: None,
        claimant: Some("old".to_owned()),
    };
    let claimed = process.run(process.outbox.claim(claim, &ANY)).await.unwrap();
    assert!(claimed.rows.is_empty(), "{claimed:?}");
    // Another program, as NoETL's own publisher.
    let publish = "UPDATE noetl.outbox SET status = 'PUBLISHED' WHERE status = 'PENDING'";
    let refused = sqlx::query(publish).execute(&mut deployment.shard(1).await).await.unwrap_err();
    assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "NB001", "{refused}");
    // An aborted move leaves no row, and the bucket can be moved later.
    moved(&deployment, &buckets(&executions), 1, &["--abort"]).await;
    assert_eq!(deployment.outbox(1).await.len(), 0);
    moved(&deployment, &buckets(&executions), 1, &[]).await;
    let server = deployment.replica_with(&QUIET).await;
    assert_eq!(ids(&server.claim(json!({ "limit": 10 })).await).len(), 2, "each row once");
    assert_eq!(server.claim(json!({ "limit": 10, "shard": 0 })).await["claims"], json!([]));
}

/// Returns the number of forwards that a shard stores.
async fn forwards(deployment: &Deployment, shard: usize) -> i64 {
    let query = "SELECT count(*) FROM noetl.outbox_forward";
    sqlx::query_scalar(query).fetch_one(&mut deployment.shard(shard).await).await.unwrap()
}

#[tokio::test]
async fn the_purge_during_a_move_keeps_the_forwards_that_are_needed() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = with_executions(&deployment, &server, 1).await;
    let claims = server.claim(json!({ "limit": 2, "shard": 0, "leaseSeconds": 3600 })).await["claims"].take();
    let claims = claims.as_array().unwrap();
    assert!(server.stop().await.success());
    kill_at(&deployment, &executions, "shards_move.last_rows").await;
    assert_eq!(forwards(&deployment, 0).await, 2);
    // As in the next attempt, which has replaced the copies and not yet the forwards.
    run(&mut deployment.shard(1).await, "DELETE FROM noetl.outbox").await;
    deployment.maintain(&[]).await;
    assert_eq!(forwards(&deployment, 0).await, 2, "the rows have not left");
    for point in ["shards_move.last_rows", "shards_move.sealed", "shards_move.switched"] {
        kill_at(&deployment, &executions, point).await;
        deployment.maintain(&[]).await;
        assert_eq!(forwards(&deployment, 0).await, 2, "{point}");
    }
    // The bucket returns: the first forwards lead over the other shard, whose rows are gone.
    moved(&deployment, &buckets(&executions), 1, &[]).await;
    moved(&deployment, &buckets(&executions), 0, &[]).await;
    deployment.maintain(&[]).await;
    assert_eq!([forwards(&deployment, 0).await, forwards(&deployment, 1).await], [2, 2]);
    let server = deployment.replica_with(&QUIET).await;
    let settled = server.published(&claims.iter().map(reference).collect::<Vec<_>>()).await;
    assert_eq!((&settled["published"], &settled["stale"]), (&json!(2), &json!([])), "{settled}");
    assert!(server.stop().await.success());
    // The forwards of rows that were purged are removed, the last one of a chain first.
    run(&mut deployment.shard(0).await, "DELETE FROM noetl.outbox").await;
    deployment.maintain(&[]).await;
    deployment.maintain(&[]).await;
    assert_eq!([forwards(&deployment, 0).await, forwards(&deployment, 1).await], [0, 0]);
}

#[tokio::test]
async fn a_purge_that_read_the_forwards_before_an_attempt_keeps_those_of_the_attempt() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    let executions = with_executions(&deployment, &server, 1).await;
    assert!(server.stop().await.success());
    kill_at(&deployment, &executions, "shards_move.last_rows").await;
    let process = Process::start(&deployment).await;
    let [source, target] = [0, 1].map(|shard| &process.databases.shards()[shard]);
    // The purge reads the forwards, and finds after the next attempt that their copies are gone.
    let read = outbox::forwards(source, 0, 10).await.unwrap();
    moved(&deployment, &buckets(&executions), 1, &[]).await;
    let copies = |forwards: &[Forward]| forwards.iter().map(|forward| forward.copy.number).collect::<Vec<i64>>();
    assert_eq!(outbox::absent(target, &copies(&read)).await.unwrap().len(), 2);
    assert_eq!(outbox::forget_forwards(source, &read).await.unwrap(), 0);
    assert_eq!(forwards(&deployment, 0).await, 2);
    let current = outbox::forwards(source, 0, 10).await.unwrap();
    assert!(outbox::absent(target, &copies(&current)).await.unwrap().is_empty());
}
