//! Faults of the outbox, the projector, the callers and other programs. No messages run beside them.

use std::time::Duration;

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Live, http_client, sleep_in_scenario};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::Night;
use super::site::Site;

/// More events than the projector may be late, in many executions, so that it needs some seconds for them.
const LATE: &str = "INSERT INTO noetl.event (execution_id, event_id, event_type)
    SELECT execution, n, 'call.done' FROM unnest($1::bigint[]) AS execution, generate_series(11, 25) AS n";
const ANY: &str = "{ executions(first: 1) { nodes { id } } }";
const LIVE: &str = "subscription { events { __typename } }";

async fn nothing(_: &mut Site) {}

/// Returns executions of shard 0 that no message has.
pub fn executions(site: &Site, count: usize) -> Vec<i64> {
    site.deployment.ids_on(0, 1, count)
}

pub async fn outbox(night: &mut Night) {
    let fill = async |site: &mut Site| {
        site.deployment.fill_outbox(0, &executions(site, 1), 12_000).await;
        let old = "UPDATE noetl.outbox SET available_at = now() - interval '1 hour', created_at = now() - interval '1 hour'
                   WHERE status <> 'PUBLISHED' AND event_id % 2 = 0;
                   UPDATE noetl.outbox SET status = 'FAILED', available_at = 'infinity', attempts = 20, last_error = 'tried'
                   WHERE status <> 'PUBLISHED' AND event_id = 7";
        run(&mut site.deployment.shard(0).await, old).await;
    };
    let empty = async |site: &mut Site| {
        run(
            &mut site.deployment.shard(0).await,
            "DELETE FROM noetl.outbox WHERE subject LIKE 'noetl.executions.test.%'",
        )
        .await;
    };
    let waiting = ["NoetlOutboxBacklog", "NoetlOutboxStalled", "NoetlOutboxWaiting", "NoetlOutboxDead"];
    night.quiet("nobody claims the rows of the outbox, and one is DEAD", &waiting, fill, empty).await;
    let claimed = async |site: &mut Site| {
        site.deployment.fill_outbox(0, &executions(site, 1), 20).await;
        let claim = "mutation { claimOutbox(input: {select: {all: true}, limit: 10, leaseSeconds: 1}) { userErrors { code } } }";
        requests(site, claim, None, Duration::from_millis(500));
    };
    night.quiet("workers claim rows and do not settle them", &["NoetlOutboxLeasesExpire"], claimed, empty).await;
}

/// Sends a request to replica 1 again and again until the end of the step.
pub fn requests(site: &mut Site, query: impl Into<String>, token: Option<&'static str>, pause: Duration) {
    let (url, query) = (format!("{}/graphql", site.replica(1).url), query.into());
    site.beside.spawn(async move {
        let client = http_client();
        loop {
            let mut request = client.post(&url).json(&json!({ "query": query }));
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            // A response that says no is the purpose of some of them.
            drop(request.send().await);
            sleep_in_scenario(pause).await;
        }
    });
}

pub async fn projector(night: &mut Night) {
    let off = async |site: &mut Site| {
        for index in [0, 1] {
            site.restart_replica(index, &[("NOETL_PROJECTOR", "false")]).await;
        }
        let executions = executions(site, 6_000);
        for event in 1_000..1_060 {
            site.deployment.commit(executions[0], event..=event).await;
            sleep_in_scenario(Duration::from_millis(500)).await;
        }
        let late = sqlx::query(LATE).bind(executions);
        late.execute(&mut site.deployment.shard(0).await).await.unwrap();
        site.deployment.until_all_published().await;
    };
    night.quiet("no replica has a projector", &["NoetlProjectorStopped"], off, nothing).await;
    let on = async |site: &mut Site| {
        for index in [0, 1] {
            site.restart_replica(index, &[]).await;
        }
    };
    let caught_up = async |site: &mut Site| site.deployment.until_projected().await;
    night.quiet("the projectors are late", &["NoetlProjectorLag"], on, caught_up).await;
    let hide = async |site: &mut Site| {
        on_each_shard(site, "ALTER TABLE noetl.projection_snapshot RENAME TO hidden").await;
        site.replica(0).start_execution().await;
    };
    let show = async |site: &mut Site| {
        let show = "ALTER TABLE noetl.hidden RENAME TO projection_snapshot; DELETE FROM noetl.outbox";
        on_each_shard(site, show).await;
    };
    night.quiet("the state of an execution can't be stored", &["NoetlProjectorGaveUp"], hide, show).await;
}

async fn on_each_shard(site: &Site, statement: &str) {
    for shard in 0..site.deployment.shard_dsns.len() {
        run(&mut site.deployment.shard(shard).await, statement).await;
    }
}

pub async fn callers(night: &mut Night) {
    let usual = async |site: &mut Site| site.restart_replica(1, &[]).await;
    let wrong = async |site: &mut Site| {
        let (name, file) = site.tokens.setting();
        site.restart_replica(1, &[(name, &file)]).await;
        requests(site, ANY, Some("wrong"), Duration::from_millis(200));
    };
    night.quiet("callers have a wrong token", &["NoetlCallersRefused"], wrong, usual).await;
    let overloaded = async |site: &mut Site| {
        site.restart_replica(1, &[("NOETL_MAX_REQUESTS", "1")]).await;
        for _ in 0..8 {
            requests(site, ANY, None, Duration::ZERO);
        }
    };
    night.quiet("a replica gets too many requests", &["NoetlOverloaded"], overloaded, usual).await;
    let connected = async |site: &mut Site| {
        site.restart_replica(1, &[("NOETL_MAX_CONNECTIONS", "10")]).await;
        let url = site.replica(1).url.clone();
        site.beside.spawn(async move {
            let mut open = Vec::new();
            while open.len() < 16 {
                open.push(Live::try_open(&url, LIVE, json!({})).await);
            }
            std::future::pending::<()>().await;
        });
    };
    night.quiet("a replica gets too many connections", &["NoetlConnectionsRefused"], connected, usual).await;
}

pub async fn others(night: &mut Night) {
    let usual = async |site: &mut Site| site.restart_replica(1, &[]).await;
    let other = Deployment::start(2).await;
    let foreign = async |site: &mut Site| {
        let setting = |name| other.env.iter().find(|setting| setting.0 == name).unwrap().1.clone();
        let settings = [("NOETL_CLUSTER_DSN", setting("NOETL_CLUSTER_DSN")), ("NOETL_SHARDS", setting("NOETL_SHARDS"))];
        site.restart_replica(1, &settings.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    };
    night.quiet("another deployment uses the streams", &["NoetlFeedStoodBack"], foreign, usual).await;
    let blocked = async |site: &mut Site| {
        let mut shard = site.deployment.shard(0).await;
        let last = "SELECT relname::text FROM pg_inherits JOIN pg_class ON oid = inhrelid
                    WHERE inhparent = 'noetl.event'::regclass AND relname LIKE 'event_p%' ORDER BY relname DESC LIMIT 1";
        let last: String = sqlx::query_scalar(last).fetch_one(&mut shard).await.unwrap();
        let bounds = format!(
            "SELECT substring(pg_get_expr(relpartbound, oid) FROM '\\d+')::bigint
                              FROM pg_class WHERE oid = 'noetl.{last}'::regclass"
        );
        let first: i64 = sqlx::query_scalar(AssertSqlSafe(bounds)).fetch_one(&mut shard).await.unwrap();
        let future = format!(
            "DROP TABLE noetl.{last};
            INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ({first}, 1, 'call.done')"
        );
        run(&mut shard, &future).await;
        site.restart_replica(1, &[]).await;
    };
    let moved =
        async |site: &mut Site| run(&mut site.deployment.shard(0).await, "DELETE FROM noetl.event_default").await;
    night
        .quiet("an event of a later quarter is in no partition", &["NoetlEventPartitionsBlocked"], blocked, moved)
        .await;
    let killed = async |site: &mut Site| {
        for index in [0, 1] {
            site.kill_replica(index).await;
        }
    };
    let started = async |site: &mut Site| {
        for index in [0, 1] {
            site.start_replica(index, &[]).await;
        }
    };
    night.quiet("all replicas are killed", &["NoetlDown"], killed, started).await;
}
