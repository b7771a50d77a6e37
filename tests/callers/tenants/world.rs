//! A deployment of two shards with the data of two tenants, which the API and other programs wrote.

use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Live, Server, TokenFile, eventually};
use serde_json::{Value, json};

/// Id of the first raw event of a tenant.
const RAW_EVENT: i64 = 500_000_000_000_000_000;

/// Data of one tenant.
pub(super) struct Side {
    /// Name of the tenant.
    pub(super) tenant: &'static str,
    /// Token of a caller of the tenant, with all capabilities.
    pub(super) token: String,
    /// Executions that the API started, one on each shard. Both tenants use the dedup key `order-17` for the first.
    pub(super) executions: Vec<String>,
    /// Child of the first execution, with the dedup key `part-1`.
    pub(super) child: String,
    /// Live source subscription of the path `inbox/<tenant>`.
    pub(super) subscription: String,
    /// Logs that another program wrote, one on each shard, without a row in the list.
    pub(super) logs: Vec<String>,
    /// Executions that another program listed, one on each shard. Their parents belong to the other tenant.
    pub(super) listed: Vec<String>,
}

impl Side {
    /// Returns the ids of all executions of the tenant that the list has.
    pub(super) fn all(&self) -> Vec<String> {
        [&self.executions[..], &self.listed[..], std::slice::from_ref(&self.child)].concat()
    }
}

/// The deployment.
pub(super) struct World {
    pub(super) deployment: Deployment,
    pub(super) server: Server,
    /// Token of a caller without a tenant, with all capabilities.
    pub(super) root: String,
    /// Token of a caller without a tenant that may only read.
    pub(super) viewer: String,
    pub(super) acme: Side,
    pub(super) globex: Side,
    _tokens: TokenFile,
}

impl World {
    pub(super) async fn start() -> Self {
        let (deployment, tokens) = (Deployment::start(2).await, TokenFile::new());
        let root = tokens.add(&["--role", "admin", "--subject", "root"]);
        let viewer = tokens.add(&["--role", "viewer", "--subject", "viewer"]);
        let token = |tenant| tokens.add(&["--role", "admin", "--subject", tenant, "--tenant", tenant]);
        let (acme, globex) = (token("acme"), token("globex"));
        let (name, path) = tokens.setting();
        let server = deployment.replica_with(&[(name, &path), NO_RELAY, ("NOETL_PROJECTOR", "false")]).await;
        deployment.feeds_begun().await;
        register_entry(&server, &root, "flow", "playbook").await;
        let acme = side(&deployment, &server, &root, "acme", acme).await;
        let globex = side(&deployment, &server, &root, "globex", globex).await;
        for (index, own, other) in [(1, &acme, &globex), (2, &globex, &acme)] {
            write_raw(&deployment, index, own, other).await;
        }
        Self { deployment, server, root, viewer, acme, globex, _tokens: tokens }
    }

    /// Sends an operation that must succeed, and returns its data.
    pub(super) async fn data(&self, side: &Side, query: &str) -> Value {
        data(&self.server, &side.token, query).await
    }

    /// Carries out a mutation and returns the code of its first user error, or `DONE`.
    pub(super) async fn outcome(&self, side: &Side, mutation: &str) -> String {
        let query = format!("mutation {{ payload: {mutation} {{ userErrors {{ code }} }} }}");
        let payload = self.data(side, &query).await["payload"].take();
        payload["userErrors"][0]["code"].as_str().unwrap_or("DONE").to_owned()
    }

    /// Opens a live subscription of a tenant.
    pub(super) async fn live(&self, side: &Side, query: &str) -> Live {
        let header = format!("Bearer {}", side.token);
        let mut live = Live::init(&self.server.url, &[("Authorization", &header)], Value::Null).await.unwrap();
        assert_eq!(live.message().await.unwrap()["type"], "connection_ack");
        live.subscribe(query, Value::Null).await.unwrap();
        live
    }

    /// Registers a new source subscription of a tenant, and returns its id.
    pub(super) async fn subscribe(&self, side: &Side, path: &str) -> String {
        register_entry(&self.server, &self.root, path, "subscription").await;
        register(&self.server, &side.token, path).await
    }

    /// Returns the number of rows on all shards that a query counts.
    pub(super) async fn count(&self, query: &str) -> i64 {
        self.deployment.sum_over_shards(query).await
    }
}

/// Returns the texts of a list.
pub(super) fn texts(list: &Value, field: &str) -> Vec<String> {
    let text = |item: &Value| item[field].as_str().unwrap_or_else(|| panic!("{item}")).to_owned();
    list.as_array().unwrap_or_else(|| panic!("{list}")).iter().map(text).collect()
}

/// Returns a list of ids as GraphQL text.
pub(super) fn list(ids: &[String]) -> String {
    json!(ids).to_string()
}

pub(super) async fn data(server: &Server, token: &str, query: &str) -> Value {
    let mut response = server.send_as(token, query, Value::Null).await;
    assert_eq!(response.get("errors"), None, "{query}");
    response["data"].take()
}

pub(super) async fn register_entry(server: &Server, root: &str, path: &str, kind: &str) {
    let content = format!("kind: {kind}");
    let query = format!(
        "mutation {{ registerCatalogEntry(input: {{ path: \"{path}\", content: \"{content}\" }}) {{ userErrors {{ code }} }} }}"
    );
    let query = query.as_str();
    eventually("the server knows the token", async || {
        let response = server.send_as(root, query, Value::Null).await;
        (response["data"]["registerCatalogEntry"]["userErrors"] == json!([])).then_some(())
    })
    .await;
}

async fn register(server: &Server, token: &str, path: &str) -> String {
    let query =
        format!("mutation {{ registerSubscription(input: {{ path: \"{path}\" }}) {{ subscription {{ id }} }} }}");
    data(server, token, &query).await["registerSubscription"]["subscription"]["id"].as_str().unwrap().to_owned()
}

/// Writes the data of a tenant through the API.
async fn side(deployment: &Deployment, server: &Server, root: &str, tenant: &'static str, token: String) -> Side {
    let request = "{ entry: { path: \"flow\" }, labels: [{ name: \"team\", value: \"a\" }] }, ".repeat(12);
    let batch = format!(
        "mutation {{ executeBatch(input: {{ requests: [{{ entry: {{ path: \"flow\" }}, dedup: {{ key: \"order-17\" }} }}, {request}] }}) {{
            results {{ execution {{ id shard }} userErrors {{ code }} }} }} }}"
    );
    let results = data(server, &token, &batch).await["executeBatch"]["results"].take();
    let started = results.as_array().unwrap().iter().map(|result| &result["execution"]);
    let started: Vec<(u64, String)> = started
        .map(|execution| (execution["shard"].as_u64().unwrap(), execution["id"].as_str().unwrap().to_owned()))
        .collect();
    let (shard, first) = started[0].clone();
    let other = started.iter().find(|(other, _)| *other != shard).expect("both shards have an execution").1.clone();
    let child = format!(
        "mutation {{ execute(input: {{ entry: {{ path: \"flow\" }}, parentExecutionId: \"{first}\", dedup: {{ key: \"part-1\" }} }}) {{
            executionId }} }}"
    );
    let child = data(server, &token, &child).await["execute"]["executionId"].as_str().unwrap().to_owned();
    register_entry(server, root, &format!("inbox/{tenant}"), "subscription").await;
    let subscription = register(server, &token, &format!("inbox/{tenant}")).await;
    let from = if tenant == "acme" { 1_000_000 } else { 2_000_000 };
    let raw = |offset: i64| (0..2).map(move |shard| (shard, from + offset));
    let ids = |offset| raw(offset).map(|(shard, from)| deployment.ids_on(shard, from, 1)[0].to_string()).collect();
    Side { tenant, token, executions: vec![first, other], child, subscription, logs: ids(0), listed: ids(1000) }
}

/// Writes rows of a tenant as another program does, on both shards.
async fn write_raw(deployment: &Deployment, index: i64, own: &Side, other: &Side) {
    for shard in 0..2 {
        let (tenant, log, listed) = (own.tenant, &own.logs[shard], &own.listed[shard]);
        let event = RAW_EVENT + index * 1000;
        // NoETL's own server writes the tenant of an outbox row to the payload only.
        let rows = format!(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, tenant_id)
             VALUES ({log}, {event}, 'playbook_started', 'flow', '{tenant}'),
                    ({listed}, {event}, 'playbook_started', 'flow', '{tenant}');
             INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path, tenant_id)
             VALUES ({listed}, 0, {parent}, 'RUNNING', 'flow', '{tenant}');
             INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
             VALUES ({listed}, {event}, 'noetl.executions.shared.{listed}', '{{\"tenant_id\": \"{tenant}\"}}')",
            parent = other.executions[0],
        );
        deployment.on_shard(shard, &rows).await;
        // An event in the log of the other tenant.
        let id = noetl_domain::ids::Id::new(other.executions[0].parse().unwrap());
        if usize::from(noetl_domain::shard::ShardMap::even(2).shard_of(id)) == shard {
            let mixed = format!(
                "INSERT INTO noetl.event (execution_id, event_id, event_type, tenant_id)
                 VALUES ({id}, {event}, 'call.done', '{tenant}')"
            );
            deployment.on_shard(shard, &mixed).await;
        }
    }
}
