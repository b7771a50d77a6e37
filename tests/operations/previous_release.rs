//! The databases that the two newest releases wrote are read and continued by this version. A release has a folder in
//! tests/fixtures/releases: a dump of each database, and operations with the responses of the release's program. The
//! newest one can be this version itself, so the one before it is read too.
//!
//! With `NOETL_WRITE_RELEASE=1`, the test writes the folder of this version instead. Until the version has a tag, write
//! its folder again after each change of a migration: otherwise the folder is that of an unreleased build.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use noetl_testkit::feed::{Reader, run};
use noetl_testkit::outbox::{NO_RELAY, reference};
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server, eventually, repository};
use serde_json::{Value, json};
use tokio::process::Command;

const SHARDS: usize = 2;
/// Setting with which delivered outbox rows are kept, however old they are.
const KEPT: (&str, &str) = ("NOETL_OUTBOX_RETENTION_SECS", "4294967295");
/// Paths of source subscriptions, with the transitions to their states.
const SUBSCRIPTIONS: [(&str, &[&str]); 5] = [
    ("registered", &[]),
    ("active", &["activate"]),
    ("paused", &["activate", "pause"]),
    ("draining", &["activate", "drain"]),
    ("deactivated", &["activate", "deactivate"]),
];
/// States of executions, with the events that lead to them. An execution is cancelled by the API.
const EXECUTIONS: [(&str, &[&str]); 5] = [
    ("PENDING", &[]),
    ("RUNNING", &["step.enter"]),
    ("COMPLETED", &["step.enter", "step.exit", "playbook.completed"]),
    ("FAILED", &["step.enter", "playbook.failed"]),
    ("CANCELLED", &["step.enter"]),
];
/// Lists whose responses are recorded.
const LISTS: [&str; 4] = [
    "{ list: catalogEntries(first: 100, filter: { latestOnly: false, includeArchived: true }) { nodes {
        id catalogId path version kind name createdAt archivedAt content } } }",
    "{ list: subscriptions(first: 20) { nodes {
        id path shard status lastEventId lastEventType registeredAt updatedAt
        events(first: 20) { nodes { eventId type status createdAt } } } } }",
    "{ list: executions(first: 20) { nodes {
        id path shard status startedAt endedAt error workload context
        steps(first: 20) { nodes { name status attempt error result } }
        events(first: 20) { nodes { eventId type nodeName createdAt meta context error } } } } }",
    "{ outbox { list: entries(first: 100) { nodes {
        id entryId status attempts lastError claimant executionId eventId subject payload createdAt publishedAt } } } }",
];

fn releases() -> PathBuf {
    repository().join("tests/fixtures/releases")
}

/// Returns the folders of the two newest releases, the older one first; one folder if there is no other.
fn newest() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(releases()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort_by_cached_key(|folder| precedence(folder.file_name().unwrap().to_str().unwrap()));
    folders.split_off(folders.len().saturating_sub(2))
}

/// Returns the key that orders versions. One with a suffix (`1.2.3-rc.1`) precedes the one without.
fn precedence(version: &str) -> (Vec<u64>, bool, Vec<u64>) {
    let (release, suffix) = version.split_once('-').unwrap_or((version, ""));
    let numbers = |text: &str| -> Vec<u64> { text.split('.').filter_map(|part| part.parse().ok()).collect() };
    (numbers(release), suffix.is_empty(), numbers(suffix))
}

/// Returns the names and DSNs of the databases.
fn databases(deployment: &Deployment) -> Vec<(String, &str)> {
    let shards = deployment.shard_dsns.iter().enumerate().map(|(shard, dsn)| (format!("shard_{shard}"), dsn.as_str()));
    std::iter::once(("cluster".to_owned(), deployment.cluster_dsn.as_str())).chain(shards).collect()
}

/// Runs a command of the shell, which must succeed, and returns its output.
async fn shell(command: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", command]).envs(variables.iter().copied());
    let output = shell.output().await.unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the command that dumps `$DATABASE`, without the lines that older versions of PostgreSQL do not know.
fn dump(options: &str) -> String {
    format!(
        r#"pg_dump --no-owner --no-privileges --schema=noetl {options} "$DATABASE" |
           sed -E '/^(\\restrict|\\unrestrict|SET transaction_timeout) /d'"#
    )
}

fn execution(parent: &Value, status: &str) -> Value {
    json!({ "path": "run", "parentExecutionId": parent, "workload": { "status": status },
            "dedup": { "key": status, "windowSeconds": 600 } })
}

/// Makes a source subscription in each state, and returns their ids by path.
async fn subscribe(server: &Server) -> Value {
    let mut ids = json!({});
    for (path, actions) in SUBSCRIPTIONS {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
        ids[path] = server.register(path).await["subscription"]["id"].clone();
        for action in actions {
            let moved = server.transition(action, ids[path].as_str().unwrap(), None).await;
            assert_eq!(moved["userErrors"], json!([]), "{path}: {moved}");
        }
    }
    ids
}

/// Makes an execution in each state, with a dedup claim and a stored state, and returns their ids by state.
async fn execute(server: &Server, parent: &Value) -> Value {
    let (mut ids, mut numbers) = (json!({}), Vec::new());
    for (status, types) in EXECUTIONS {
        ids[status] = server.execute(execution(parent, status)).await["executionId"].clone();
        let id: i64 = ids[status].as_str().unwrap().parse().unwrap();
        for (offset, event_type) in (10..).zip(types) {
            let error = (*event_type == "playbook.failed").then_some("no rows");
            let event = event_with(id, id + offset, &json!({ "type": event_type, "error": error }));
            let projected = server.project(&[event]).await;
            assert_eq!(projected["projected"], 1, "{status}: {projected}");
        }
        if status == "CANCELLED" {
            let cancel = "mutation($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }";
            let cancelled = server.data(cancel, json!({ "id": ids[status] })).await;
            assert_eq!(cancelled["cancelExecution"]["cancelled"], true, "{cancelled}");
        }
        numbers.push(id);
    }
    assert_eq!(server.advance_projections(&numbers).await["failed"], json!([]));
    ids
}

/// Leaves outbox rows in each state, and returns the reference to the claimed one.
async fn claim_outbox(server: &Server) -> Value {
    let claim = async |attempts: i64| {
        let input = json!({ "limit": 1, "leaseSeconds": 3600, "maxAttempts": attempts, "claimant": "worker" });
        reference(&server.claim(input).await["claims"][0])
    };
    assert_eq!(server.published(&[claim(20).await]).await["published"], 1);
    assert_eq!(server.failed(&claim(1).await, "refused", None).await["dead"], true);
    let held = claim(20).await;
    assert_eq!(server.failed(&claim(20).await, "not reachable", None).await["dead"], false);
    held
}

/// Sends an operation, and returns it with its data.
async fn recorded(server: &Server, query: &str, variables: Value) -> Value {
    let data = server.data(query, variables.clone()).await;
    json!({ "query": query, "variables": variables, "data": data })
}

/// Returns the operations with their data. Later programs must also accept the ids and the cursor of this program.
async fn operations(server: &Server, parent: &Value) -> Vec<Value> {
    let (mut operations, mut ids) = (Vec::new(), Vec::new());
    for query in LISTS {
        let operation = recorded(server, query, json!({})).await;
        let data = &operation["data"];
        let nodes = data["list"]["nodes"].as_array().or(data["outbox"]["list"]["nodes"].as_array());
        ids.extend(nodes.unwrap().iter().map(|node| node["id"].clone()));
        operations.push(operation);
    }
    let states = operations[2]["data"]["list"]["nodes"].as_array().unwrap();
    assert!(states.iter().all(|of| of["status"] == of["workload"]["status"]), "{states:?}");
    let nodes = "query($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }";
    operations.push(recorded(server, nodes, json!({ "ids": ids })).await);
    let page = server.data("{ executions(first: 2) { pageInfo { endCursor } } }", json!({})).await;
    let next = "query($after: String) { executions(first: 2, after: $after) { nodes { id } } }";
    operations.push(recorded(server, next, json!({ "after": page["executions"]["pageInfo"]["endCursor"] })).await);
    let claim = "query($parent: ID, $key: String!) { dedupClaim(parentExecutionId: $parent, key: $key) {
        executionId firstSeenAt expiresAt duplicates } }";
    for (key, _) in EXECUTIONS {
        operations.push(recorded(server, claim, json!({ "parent": parent, "key": key })).await);
    }
    operations
}

/// Fills the databases, and returns what later programs must read and continue.
async fn fill(deployment: &Deployment, server: &Server) -> Value {
    let retired = server.register_entry("retired", &json!({ "kind": "playbook" })).await;
    let retire = "mutation($id: ID!) { archiveCatalogEntry(input: { catalogId: $id }) { userErrors { code } } }";
    let payload = server.data(retire, json!({ "id": retired })).await;
    assert_eq!(payload["archiveCatalogEntry"]["userErrors"], json!([]));
    for version in 1..=2 {
        server.register_entry("run", &json!({ "kind": "playbook", "workload": { "version": version } })).await;
    }
    let subscriptions = subscribe(server).await;
    let parent = &subscriptions["active"];
    let executions = execute(server, parent).await;
    let claim = claim_outbox(server).await;
    deployment.until_claims_are_settled().await;
    // The longest window has 30 days, and the claims are read later too.
    let longer = "UPDATE noetl.subscription_dedup SET expires_at = '2100-01-01'";
    run(&mut deployment.cluster().await, longer).await;
    let mut reader = Reader::from_beginning(server).await;
    reader.until_kept(&deployment.committed().await).await;
    let operations = operations(server, parent).await;
    json!({
        "operations": operations, "subscriptions": subscriptions, "executions": executions,
        "claim": claim, "cursor": reader.cursor,
    })
}

/// Writes the folder of this version.
async fn write() {
    let deployment = Deployment::start(SHARDS).await;
    let server = deployment.replica_with(&[NO_RELAY, KEPT]).await;
    deployment.feeds_begun().await;
    let release = fill(&deployment, &server).await;
    assert!(server.stop().await.success());
    let folder = releases().join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("release.json"), format!("{release:#}\n")).unwrap();
    for (name, dsn) in databases(&deployment) {
        let file = folder.join(format!("{name}.sql.gz"));
        let command = format!("{} | gzip -n -9 >\"$FILE\"", dump(""));
        shell(&command, &[("DATABASE", dsn), ("FILE", file.to_str().unwrap())]).await;
    }
}

/// Restores the databases of a release.
async fn restored(folder: &Path) -> Deployment {
    let deployment = Deployment::unmigrated(SHARDS).await;
    for (name, dsn) in databases(&deployment) {
        let file = folder.join(format!("{name}.sql.gz"));
        let command = "gzip -dc \"$FILE\" | psql -qX -v ON_ERROR_STOP=1 \"$DATABASE\"";
        shell(command, &[("DATABASE", dsn), ("FILE", file.to_str().unwrap())]).await;
    }
    deployment
}

/// Returns the objects of the schemas of the databases, without the partitions of quarters, which depend on the time. They
/// are those of restored copies, because PostgreSQL writes the expressions of a restored object in another form.
async fn schemas(deployment: &Deployment) -> Vec<BTreeSet<String>> {
    let copy = Deployment::unmigrated(SHARDS).await;
    let mut schemas = Vec::new();
    for ((_, dsn), (_, copy)) in databases(deployment).into_iter().zip(databases(&copy)) {
        let schema = dump("--schema-only --exclude-table='noetl.event_p*q?'");
        let restore = format!("{schema} | psql -qX -v ON_ERROR_STOP=1 \"$COPY\"");
        shell(&restore, &[("DATABASE", dsn), ("COPY", copy)]).await;
        let text = shell(&schema, &[("DATABASE", copy)]).await;
        schemas.push(without_generated_names(&text).split("\n--\n-- Name: ").map(str::to_owned).collect());
    }
    schemas
}

/// Names each index of a partition after the partitioned index. PostgreSQL numbers generated names in the order in
/// which the indexes are created.
fn without_generated_names(dump: &str) -> String {
    let attached = dump.lines().filter_map(|line| {
        let (parent, index) = line.strip_prefix("ALTER INDEX noetl.")?.split_once(" ATTACH PARTITION noetl.")?;
        Some((index.strip_suffix(';')?, parent))
    });
    let mut attached: Vec<_> = attached.collect();
    // A name can be the beginning of another one.
    attached.sort_by_key(|(index, _)| std::cmp::Reverse(index.len()));
    let name = |text: String, (index, parent): &(&str, &str)| text.replace(index, &format!("partition of {parent}"));
    attached.iter().fold(dump.to_owned(), name)
}

/// Checks that the databases have the schema of new ones, and only differences that servers repair when they start.
async fn check_databases(deployment: &Deployment) {
    let fresh = Deployment::start(SHARDS).await;
    for (upgraded, fresh) in schemas(deployment).await.iter().zip(schemas(&fresh).await) {
        let differ: Vec<_> = upgraded.symmetric_difference(&fresh).collect();
        assert!(differ.is_empty(), "{differ:#?}");
    }
    let (_, found) = deployment.check(&[]).await;
    assert_eq!(found["unchecked"], json!([]), "{found:#}");
    for difference in found["differences"].as_array().unwrap() {
        assert_eq!(difference["repairedBy"], "servers", "{found:#}");
    }
}

/// Continues what the release began: subscriptions, dedup keys, an execution and a claim.
async fn continue_work(server: &Server, release: &Value) {
    let (subscriptions, executions) = (&release["subscriptions"], &release["executions"]);
    let active = &subscriptions["active"];
    assert_eq!(&server.register("active").await["subscription"]["id"], active);
    let resumed = server.transition("resume", subscriptions["paused"].as_str().unwrap(), None).await;
    assert_eq!(resumed["subscription"]["status"], "ACTIVE", "{resumed}");
    for (status, id) in executions.as_object().unwrap() {
        let again = server.execute(execution(active, status)).await;
        assert_eq!((&again["outcome"], &again["executionId"]), (&json!("DUPLICATE"), id), "{status}: {again}");
    }
    let started = server.execute(execution(active, "another key")).await;
    assert_eq!(started["outcome"], "STARTED", "{started}");
    let running: i64 = executions["RUNNING"].as_str().unwrap().parse().unwrap();
    let ended = event_with(running, running + 100, &json!({ "type": "playbook.completed" }));
    assert_eq!(server.project(&[ended]).await["projected"], 1);
    assert_eq!(server.execution_state(running).await["status"], "COMPLETED");
    let delivered = server.published(std::slice::from_ref(&release["claim"])).await;
    assert_eq!(delivered["published"], 1, "{delivered}");
}

/// Delivers every outbox row, except those that are DEAD.
async fn deliver(deployment: &Deployment) {
    let rows = deployment.outbox_rows("noetl.outbox_state(status, available_at) <> 'DEAD'").await;
    assert!(rows < deployment.outbox_rows("true").await, "no row is DEAD");
    let server = deployment.replica_with(&[KEPT]).await;
    deployment.until_relayed(rows).await;
    eventually("nothing differs", async || (deployment.check(&[]).await.0 == 0).then_some(())).await;
    assert!(server.stop().await.success());
}

/// Upgrades the databases of a release, reads what it recorded, and continues its work.
async fn upgrade(folder: &Path) {
    let release: Value = serde_json::from_str(&fs::read_to_string(folder.join("release.json")).unwrap()).unwrap();
    let deployment = restored(folder).await;
    deployment.migrate().await;
    Box::pin(check_databases(&deployment)).await;

    let server = deployment.replica_with(&[NO_RELAY, KEPT]).await;
    // The databases are restored dumps, so their feeds begin a new epoch, with all events.
    deployment.feeds_begun().await;
    server.until_feed_epoch(2).await;
    let mut reader = Reader::open(&server, json!({ "after": release["cursor"] }), Value::Null).await;
    reader.until_kept(&deployment.committed().await).await;
    let shards: BTreeSet<u64> = reader.gaps().iter().map(|gap| gap.0).collect();
    assert_eq!(shards, BTreeSet::from([0, 1]), "the reader must learn of the new epoch of each shard");
    for operation in release["operations"].as_array().unwrap() {
        let query = operation["query"].as_str().unwrap();
        assert_eq!(server.data(query, operation["variables"].clone()).await, operation["data"], "{query}");
    }

    Box::pin(continue_work(&server, &release)).await;
    assert!(reader.until_seen(deployment.committed().await).await, "the feed ended");
    assert!(server.stop().await.success());
    Box::pin(deliver(&deployment)).await;
}

#[tokio::test]
async fn the_databases_of_the_two_newest_releases_are_migrated_read_as_recorded_and_continued() {
    if std::env::var_os("NOETL_WRITE_RELEASE").is_some() {
        return Box::pin(write()).await;
    }
    let folders = newest();
    assert!(!folders.is_empty());
    for folder in folders {
        Box::pin(upgrade(&folder)).await;
    }
}
