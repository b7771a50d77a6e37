//! Retired catalog entries: each replica leaves them out by path and in lists at once, whether this API or NoETL's server
//! retired them.

use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const ARCHIVE: &str = "mutation($input: CatalogArchivingInput!) { it: archiveCatalogEntry(input: $input) {
    catalogEntry { catalogId archivedAt } userErrors { code } } }";
const RESTORE: &str = "mutation($input: CatalogArchivingInput!) { it: restoreCatalogEntry(input: $input) {
    catalogEntry { catalogId archivedAt } userErrors { code } } }";

/// Program that retires and restores entries.
#[derive(Debug, Clone, Copy)]
enum By {
    Noetl,
    Api,
}

/// Sends a mutation named `it` that must succeed, and returns the entry.
async fn change(server: &Server, mutation: &str, input: Value) -> Value {
    let payload = server.data(mutation, json!({ "input": input })).await["it"].take();
    assert_eq!(payload["userErrors"], json!([]), "{payload}");
    payload["catalogEntry"].clone()
}

/// Retires an entry, or restores it.
async fn set_archived(deployment: &Deployment, server: &Server, by: By, id: &str, archived: bool) {
    match by {
        By::Noetl => {
            let update = "UPDATE noetl.catalog SET archived_at = CASE WHEN $2 THEN now() END
                          WHERE catalog_id = $1::text::bigint";
            let update = sqlx::query(update).bind(id).bind(archived);
            assert_eq!(update.execute(&mut deployment.cluster().await).await.unwrap().rows_affected(), 1);
        }
        By::Api => {
            let entry = change(server, if archived { ARCHIVE } else { RESTORE }, json!({ "catalogId": id })).await;
            assert_eq!((&entry["catalogId"], entry["archivedAt"].is_string()), (&json!(id), archived));
        }
    }
}

async fn register_versions(server: &Server, path: &str, count: u64) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 1..=count {
        ids.push(server.register_entry(path, &json!({ "kind": "playbook", "workload": { "n": n } })).await);
    }
    ids
}

const READS: &str = "query($path: String!, $id: ID!) {
    newest: catalogEntry(by: {path: $path}) { version }
    current: catalogEntries(filter: {pathPrefix: $path}) { nodes { version } totalCount { value } }
    live: catalogEntries(filter: {pathPrefix: $path, latestOnly: false}) { nodes { version } totalCount { value } }
    last: catalogEntries(filter: {pathPrefix: $path, includeArchived: true}) { nodes { version } totalCount { value } }
    all: catalogEntries(filter: {pathPrefix: $path, latestOnly: false, includeArchived: true}) {
        nodes { version archivedAt } totalCount { value } }
    entry: catalogEntry(by: {id: $id}) {
        archivedAt
        versions { nodes { version } totalCount { value } }
        all: versions(includeArchived: true) { nodes { version } totalCount { value } } } }";

/// Returns the versions of a list, which has this count.
fn versions(list: &Value) -> Vec<u64> {
    let nodes = list["nodes"].as_array().unwrap_or_else(|| panic!("{list}"));
    assert_eq!(list["totalCount"]["value"], nodes.len(), "{list}");
    nodes.iter().map(|node| node["version"].as_u64().unwrap()).collect()
}

/// Checks the reads of a path with three versions, of which these are retired.
async fn check_reads(server: &Server, path: &str, ids: &[String], retired: &[u64]) {
    let read = server.data(READS, json!({ "path": path, "id": ids[0] })).await;
    let live: Vec<u64> = (1..=3).filter(|version| !retired.contains(version)).collect();
    let newest: Vec<u64> = live.last().copied().into_iter().collect();
    assert_eq!(read["newest"]["version"].as_u64(), newest.last().copied(), "{retired:?}");
    assert_eq!((versions(&read["current"]), versions(&read["live"])), (newest.clone(), live.clone()), "{retired:?}");
    assert_eq!(versions(&read["last"]), if newest.is_empty() { vec![3] } else { newest }, "{retired:?}");
    assert_eq!(versions(&read["all"]), [1, 2, 3]);
    let marked = read["all"]["nodes"].as_array().unwrap().iter().filter(|node| node["archivedAt"].is_string());
    assert_eq!(marked.map(|node| node["version"].as_u64().unwrap()).collect::<Vec<_>>(), retired);
    let entry = &read["entry"];
    assert_eq!(entry["archivedAt"].is_string(), retired.contains(&1));
    let newest_first: Vec<u64> = live.into_iter().rev().collect();
    assert_eq!((versions(&entry["versions"]), versions(&entry["all"])), (newest_first, vec![3, 2, 1]), "{retired:?}");
}

async fn execute(server: &Server, input: Value) -> Value {
    let query = "mutation($input: ExecuteInput!) { execute(input: $input) {
        execution { catalogId } userErrors { code field message } } }";
    server.data(query, json!({ "input": input })).await["execute"].take()
}

/// Panics unless the request was refused, because all versions of the path are retired.
fn assert_retired(payload: &Value, field: &Value) {
    let error = &payload["userErrors"][0];
    assert_eq!((&error["code"], &error["field"]), (&json!("NOT_FOUND"), field), "{payload}");
    assert!(error["message"].as_str().unwrap().contains("retired"), "{payload}");
}

#[tokio::test]
async fn retired_versions_are_left_out_by_each_replica_and_are_read_and_run_by_their_ids() {
    let deployment = Deployment::start(1).await;
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    newest_version(&deployment, &one, &other).await;
    repeated_request(&one, &other).await;
    retired_by_id(&one).await;
    all_versions(&deployment, &one).await;
    registrations(&one).await;
    reruns(&one).await;
    subscriptions(&one).await;
}

/// The newest version is the newest that is not retired on each replica.
async fn newest_version(deployment: &Deployment, one: &Server, other: &Server) {
    for by in [By::Noetl, By::Api] {
        let path = format!("flow/{by:?}");
        let ids = register_versions(one, &path, 3).await;
        let mut before: &[u64] = &[];
        for (step, retired) in
            [&[][..], &[3], &[2, 3], &[2], &[1], &[1, 3], &[1, 2, 3], &[1, 2]].into_iter().enumerate()
        {
            for (id, version) in ids.iter().zip(1..) {
                let archived = retired.contains(&version);
                if archived != before.contains(&version) {
                    set_archived(deployment, one, by, id, archived).await;
                }
            }
            before = retired;
            // With a key, the replica first takes the version that it ran last.
            for dedup in [Some(json!({ "key": format!("{path} {step}") })), None] {
                let mut input = json!({ "entry": { "path": path } });
                if let Some(dedup) = dedup {
                    input["dedup"] = dedup;
                }
                let payload = execute(other, input).await;
                let live = ids.iter().zip(1..).filter(|(_, version)| !retired.contains(version));
                match live.last() {
                    Some((newest, _)) => assert_eq!(payload["execution"]["catalogId"], json!(newest), "{retired:?}"),
                    None => assert_retired(&payload, &json!(["entry", "path"])),
                }
            }
            check_reads(other, &path, &ids, retired).await;
        }
    }
}

/// A repeated request gets its execution after its path was retired.
async fn repeated_request(one: &Server, other: &Server) {
    let id = one.register_entry("repeated", &json!({ "kind": "playbook" })).await;
    let repeat = async |server: &Server, key: &str| {
        let query = "mutation($input: ExecuteInput!) { execute(input: $input) {
            executionId outcome userErrors { code field message } } }";
        let input = json!({ "entry": { "path": "repeated" }, "dedup": { "key": key } });
        server.data(query, json!({ "input": input })).await["execute"].take()
    };
    let first = repeat(one, "one").await;
    assert_eq!(first["outcome"], "STARTED", "{first}");
    change(one, ARCHIVE, json!({ "catalogId": id })).await;
    // Only one of the replicas has the path in its cache.
    for server in [one, other] {
        for _ in 0..2 {
            let again = repeat(server, "one").await;
            assert_eq!(
                (&again["outcome"], &again["executionId"]),
                (&json!("DUPLICATE"), &first["executionId"]),
                "{again}"
            );
            assert_retired(&repeat(server, "two").await, &json!(["entry", "path"]));
        }
    }
}

/// A retired version is read and executed by its id.
async fn retired_by_id(server: &Server) {
    let id = server.register_entry("retired_by_id", &json!({ "kind": "playbook" })).await;
    change(server, ARCHIVE, json!({ "catalogId": id })).await;
    let by_version = "{ catalogEntry(by: {pathVersion: {path: \"retired_by_id\", version: 1}}) { catalogId } }";
    assert_eq!(server.data(by_version, Value::Null).await["catalogEntry"]["catalogId"], id);
    let payload = execute(server, json!({ "entry": { "catalogId": id } })).await;
    assert_eq!(payload["execution"]["catalogId"], id, "{payload}");
}

/// Retiring and restoring can be repeated, and can take all versions.
async fn all_versions(deployment: &Deployment, server: &Server) {
    let ids = register_versions(server, "all_versions", 3).await;
    server.register_entry("other", &json!({ "kind": "playbook" })).await;
    let first = change(server, ARCHIVE, json!({ "catalogId": ids[1] })).await;
    let all = json!({ "catalogId": ids[1], "allVersions": true });
    assert_eq!(change(server, ARCHIVE, all.clone()).await, first, "the time is that of the first request");
    check_reads(server, "all_versions", &ids, &[1, 2, 3]).await;
    for _ in 0..2 {
        assert_eq!(change(server, RESTORE, all.clone()).await["archivedAt"], Value::Null);
        check_reads(server, "all_versions", &ids, &[]).await;
    }
    change(server, ARCHIVE, all).await;
    let others = "SELECT count(*) FROM noetl.catalog WHERE path = 'other' AND archived_at IS NULL";
    assert_eq!(deployment.in_cluster(others).await, 1);
}

/// A registration counts retired versions, and is not compared with them.
async fn registrations(server: &Server) {
    let query = "mutation($content: String!) {
        registerCatalogEntry(input: {path: \"registrations\", content: $content, onlyIfChanged: true}) {
            outcome catalogEntry { catalogId version } } }";
    let register = async |content: &str| {
        let payload = server.data(query, json!({ "content": content })).await["registerCatalogEntry"].take();
        (payload["outcome"].clone(), payload["catalogEntry"].clone())
    };
    let (added, first) = register("kind: playbook").await;
    assert_eq!((&added, &first["version"]), (&json!("ADDED"), &json!(1)));
    change(server, ARCHIVE, json!({ "catalogId": first["catalogId"] })).await;
    let (added, second) = register("kind: playbook").await;
    assert_eq!((&added, &second["version"]), (&json!("ADDED"), &json!(2)));
    let (_, third) = register("kind: agent").await;
    change(server, ARCHIVE, json!({ "catalogId": third["catalogId"] })).await;
    // The newest version that is not retired is the second one.
    assert_eq!(register("kind: playbook").await, (json!("UNCHANGED"), second));
    assert_eq!(register("kind: agent").await.1["version"], 4);
}

/// A rerun of a retired version is refused unless it takes the newest.
async fn reruns(server: &Server) {
    let first = server.register_entry("reruns", &json!({ "kind": "playbook", "n": 1 })).await;
    let origin = server.execute(json!({ "path": "reruns" })).await["executionId"].take();
    let send = async |input: Value| {
        let query = "mutation($input: RerunExecutionInput!) { rerunExecution(input: $input) {
            execution { catalogId } outcome userErrors { code field message } } }";
        server.data(query, json!({ "input": input })).await["rerunExecution"].take()
    };
    let rerun =
        async |newest_version: bool| send(json!({ "executionId": origin, "newestVersion": newest_version })).await;
    let keyed = json!({ "executionId": origin, "dedup": { "key": "again" } });
    assert_eq!(send(keyed.clone()).await["outcome"], "STARTED");
    change(server, ARCHIVE, json!({ "catalogId": first })).await;
    for newest_version in [false, true] {
        assert_retired(&rerun(newest_version).await, &json!(["executionId"]));
    }
    assert_eq!(send(keyed).await["outcome"], "DUPLICATE");
    let second = server.register_entry("reruns", &json!({ "kind": "playbook", "n": 2 })).await;
    assert_retired(&rerun(false).await, &json!(["executionId"]));
    assert_eq!(rerun(true).await["execution"]["catalogId"], second);
    change(server, RESTORE, json!({ "catalogId": first })).await;
    assert_eq!(rerun(false).await["execution"]["catalogId"], first);
}

/// A subscription of a retired path keeps its status, and none is made live.
async fn subscriptions(server: &Server) {
    let entry = server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let inbox = server.register("inbox").await["subscription"]["id"].clone();
    let inbox = inbox.as_str().unwrap();
    change(server, ARCHIVE, json!({ "catalogId": entry })).await;
    assert_eq!(server.transition("activate", inbox, None).await["subscription"]["status"], "ACTIVE");
    assert_retired(&server.register("inbox").await, &json!(["path"]));
    assert_eq!(server.transition("deactivate", inbox, None).await["subscription"]["status"], "DEACTIVATED");
    assert_retired(&server.transition("activate", inbox, None).await, &json!(["path"]));
    change(server, RESTORE, json!({ "catalogId": entry })).await;
    assert_eq!(server.transition("activate", inbox, None).await["subscription"]["status"], "ACTIVE");
}
