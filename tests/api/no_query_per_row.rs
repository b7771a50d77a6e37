//! No query for each row ("N+1"): the number of statements of a list does not grow with the number of its rows, with any
//! selection for each row, such as the parent, which all rows read together.

use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

const SMALL: i64 = 2;
const LARGE: i64 = 100;
/// Maximum number of measurements of the large lists. Housekeeping, which runs many statements, begins seldom.
const TRIALS: i64 = 5;
/// More statements than these are too many for the large list. The longer request has more statements of background tasks
/// beside it, and loads two levels one after the other that the shorter one may load together. A statement for every second
/// row adds 49.
const ALLOWED: i64 = 20;

const EXECUTIONS: &str = "query($prefix: String!) { executions(first: 100, filter: {pathPrefix: $prefix}) { nodes {
    id catalogEntry { path }
    parent { execution { id catalogEntry { path } } subscription { id } }
    workload
    result
    eventCount failedSteps progress { stepsCompleted stepsKnown }
    rerunOf { id } startedBy cancelledBy
    children(first: 2) { nodes { id } totalCount { value } }
    events(first: 2) { nodes { id } totalCount { value } }
} } }";

const RERUNS: &str = "query($prefix: String!) { executions(first: 100, filter: {pathPrefix: $prefix}) { nodes {
    id reruns(first: 2) { nodes { id } totalCount { value } }
} } }";

const SUBSCRIPTIONS: &str =
    "query($prefix: String!) { subscriptions(first: 100, filter: {pathPrefix: $prefix}) { nodes {
    id catalogEntry { path }
    events(first: 2) { nodes { id } totalCount { value } }
    executions(first: 2) { nodes { id workload } totalCount(upTo: 5) { value } }
} } }";

const EVENTS: &str = "query($prefix: String!) { events(first: 100, filter: {types: [$prefix]}) { nodes {
    id catalogEntry { path } owner { execution { id workload } subscription { id path } }
} } }";

const OUTBOX: &str = "query($prefix: String!) { outbox { entries(first: 100, filter: {tenantId: $prefix}) { nodes {
    id event { id meta catalogEntry { path } } execution { id workload }
} } } }";

/// Mutation of a list: the claims are its nodes.
const CLAIMS: &str = "mutation($prefix: String!) { claimOutbox(input: {select: {filter: {subjectPrefix: $prefix}}}) { nodes: claims {
    executionId entry { status execution { id status workload steps(first: 2) { nodes { name } } catalogEntry { path workflow { steps { name } } } } }
} } }";

const ENTRIES: &str = "query($prefix: String!) { catalogEntries(first: 100, filter: {pathPrefix: $prefix}) { nodes {
    path workflow { steps { name } } versions(first: 2) { nodes { version content } totalCount { value } }
    executions(first: 2) { nodes { id workload catalogEntry { path } } totalCount(upTo: 5) { value } }
} } }";

/// Writes rows with ids of its own to the shard of each execution.
struct Seed {
    cluster: PgConnection,
    shards: Vec<PgConnection>,
    map: noetl_domain::shard::ShardMap,
    last: i64,
}

impl Seed {
    async fn new(deployment: &Deployment) -> Self {
        let mut shards = Vec::new();
        for shard in 0..deployment.shard_dsns.len() {
            shards.push(deployment.shard(shard).await);
        }
        let map = noetl_domain::shard::ShardMap::even(u16::try_from(shards.len()).unwrap());
        Self { cluster: deployment.cluster().await, shards, map, last: 1 << 40 }
    }

    fn id(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    async fn entry(&mut self, path: &str, kind: &str) -> i64 {
        self.version(path, 1, kind).await
    }

    async fn version(&mut self, path: &str, version: i16, kind: &str) -> i64 {
        let id = self.id();
        sqlx::query(
            "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content) VALUES ($1, $2, $3, $4, 'a: 1')",
        )
        .bind(id)
        .bind(path)
        .bind(version)
        .bind(kind)
        .execute(&mut self.cluster)
        .await
        .unwrap();
        id
    }

    async fn event(&mut self, execution: i64, entry: i64, path: &str, event_type: &str, status: &str) {
        let (event, shard) = (self.id(), self.map.shard_of(noetl_domain::ids::Id::new(execution)));
        sqlx::query(
            "INSERT INTO noetl.event (execution_id, event_id, catalog_id, node_name, event_type, status, context)
             VALUES ($1, $2, $3, $4, $5, $6, '{\"workload\": {\"n\": 1}}')",
        )
        .bind(execution)
        .bind(event)
        .bind(entry)
        .bind(path)
        .bind(event_type)
        .bind(status)
        .execute(&mut self.shards[usize::from(shard)])
        .await
        .unwrap();
    }

    /// Writes an execution with its own catalog entry and two events.
    async fn execution(&mut self, path: &str, parent: Option<i64>) -> i64 {
        let entry = self.entry(path, "playbook").await;
        self.execution_of(entry, path, parent).await
    }

    /// Writes an execution of a catalog entry with two events.
    async fn execution_of(&mut self, entry: i64, path: &str, parent: Option<i64>) -> i64 {
        let execution = self.id();
        let shard = self.map.shard_of(noetl_domain::ids::Id::new(execution));
        sqlx::query(
            "INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path)
             VALUES ($1, $2, $3, 'RUNNING', $4)",
        )
        .bind(execution)
        .bind(entry)
        .bind(parent)
        .bind(path)
        .execute(&mut self.shards[usize::from(shard)])
        .await
        .unwrap();
        for event_type in ["playbook_started", "call.done"] {
            self.event(execution, entry, path, event_type, "STARTED").await;
        }
        execution
    }

    /// Writes two reruns of an execution.
    async fn reruns(&mut self, path: &str, origin: i64) {
        for run in 0..2 {
            let rerun = self.execution(&format!("{path}/{run}"), None).await;
            let shard = usize::from(self.map.shard_of(noetl_domain::ids::Id::new(rerun)));
            let update = sqlx::query("UPDATE noetl.execution SET rerun_of = $1 WHERE execution_id = $2");
            update.bind(origin).bind(rerun).execute(&mut self.shards[shard]).await.unwrap();
        }
    }

    /// Writes a subscription with two events.
    async fn subscription(&mut self, path: &str) -> i64 {
        let entry = self.entry(path, "subscription").await;
        let subscription = self.id();
        for (event_type, state) in [("subscription.registered", "REGISTERED"), ("subscription.activated", "ACTIVE")] {
            self.event(subscription, entry, path, event_type, state).await;
        }
        subscription
    }

    /// Writes the rows of a list: executions with parents of both kinds and two children each, and subscriptions with
    /// two children.
    async fn rows(&mut self, prefix: &str, count: i64) {
        for row in 0..count {
            let parent = match row % 2 {
                0 => self.execution(&format!("parent/{prefix}{row}"), None).await,
                _ => self.subscription(&format!("parent/{prefix}{row}")).await,
            };
            let execution = self.execution(&format!("{prefix}{row}"), Some(parent)).await;
            let subscription = self.subscription(&format!("{prefix}sub/{row}")).await;
            self.reruns(&format!("again/{prefix}{row}"), execution).await;
            for child in 0..2 {
                self.execution(&format!("child/{prefix}{row}/{child}"), Some(execution)).await;
                self.execution(&format!("taken/{prefix}{row}/{child}"), Some(subscription)).await;
            }
        }
    }

    /// Writes catalog entries with two versions each. The newest has two executions.
    async fn entries(&mut self, prefix: &str, count: i64) {
        for row in 0..count {
            let path = format!("{prefix}{row}");
            self.version(&path, 1, "playbook").await;
            let newest = self.version(&path, 2, "playbook").await;
            for _ in 0..2 {
                self.execution_of(newest, &path, None).await;
            }
        }
    }
}

/// Returns the number of statements of a query, and the nodes of its list.
async fn cost(server: &Server, query: &str, prefix: &str) -> (i64, Vec<Value>) {
    let before = server.metric("noetl_sql_statements_total").await;
    let mut data = server.data(query, json!({ "prefix": prefix })).await;
    let after = server.metric("noetl_sql_statements_total").await;
    let mut list = data.as_object_mut().unwrap().values_mut().next().unwrap();
    if list.get("nodes").is_none() {
        list = &mut list["entries"];
    }
    #[expect(clippy::cast_possible_truncation, reason = "a count")]
    let statements = (after - before) as i64;
    (statements, list["nodes"].as_array().unwrap().clone())
}

/// A list, and fields of its items: lists with two items, and paths of objects.
struct List {
    query: &'static str,
    lists: &'static [&'static str],
    objects: &'static [&'static str],
}

/// Returns the number of statements of each list of `count` rows with a prefix.
async fn costs(server: &Server, lists: &[List], prefix: &str, count: i64) -> Vec<i64> {
    let mut costs = Vec::new();
    for list in lists {
        let (statements, nodes) = cost(server, list.query, prefix).await;
        assert_eq!(i64::try_from(nodes.len()).unwrap(), count, "{}", list.query);
        for node in &nodes {
            let is_object = |path: &&str| node.pointer(&format!("/{path}")).is_some_and(Value::is_object);
            assert!(list.objects.iter().all(is_object), "{node}");
            for field in list.lists {
                assert_eq!(node[field]["nodes"].as_array().unwrap().len(), 2, "{node}");
            }
        }
        assert!(statements > 0, "no statement was counted: {}", list.query);
        costs.push(statements);
    }
    costs
}

/// Compares the numbers of statements of a few rows and of many, for lists of the same rows. `write` writes as many rows
/// for a trial, and returns their prefix.
async fn compare(lists: &[List], server: &Server, mut write: impl AsyncFnMut(i64, i64) -> String) {
    let prefix = write(SMALL, 0).await;
    let small = costs(server, lists, &prefix, SMALL).await;
    let mut least = vec![i64::MAX; lists.len()];
    for trial in 0..TRIALS {
        let prefix = write(LARGE, trial).await;
        let large = costs(server, lists, &prefix, LARGE).await;
        least = least.into_iter().zip(large).map(|(least, large)| large.min(least)).collect();
        if least.iter().zip(&small).all(|(least, small)| *least < small + ALLOWED) {
            return;
        }
    }
    let queries: Vec<&str> = lists.iter().map(|list| list.query).collect();
    panic!("statements for {SMALL} rows: {small:?}, for {LARGE}: {least:?}, of {queries:#?}");
}

/// Writes events of executions and of source subscriptions, and outbox rows of executions, each with a log of its own.
async fn write_logs(seed: &mut Seed, prefix: &str, count: i64) {
    for row in 0..count {
        let path = format!("{prefix}{row}");
        let log = match row % 2 {
            0 => seed.execution(&path, None).await,
            _ => seed.subscription(&path).await,
        };
        let entry = seed.entry(&format!("{prefix}event/{row}"), "playbook").await;
        seed.event(log, entry, &path, prefix, "DONE").await;
        let execution = seed.execution(&format!("{prefix}outbox/{row}"), None).await;
        let entry = seed.entry(&format!("{prefix}message/{row}"), "playbook").await;
        seed.event(execution, entry, &path, "call.done", "DONE").await;
        let insert = "INSERT INTO noetl.outbox (event_id, execution_id, payload, tenant_id, subject)
                      VALUES ($1, $2, '{}', $3, $3)";
        let shard = usize::from(seed.map.shard_of(noetl_domain::ids::Id::new(execution)));
        let insert = sqlx::query(insert).bind(seed.last).bind(execution).bind(prefix);
        insert.execute(&mut seed.shards[shard]).await.unwrap();
    }
}

#[tokio::test]
async fn a_list_runs_no_statement_for_each_row() {
    // One shard only: with several shards, the number of shards that a few rows use depends on their ids.
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&QUIET).await;
    let mut seed = Seed::new(&deployment).await;
    let of_rows = [
        List { query: EXECUTIONS, lists: &["children", "events"], objects: &["catalogEntry"] },
        List { query: RERUNS, lists: &["reruns"], objects: &[] },
        List { query: SUBSCRIPTIONS, lists: &["events", "executions"], objects: &["catalogEntry"] },
    ];
    compare(&of_rows, &server, async |count, trial| {
        let prefix = format!("run{count}-{trial}/");
        seed.rows(&prefix, count).await;
        prefix
    })
    .await;
    let of_logs = [
        List { query: EVENTS, lists: &[], objects: &["catalogEntry", "owner"] },
        List { query: OUTBOX, lists: &[], objects: &["event", "execution"] },
        List { query: CLAIMS, lists: &[], objects: &["entry/execution/catalogEntry"] },
    ];
    compare(&of_logs, &server, async |count, trial| {
        let prefix = format!("log{count}-{trial}/");
        write_logs(&mut seed, &prefix, count).await;
        prefix
    })
    .await;
    let of_entries = [List { query: ENTRIES, lists: &["versions", "executions"], objects: &[] }];
    compare(&of_entries, &server, async |count, trial| {
        let prefix = format!("entry{count}-{trial}/");
        seed.entries(&prefix, count).await;
        prefix
    })
    .await;
}
