//! A worker can't place events where another tenant's execution will be. Ids can be guessed, so the log of an id can be
//! begun by others only when no server of the deployment starts an execution under it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use chrono::Utc;
use futures::StreamExt;
use noetl_domain::execution::Creation;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::tenant::{Scope, Tenancy};
use noetl_storage::error::DatabaseName;
use noetl_storage::executions;
use noetl_storage::ingest::{self, Logs, NewEvent, Numbering, Writer};
use noetl_storage::lock_wait::LockWait;
use noetl_storage::pools::Database;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, TokenFile, eventually, http_client};
use serde_json::{Map, Value, json};

const EXECUTE: &str = "mutation($input: ExecuteInput!) { execute(input: $input) {
    executionId outcome execution { id status } userErrors { code } } }";
const PROJECT: &str = "mutation($events: [EventInput!]!) { projectEvents(input: { events: $events }) {
    projected rejected { index userErrors { code message } } } }";
const DOCUMENTS: &str = "mutation($events: [JSON!]!) { projectEventDocuments(input: { events: $events }) {
    projected rejected { userErrors { code message } } } }";
const RESERVE: &str = "mutation { reserveEventIds(input: { count: 1 }) { eventIds } }";
/// Distance between the ids of one millisecond and those of the next.
const IDS_OF_MS: i64 = 1 << 22;
/// Number of ids of a millisecond under which something is placed. A server gives the first ids of a millisecond first.
const PLANTED: i64 = 2;

/// A server with a worker of each of two tenants, an importer, and an administrator.
struct World {
    deployment: Deployment,
    server: Server,
    tokens: TokenFile,
    attacker: String,
    victim: String,
    importer: String,
    admin: String,
}

impl World {
    async fn start() -> Self {
        let tokens = TokenFile::new();
        let of = |role, tenant| tokens.add(&["--role", role, "--tenant", tenant, "--subject", tenant]);
        let (attacker, victim, importer) = (of("worker", "globex"), of("worker", "acme"), of("importer", "initech"));
        let admin = tokens.add(&["--role", "admin", "--subject", "root"]);
        let deployment = Deployment::start(1).await;
        let (name, path) = tokens.setting();
        let server = deployment.replica_with(&[(name, &path)]).await;
        let entry = "mutation { registerCatalogEntry(input: { path: \"process\", content: \"kind: playbook\" }) {
            userErrors { message } } }";
        let registered = server.send_as(&admin, entry, Value::Null).await;
        assert_eq!(registered["data"]["registerCatalogEntry"]["userErrors"], json!([]), "{registered}");
        Self { deployment, server, tokens, attacker, victim, importer, admin }
    }

    async fn execute(&self, input: Value) -> Value {
        let input = json!({ "input": noetl_testkit::execute_input(input) });
        let answer = self.server.send_as(&self.victim, EXECUTE, input).await;
        match answer.get("errors") {
            None => answer["data"]["execute"].clone(),
            Some(errors) => errors[0]["extensions"]["code"].clone(),
        }
    }

    /// Returns an id that the server has just made.
    async fn id(&self) -> i64 {
        let made = self.server.send_as(&self.attacker, RESERVE, Value::Null).await;
        made["data"]["reserveEventIds"]["eventIds"][0].as_str().unwrap().parse().unwrap()
    }

    /// Returns the first ids of each of these coming milliseconds.
    async fn coming_ids(&self, milliseconds: Range<i64>) -> impl Iterator<Item = i64> + use<> {
        let id = self.id().await;
        let machine = id & (1023 << 12);
        let first = id / IDS_OF_MS;
        milliseconds.flat_map(move |ms| (0..PLANTED).map(move |n| (first + ms) * IDS_OF_MS + machine + n))
    }
}

fn started(execution: i64) -> Value {
    json!({ "executionId": execution.to_string(), "eventId": (execution + 1).to_string(), "type": "playbook_started" })
}

#[tokio::test]
async fn no_worker_takes_or_moves_the_ids_of_coming_executions() {
    let world = World::start().await;
    events_of_coming_executions_are_refused_and_executions_start(&world).await;
    an_execution_whose_id_is_taken_is_refused_and_its_key_is_free_again(&world).await;
    only_importers_begin_logs_with_ids_that_lie_in_the_future(&world).await;
    a_worker_does_not_move_the_clock_of_ids(&world).await;
}

/// Events under the ids of coming executions are refused.
async fn events_of_coming_executions_are_refused_and_executions_start(world: &World) {
    let ids: Vec<i64> = world.coming_ids(1..1_500).await.collect();
    let events: Vec<Value> = ids.iter().map(|id| started(*id)).collect();
    let answer = world.server.send_as(&world.attacker, PROJECT, json!({ "events": events })).await;
    let outcome = &answer["data"]["projectEvents"];
    assert_eq!(outcome["projected"], 0, "{outcome}");
    let rejected = outcome["rejected"].as_array().unwrap();
    assert_eq!(rejected.len(), events.len());
    assert!(rejected.iter().all(|one| one["userErrors"][0]["code"] == "NOT_FOUND"), "{}", rejected[0]);
    let last = *ids.last().unwrap();
    let mut made = 0;
    while made < last {
        let payload = world.execute(json!({ "path": "process" })).await;
        assert_eq!((&payload["outcome"], &payload["execution"]["status"]), (&json!("STARTED"), &json!("PENDING")));
        made = payload["executionId"].as_str().unwrap().parse().unwrap();
    }
    let logs = "SELECT count(DISTINCT execution_id) FROM noetl.event WHERE tenant_id <> 'acme'";
    assert_eq!(world.deployment.sum_over_shards(logs).await, 0);
}

/// Rows that are under the ids of coming executions, from an earlier release or another program, never count as these
/// executions.
async fn an_execution_whose_id_is_taken_is_refused_and_its_key_is_free_again(world: &World) {
    let mut shard = world.deployment.shard(0).await;
    let ids: Vec<i64> = world.coming_ids(1_000..3_000).await.collect();
    let list = "INSERT INTO noetl.execution (execution_id, catalog_id, status, tenant_id)
                SELECT unnest($1::bigint[]), 0, 'PENDING', 'globex'";
    sqlx::query(list).bind(&ids).execute(&mut shard).await.unwrap();
    let (last, mut made, mut refused) = (*ids.last().unwrap(), 0, BTreeSet::new());
    for n in 0.. {
        let key = format!("order-{n}");
        let payload = world.execute(json!({ "path": "process", "dedup": { "key": key } })).await;
        if payload["outcome"] == "STARTED" {
            assert_eq!(payload["execution"]["status"], "PENDING", "{payload}");
            made = payload["executionId"].as_str().unwrap().parse().unwrap();
        } else {
            assert_eq!(payload, "INTERNAL");
            refused.insert(key);
        }
        if made > last {
            break;
        }
    }
    assert!(!refused.is_empty(), "no id was taken");
    for key in refused {
        let payload = world.execute(json!({ "path": "process", "dedup": { "key": key } })).await;
        assert_eq!((&payload["outcome"], &payload["execution"]["status"]), (&json!("STARTED"), &json!("PENDING")));
    }
    let strangers = "SELECT count(*) FROM noetl.event WHERE tenant_id <> 'acme'";
    assert_eq!(world.deployment.sum_over_shards(strangers).await, 0);
    let without_start = "SELECT count(*) FROM noetl.execution AS listed WHERE tenant_id = 'acme' AND NOT EXISTS (
        SELECT FROM noetl.event WHERE event.execution_id = listed.execution_id AND event_type = 'playbook_started')";
    assert_eq!(world.deployment.sum_over_shards(without_start).await, 0);
}

#[tokio::test]
async fn the_claim_of_a_crashed_server_does_not_start_an_execution_in_a_log_of_another_tenant() {
    let world = World::start().await;
    let (name, path) = world.tokens.setting();
    let mut doomed =
        world.deployment.replica_with(&[(name, path.as_str()), ("NOETL_FAULT_POINT", "execute.claimed")]).await;
    let message = json!({ "path": "process", "dedup": { "key": "order-17" } });
    let input = json!({ "input": noetl_testkit::execute_input(message.clone()) });
    let body = json!({ "query": EXECUTE, "variables": input });
    let post = http_client().post(format!("{}/graphql", doomed.url)).bearer_auth(&world.victim).json(&body);
    assert!(post.send().await.is_err());
    doomed.ended().await;
    // An id that is old enough for others.
    run(
        &mut world.deployment.cluster().await,
        "UPDATE noetl.subscription_dedup
         SET execution_id = 4096, request = request || '{\"execution_id\": 4096, \"event_id\": 4097}'",
    )
    .await;
    let events = json!({ "events": [{ "executionId": "4096", "eventId": "5", "type": "call.done" }] });
    let planted = world.server.send_as(&world.attacker, PROJECT, events).await;
    assert_eq!(planted["data"]["projectEvents"]["projected"], 1, "{planted}");
    let refused = world.execute(message.clone()).await;
    assert_eq!(refused, "INTERNAL");
    let payload = world.execute(message).await;
    assert_eq!((&payload["outcome"], &payload["execution"]["status"]), (&json!("STARTED"), &json!("PENDING")));
    let of_log = "SELECT count(*) FROM noetl.event WHERE execution_id = 4096";
    assert_eq!(world.deployment.sum_over_shards(of_log).await, 1);
}

fn plain_event(execution: i64, event: i64) -> NewEvent {
    NewEvent {
        execution_id: Id::new(execution),
        event_id: Id::new(event),
        key: None,
        catalog_id: None,
        parent_event_id: None,
        parent_execution_id: None,
        created_at: None,
        event_type: "call.done".to_owned(),
        node_id: None,
        node_name: None,
        node_type: None,
        status: None,
        duration: None,
        context: None,
        result: None,
        meta: None,
        error: None,
        stack_trace: None,
        tenant_id: None,
        organization_id: None,
        others: None,
        claim: None,
    }
}

#[tokio::test]
async fn a_log_is_never_begun_by_two_tenants_at_once() {
    const LOGS: i64 = 300;
    let deployment = Deployment::start(0).await;
    let shard = Arc::new(Database::new(DatabaseName::Shard(0), deployment.cluster_dsn.parse().unwrap(), 8));
    let creation = |id: i64| Creation {
        execution_id: Id::new(id),
        event_id: Id::new(id + 1),
        parent_execution_id: None,
        catalog_id: Id::new(1),
        path: "process".to_owned(),
        workload: Map::new(),
        pool: None,
        trace: None,
        emitted_at: Utc::now(),
        actor: None,
        tenancy: Tenancy::new("acme", "default"),
        rerun_of: None,
        labels: Labels::default(),
        dedup: None,
    };
    let writer = |tenant: &str| Writer { scope: Scope::Tenant(tenant.into()), imports: false };
    let begins = (1..=LOGS).map(|n| {
        let (shard, id) = (&shard, n * 10);
        async move {
            let creation = creation(id);
            let event = |event_id| plain_event(id, event_id);
            let globex = writer("globex");
            let initech = writer("initech");
            let (one, two) = ([event(id + 2)], [event(id + 3)]);
            let creating = [&creation];
            let (created, planted, other) = tokio::join!(
                executions::create(shard, &creating, 1 << 40),
                ingest::insert(shard, &globex, &one, None, LockWait::Long, Logs::Locked, Numbering::Any),
                ingest::insert(shard, &initech, &two, None, LockWait::Long, Logs::Locked, Numbering::Any),
            );
            created.unwrap().created.len() + planted.unwrap().positions.len() + other.unwrap().positions.len()
        }
    });
    let begun: Vec<usize> = futures::stream::iter(begins).buffer_unordered(4).collect().await;
    assert!(begun.iter().all(|count| *count == 1), "{begun:?}");
    let shared = "SELECT count(*) FROM (SELECT FROM noetl.event GROUP BY execution_id HAVING count(DISTINCT tenant_id) > 1) AS s";
    assert_eq!(deployment.in_cluster(shared).await, 0);
}

/// An importer may begin a log with an id of the future, and no other caller.
async fn only_importers_begin_logs_with_ids_that_lie_in_the_future(world: &World) {
    // The ids of NoETL's function shift the time by one bit more, so they seem to be of later years.
    let theirs = (world.id().await >> 22 << 23) + 7;
    let document = |n: i64| {
        json!({ "execution_id": theirs.to_string(), "event_id": (theirs + n).to_string(), "event_type": "playbook_started",
                "status": "STARTED" })
    };
    let refused = world.server.send_as(&world.attacker, DOCUMENTS, json!({ "events": [document(1)] })).await;
    let error = &refused["data"]["projectEventDocuments"]["rejected"][0]["userErrors"][0];
    assert_eq!(error["code"], "NOT_FOUND", "{refused}");
    assert!(error["message"].as_str().unwrap().contains("IMPORT"), "{error}");
    let both = json!({ "events": [document(1), document(2)] });
    let accepted = world.server.send_as(&world.importer, DOCUMENTS, both.clone()).await;
    assert_eq!(accepted["data"]["projectEventDocuments"]["projected"], 2, "{accepted}");
    let again = world.server.send_as(&world.importer, DOCUMENTS, both).await;
    assert_eq!(again["data"]["projectEventDocuments"]["rejected"], json!([]), "{again}");
    // The log exists now, but not for another tenant.
    let foreign = world.server.send_as(&world.attacker, DOCUMENTS, json!({ "events": [document(3)] })).await;
    assert_eq!(foreign["data"]["projectEventDocuments"]["projected"], 0, "{foreign}");
    let status = format!("{{ execution(id: \"{theirs}\") {{ status }} }}");
    eventually("the execution is visible", async || {
        let answer = world.server.send_as(&world.admin, &status, Value::Null).await;
        (answer["data"]["execution"]["status"] == "RUNNING" || answer["data"]["execution"]["status"] == "PENDING")
            .then_some(())
    })
    .await;
}

/// Event ids of the future in a log of its own do not move the ids that the server makes.
async fn a_worker_does_not_move_the_clock_of_ids(world: &World) {
    let entry = "mutation { registerCatalogEntry(input: { path: \"inbox\", content: \"kind: subscription\" }) {
        userErrors { message } } }";
    world.server.send_as(&world.admin, entry, Value::Null).await;
    let register = "mutation { registerSubscription(input: { path: \"inbox\" }) { subscription { id } } }";
    let registered = world.server.send_as(&world.attacker, register, Value::Null).await;
    let inbox = registered["data"]["registerSubscription"]["subscription"]["id"].as_str().unwrap().to_owned();
    let (first, mut last) = (inbox.parse::<i64>().unwrap(), inbox.parse::<i64>().unwrap());
    for (round, action) in ["activate", "pause", "resume"].into_iter().chain(["pause", "resume"].repeat(8)).enumerate()
    {
        let day_ahead = last + (86_400_000 - 1000) * IDS_OF_MS;
        let events = json!({ "events": [
            { "executionId": inbox, "eventId": day_ahead.to_string(), "type": "subscription.message.deduplicated" }] });
        let planted = world.server.send_as(&world.attacker, PROJECT, events).await;
        assert_eq!(planted["data"]["projectEvents"]["projected"], 1, "round {round}: {planted}");
        let field = format!("{action}Subscription");
        let transition = format!(
            "mutation {{ {field}(input: {{ subscriptionId: \"{inbox}\" }}) {{
            subscription {{ lastEventId }} userErrors {{ code message }} }} }}"
        );
        let changed = world.server.send_as(&world.attacker, &transition, Value::Null).await;
        let event = &changed["data"][&field]["subscription"]["lastEventId"];
        last = event.as_str().unwrap_or_else(|| panic!("round {round}: {changed}")).parse().unwrap();
    }
    assert!(last - first > 10 * 86_400_000 * IDS_OF_MS, "the log's ids did not move");
    let made = world.id().await;
    assert!(
        made - first < 2 * 86_400_000 * IDS_OF_MS,
        "the generator moved by {} days",
        (made - first) / IDS_OF_MS / 86_400_000
    );
    let ceiling = world.deployment.in_cluster("SELECT max(ceiling_ms) FROM noetl.machine_lease").await;
    assert!(ceiling - first / IDS_OF_MS < 2 * 86_400_000, "ids until {ceiling} are reserved");
}

#[tokio::test]
async fn check_finds_ranges_that_end_in_the_distant_future_and_lowers_them() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    assert!(server.stop().await.success());
    let of_2093 = "UPDATE noetl.machine_lease SET ceiling_ms = (1::bigint << 41) - 1 WHERE machine_id = 17";
    run(&mut deployment.cluster().await, of_2093).await;
    let pinned = deployment.replica_with(&[("NOETL_SERVER_MACHINE_ID", "17")]).await;
    let input = json!({ "input": { "entry": { "path": "process" } } });
    let exhausted = pinned.send(EXECUTE, input).await.unwrap();
    let message = exhausted["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("can't be followed by a larger one"), "{exhausted}");
    let kinds = |found: &Value| {
        let differences = found["differences"].as_array().unwrap().iter();
        differences.map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (_, held) = deployment.check(&["--repair"]).await;
    assert_eq!(kinds(&held), ["range in the future"], "its holder may still make ids: {held:#}");
    assert!(pinned.stop().await.success());
    deployment.repair().await;
    let pinned = deployment.replica_with(&[("NOETL_SERVER_MACHINE_ID", "17")]).await;
    let payload = pinned.execute(json!({ "path": "process" })).await;
    assert_eq!(payload["outcome"], "STARTED", "{payload}");
    let (code, found) = deployment.check(&[]).await;
    assert_eq!((code, kinds(&found)), (0, Vec::new()), "{found:#}");
}
