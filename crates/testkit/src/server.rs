//! A replica as a process, with its API.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{Live, WAIT_TIMEOUT, eventually, memory};

/// Returns the path of the server's program: `NOETL_GRAPHQL_BIN`, else the one that cargo builds with the same profile into
/// a folder above the test's program (`target/debug/noetl-graphql` for `target/debug/deps/feed-…`). Cargo does not build
/// it for a test of another package, so it panics if a source is newer.
pub fn binary() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(program) = std::env::var_os("NOETL_GRAPHQL_BIN") {
            return program.into();
        }
        let this = std::env::current_exe().unwrap();
        let program = this.ancestors().skip(1).map(|folder| folder.join("noetl-graphql")).find(|path| path.is_file());
        let program = program.expect("noetl-graphql is missing; build it with `cargo build`");
        if let Some(source) = newer_source(&program) {
            panic!("noetl-graphql is older than {source}; build it with `cargo build`");
        }
        program
    });
    &PROGRAM
}

/// Returns a source that is newer than a program. Cargo lists the sources beside the program, unless it built the program
/// only for the benchmarks of its package, which never run with an older one.
fn newer_source(program: &Path) -> Option<String> {
    let written = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    let built = written(program).unwrap();
    let sources = program.with_extension("d");
    if !sources.is_file() {
        return None;
    }
    let listed = std::fs::read_to_string(sources).unwrap();
    let is_newer = |path: &str| Path::new(path).is_file() && written(Path::new(path)).is_ok_and(|time| time > built);
    listed.split_whitespace().find(|path| is_newer(path)).map(str::to_owned)
}

/// Returns an HTTP client with connections of its own, for servers without TLS. It trusts no certificate: reading those
/// of the system takes longer than most requests.
pub fn http_client() -> reqwest::Client {
    reqwest::Client::builder().tls_certs_only([]).build().unwrap()
}

/// A replica. Dropping the value kills its process.
pub struct Server {
    child: Child,
    /// Base URL, such as `http://127.0.0.1:40001`.
    pub url: String,
    client: reqwest::Client,
}

impl Server {
    /// Starts a command that serves and waits until the server is ready.
    pub async fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(WAIT_TIMEOUT, lines.next_line()).await.unwrap().unwrap();
        // With NOETL_LOG_FORMAT=json, the text is in a JSON line.
        let url =
            line.as_deref().and_then(|line| line.split("listening on ").nth(1)).expect("the server did not start");
        let url = url.split('"').next().unwrap_or_default().to_owned();
        Self::when_ready(child, url).await
    }

    /// Waits until a process that serves at an address is ready.
    pub async fn when_ready(child: Child, url: String) -> Self {
        let server = Self { child, url, client: http_client() };
        server.ready().await;
        server
    }

    /// Waits until the server is ready.
    pub async fn ready(&self) {
        eventually("the server is ready", async || self.get("/readyz").await.ok()?.status().is_success().then_some(()))
            .await;
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process runs")
    }

    /// Returns the largest resident memory that the process has had, in bytes (Linux).
    pub fn peak_memory(&self) -> u64 {
        memory::peak(self.pid()).expect("the process runs")
    }

    /// Returns the resident memory of the process, in MiB (Linux).
    pub fn resident_mib(&self) -> f64 {
        memory::resident_mib(self.pid()).expect("the process runs")
    }

    /// Requests a path with GET.
    pub async fn get(&self, path: &str) -> reqwest::Result<reqwest::Response> {
        self.client.get(format!("{}{path}", self.url)).timeout(WAIT_TIMEOUT).send().await
    }

    /// Sends an operation with a bearer token and returns the whole response.
    pub async fn send_as(&self, token: &str, query: &str, variables: Value) -> Value {
        self.request(query, &variables).bearer_auth(token).send().await.unwrap().json().await.unwrap()
    }

    /// Sends an operation and returns the whole response.
    pub async fn send(&self, query: &str, variables: Value) -> reqwest::Result<Value> {
        self.request(query, &variables).send().await?.json().await
    }

    fn request(&self, query: &str, variables: &Value) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}/graphql", self.url)).timeout(WAIT_TIMEOUT);
        request.json(&json!({ "query": query, "variables": variables }))
    }

    /// Sends an operation that must succeed and returns its data.
    pub async fn data(&self, query: &str, variables: Value) -> Value {
        let response = self.send(query, variables).await.unwrap();
        assert_eq!(response.get("errors"), None, "{query}");
        response["data"].clone()
    }

    /// Opens a live subscription.
    pub async fn live(&self, query: &str, variables: Value) -> Live {
        Live::open(&self.url, query, variables).await
    }

    /// Kills the process with SIGKILL.
    pub async fn kill_9(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub async fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(WAIT_TIMEOUT, self.child.wait()).await.unwrap().unwrap()
    }

    /// Returns the status with which the process has ended; `None` while it runs.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Sends a signal to the process, such as `SIGSTOP` to freeze it or `SIGCONT` to continue it.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Returns the value of a metric without labels, or 0 if the metric does not exist.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Registers a catalog entry and returns its id.
    pub async fn register_entry(&self, path: &str, content: &Value) -> String {
        let query = "mutation($path: String!, $content: String!) {
            registerCatalogEntry(input: {path: $path, content: $content}) { catalogEntry { id: catalogId } userErrors { message } }
        }";
        let data = self.data(query, json!({ "path": path, "content": content.to_string() })).await;
        let payload = &data["registerCatalogEntry"];
        payload["catalogEntry"]["id"].as_str().unwrap_or_else(|| panic!("{payload}")).to_owned()
    }

    /// Registers a path as a source subscription and returns the payload.
    pub async fn register(&self, path: &str) -> Value {
        let query = "mutation($path: String!) { registerSubscription(input: {path: $path}) {
            subscription { id status lastEventId availableActions } userErrors { code message field retryable } } }";
        self.data(query, json!({ "path": path })).await["registerSubscription"].clone()
    }

    /// Registers the catalog entry of a source subscription, and the subscription. Returns the subscription's id.
    pub async fn subscribe(&self, path: &str) -> String {
        self.register_entry(path, &json!({ "kind": "subscription" })).await;
        self.register(path).await["subscription"]["id"].as_str().unwrap().to_owned()
    }

    /// Carries out a transition such as `pause` and returns the payload.
    pub async fn transition(&self, action: &str, id: &str, expected: Option<&str>) -> Value {
        let field = format!("{action}Subscription");
        let query = format!(
            "mutation($input: SubscriptionTransitionInput!) {{ {field}(input: $input) {{
                subscription {{ id status lastEventId availableActions }}
                userErrors {{ code message field retryable }} }} }}"
        );
        let mut input = json!({ "subscriptionId": id });
        if let Some(expected) = expected {
            input["expectedLastEventId"] = expected.into();
        }
        self.data(&query, json!({ "input": input })).await[field].clone()
    }

    /// Starts an execution and returns the payload. The input is as for [`execute_input`].
    pub async fn execute(&self, input: Value) -> Value {
        let query = "mutation($input: ExecuteInput!) { execute(input: $input) {
            execution { id status path shard } executionId outcome differs userErrors { code message field retryable } } }";
        self.data(query, json!({ "input": execute_input(input) })).await["execute"].clone()
    }

    /// Starts an execution, which must not be a duplicate, and returns its id. The input is as for [`execute_input`].
    pub async fn started(&self, input: Value) -> String {
        let payload = self.execute(input).await;
        assert_eq!(payload["outcome"], "STARTED", "{payload}");
        payload["execution"]["id"].as_str().unwrap().to_owned()
    }
}

/// Returns an `ExecuteInput`. `path` or `catalogId` of the given input become its `entry`.
#[must_use]
pub fn execute_input(mut input: Value) -> Value {
    for key in ["path", "catalogId"] {
        if let Some(value) = input.as_object_mut().and_then(|fields| fields.remove(key)) {
            input["entry"][key] = value;
        }
    }
    input
}

/// Sleeps for a time that is part of a scenario, such as the length of a window. Not for waiting until a condition is
/// true.
pub async fn sleep_in_scenario(duration: Duration) {
    tokio::time::sleep(duration).await;
}
