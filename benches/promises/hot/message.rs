//! A whole message: a source starts an execution, a worker receives it and reports 21 events, and a live subscription
//! shows the end. The source and the workers are in this process.
//!
//! A worker that was written for NoETL receives the message from the relay, and reads the execution before each step: 20
//! calls for each message. A worker that claims takes the execution with the claim and the state with each report.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use noetl_testkit::{Live, Server, eventually};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

use super::http::Http;
use super::load::{Caller, Pace, Sample, Side, in_turns};
use super::{Ids, Stage, script};
use crate::report::{Comparison, Limit, Report, Spread};

const PLAYBOOK: &str = "bench/message";
const IN_FLIGHT: usize = 64;
/// Maximum number of messages that one call claims.
const CLAIMED: usize = 10;
/// Each measurement takes so many times the time of other ones, because a message takes long.
const LONGER: u32 = 2;

/// Messages whose end a live subscription has not shown, or no source waits for yet.
#[derive(Default)]
struct Ends {
    by_execution: Mutex<HashMap<i64, End>>,
    count: AtomicUsize,
}

enum End {
    Awaited(oneshot::Sender<()>),
    Seen,
}

impl Ends {
    fn seen(&self, execution: i64) {
        let mut ends = self.by_execution.lock().unwrap();
        match ends.remove(&execution) {
            Some(End::Awaited(source)) => drop(source.send(())),
            Some(End::Seen) | None => drop(ends.insert(execution, End::Seen)),
        }
    }

    async fn until_seen(&self, execution: i64) {
        let awaited = {
            let mut ends = self.by_execution.lock().unwrap();
            if let Some(End::Seen) = ends.remove(&execution) {
                None
            } else {
                let (source, awaited) = oneshot::channel();
                ends.insert(execution, End::Awaited(source));
                Some(awaited)
            }
        };
        if let Some(awaited) = awaited {
            awaited.await.unwrap();
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A source that sends one message at a time and waits until its end is seen.
pub struct Source {
    http: Http,
    ids: Arc<Ids>,
    subscription: String,
    ends: Arc<Ends>,
    started: Arc<Notify>,
}

impl Caller for Source {
    async fn call(&mut self) -> usize {
        let n = self.ids.next();
        let subscription = &self.subscription;
        let body = format!(
            r#"{{"query":"mutation Execute($input: ExecuteInput!) {{ execute(input: $input) {{ execution {{ id }} outcome userErrors {{ message retryable }} }} }}","variables":{{"input":{{"entry":{{"path":"{PLAYBOOK}"}},"parentExecutionId":"{subscription}","workload":{{"order":{{"id":"order-{n}","items":[{{"sku":"sku-7","count":2}}]}}}},"dedup":{{"key":"order-{n}"}}}}}}}}"#
        );
        let response = self.http.post(&body).await;
        let id = response.split_once(r#""execution":{"id":""#).unwrap_or_else(|| panic!("{response}")).1;
        let id = id.split_once('"').unwrap().0.parse().unwrap();
        self.started.notify_one();
        self.ends.until_seen(id).await;
        1
    }
}

/// Runs executions whose ids it receives.
async fn work(url: String, ids: Arc<Ids>, executions: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<i64>>>) {
    let mut http = Http::connect(&url, "/graphql").await;
    let reports = script::reports();
    loop {
        let Some(execution) = executions.lock().await.recv().await else { return };
        let read = format!(
            r#"{{"query":"query Run($id: ID!) {{ execution(id: $id) {{ id status workload catalogEntry {{ document }} events(last: 1) {{ nodes {{ eventId }} }} }} }}","variables":{{"id":"{execution}"}}}}"#
        );
        let response = http.post(&read).await;
        assert!(response.contains(r#""workflow""#), "{response}");
        let state = format!(
            r#"{{"query":"query State($id: ID!) {{ execution(id: $id) {{ status steps(first: 100) {{ nodes {{ name status }} }} }} }}","variables":{{"id":"{execution}"}}}}"#
        );
        for (index, step) in reports.iter().enumerate() {
            // The end is no step.
            if index + 1 < reports.len() {
                let response = http.post(&state).await;
                assert!(response.contains(r#""steps""#), "{response}");
            }
            for report in step {
                let events: Vec<_> =
                    report.iter().map(|reported| script::event(*reported, execution, ids.next())).collect();
                let query = "mutation Project($events: [EventInput!]!) { projectEvents(input: {events: $events}) { rejected { userErrors { message retryable } } userErrors { message retryable } } }";
                let body = json!({ "query": query, "variables": { "events": events } }).to_string();
                let response = http.post(&body).await;
                assert!(response.contains(r#""rejected":[]"#), "{response}");
            }
        }
    }
}

/// A claimed message.
struct Claim {
    entry: i64,
    lease: String,
    execution: i64,
}

/// Runs the executions of claims that it receives.
async fn work_on_claims(url: String, ids: Arc<Ids>, claims: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Claim>>>) {
    let mut http = Http::connect(&url, "/graphql").await;
    let reports = script::reports_of_steps();
    loop {
        let Some(Claim { entry, lease, execution }) = claims.lock().await.recv().await else { return };
        for (index, report) in reports.iter().enumerate() {
            let events: Vec<_> =
                report.iter().map(|reported| script::event(*reported, execution, ids.next())).collect();
            let query = "mutation Report($events: [EventInput!]!, $claim: OutboxClaimRef!, $settle: Boolean!) { projectEvents(input: {events: $events, claim: $claim, settle: $settle}) { executions { status steps(first: 100) { nodes { name status } } } rejected { userErrors { message retryable } } userErrors { message retryable } } }";
            let claim = json!({ "entryId": entry.to_string(), "lease": lease });
            let settle = index + 1 == reports.len();
            let variables = json!({ "events": events, "claim": claim, "settle": settle });
            let response = http.post(&json!({ "query": query, "variables": variables }).to_string()).await;
            assert!(response.contains(r#""steps""#) && response.contains(r#""rejected":[]"#), "{response}");
        }
    }
}

/// Claims messages for the workers when sources have started executions.
async fn claim(url: String, started: Arc<Notify>, claims: mpsc::UnboundedSender<Claim>) {
    let mut http = Http::connect(&url, "/graphql").await;
    let query = "mutation Claim($limit: Int!) { claimOutbox(input: {select: {all: true}, limit: $limit, leaseSeconds: 60}) { claims { entryId lease executionId entry { execution { status workload catalogEntry { document } } } } userErrors { message retryable } } }";
    let body = json!({ "query": query, "variables": { "limit": CLAIMED } }).to_string();
    loop {
        let response: Value = serde_json::from_str(http.post(&body).await).unwrap();
        assert_eq!(response["data"]["claimOutbox"]["userErrors"], json!([]), "{response}");
        let claimed = response["data"]["claimOutbox"]["claims"].as_array().unwrap_or_else(|| panic!("{response}"));
        for one in claimed {
            let number = |field: &str| one[field].as_str().unwrap().parse().unwrap();
            let lease = one["lease"].as_str().unwrap().to_owned();
            let claim = Claim { entry: number("entryId"), lease, execution: number("executionId") };
            if claims.send(claim).is_err() {
                return;
            }
        }
        if claimed.len() < CLAIMED {
            started.notified().await;
        }
    }
}

/// Passes the executions of the broker's messages to the workers.
async fn deliver(nats: String, executions: mpsc::UnboundedSender<i64>, ready: oneshot::Sender<()>) {
    let client = async_nats::connect(nats).await.unwrap();
    let mut messages = client.subscribe("noetl.executions.>").await.unwrap();
    client.flush().await.unwrap();
    ready.send(()).unwrap();
    while let Some(message) = messages.next().await {
        // An acknowledgement of the stream has another subject; the execution is the last part of this one.
        let id = message.subject.rsplit('.').next().unwrap().parse().unwrap();
        if executions.send(id).is_err() {
            return;
        }
    }
}

/// Notes the ends that a live subscription shows.
async fn watch(mut live: Live, ends: Arc<Ends>) {
    while let Some(text) = live.text_at_any_time().await {
        if let Some((_, id)) = text.split_once(r#""executionId":""#) {
            ends.seen(id.split_once('"').unwrap().0.parse().unwrap());
        }
    }
}

async fn subscribe(server: &Server) -> Live {
    let query = "subscription { events(filter: {types: [\"playbook.completed\"]}) {
        __typename ... on EventDelivery { event { executionId } } } }";
    let mut live = server.live(query, json!({})).await;
    while live.next().await.unwrap()["events"]["__typename"] != "CaughtUp" {}
    live
}

/// How workers receive messages, and report.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The relay delivers the messages to workers that were written for NoETL.
    Relay,
    /// Workers claim the messages. The relay of the stage is off.
    Claims,
}

/// Starts the workers and the live subscription. Returns the sources, and the tasks, which end when they are dropped.
pub async fn sources(stage: &Stage, protocol: Protocol) -> (Vec<Source>, JoinSet<()>) {
    let server = &stage.server;
    server.register_entry(PLAYBOOK, &script::playbook()).await;
    server.register_entry("bench/source", &json!({ "kind": "subscription", "source": "webhook" })).await;
    let registered = server.register("bench/source").await;
    let subscription = registered["subscription"]["id"].as_str().unwrap_or_else(|| panic!("{registered}")).to_owned();
    server.transition("activate", &subscription, None).await;
    let (ends, started) = (Arc::new(Ends::default()), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    match protocol {
        Protocol::Relay => {
            let (sender, executions) = mpsc::unbounded_channel();
            let executions = Arc::new(tokio::sync::Mutex::new(executions));
            let (ready, is_ready) = oneshot::channel();
            tasks.spawn(deliver(stage.deployment.nats.url(), sender, ready));
            is_ready.await.unwrap();
            for _ in 0..IN_FLIGHT {
                tasks.spawn(work(server.url.clone(), stage.ids.clone(), executions.clone()));
            }
        }
        Protocol::Claims => {
            let (sender, claims) = mpsc::unbounded_channel();
            let claims = Arc::new(tokio::sync::Mutex::new(claims));
            tasks.spawn(claim(server.url.clone(), started.clone(), sender));
            for _ in 0..IN_FLIGHT {
                tasks.spawn(work_on_claims(server.url.clone(), stage.ids.clone(), claims.clone()));
            }
        }
    }
    tasks.spawn(watch(subscribe(server).await, ends.clone()));
    let mut sources = Vec::new();
    for _ in 0..IN_FLIGHT {
        let http = Http::connect(&server.url, "/graphql").await;
        let (ids, subscription) = (stage.ids.clone(), subscription.clone());
        sources.push(Source { http, ids, subscription, ends: ends.clone(), started: started.clone() });
    }
    (sources, tasks)
}

/// Measures messages of one protocol.
pub async fn measure(stage: &Stage, protocol: Protocol, report: &mut Report) {
    let server = &stage.server;
    let (name, work, at_least, server_cpu, postgres_cpu, p99) = match protocol {
        Protocol::Relay => {
            ("a whole message in 20 calls", "a whole message of 22 events in 20 calls", 300.0, 2.5, 3.0, 500.0)
        }
        Protocol::Claims => {
            let work = "a whole message of 22 events, worker that claims";
            ("a whole message, worker that claims", work, 500.0, 1.5, 1.8, 300.0)
        }
    };
    let (sources, tasks) = sources(stage, protocol).await;
    let ends = sources[0].ends.clone();
    let mut database = PgConnection::connect(&stage.deployment.cluster_dsn).await.unwrap();
    sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()")
        .execute(&mut database)
        .await
        .unwrap();
    let begun = Counts::of(server).await;
    let pace = Pace { time: stage.pace.time * LONGER, ..stage.pace };
    let sides = &mut [Side::new("a whole message", stage.of_server(), sources)];
    let (side, samples) = in_turns(pace, sides, async || ()).await.remove(0);
    let messages = ends.count.load(Ordering::Relaxed) as f64;
    let ended = Counts::of(server).await;
    print_largest_statements(&mut database, messages).await;
    let median = |of: fn(&Sample) -> f64| Spread::of(samples.iter().map(of)).median;
    let figures = [
        ("CPU of the server", median(|one| one.worker_cpu / 1000.0), "ms each", Some(Limit::AtMost(server_cpu))),
        ("CPU of Postgres", median(|one| one.postgres_cpu / 1000.0), "ms each", Some(Limit::AtMost(postgres_cpu))),
        ("p99", median(|one| one.p99), "ms", Some(Limit::AtMost(p99))),
        ("requests", (ended.requests - begun.requests) / messages, "each", None),
        ("statements", (ended.statements - begun.statements) / messages, "each", None),
    ];
    for (measure, value, unit, limit) in figures {
        report.figure(&format!("{name}: {measure}"), value, unit, limit);
    }
    let comparison = Comparison {
        rate: Some(Limit::AtLeast(at_least)),
        ..stage.comparison("message", work, "messages/s", IN_FLIGHT)
    };
    report.compared(comparison, vec![(side, samples)]);
    until_all_completed(server, messages).await;
    drop(tasks);
}

/// Counters of a server.
struct Counts {
    requests: f64,
    statements: f64,
}

impl Counts {
    async fn of(server: &Server) -> Self {
        let text = server.get("/metrics").await.unwrap().text().await.unwrap();
        let of_operation = |line: &str| {
            let (_, value) = line.strip_prefix("graphql_operation_duration_seconds_count{")?.rsplit_once(' ')?;
            Some(value.parse::<f64>().unwrap())
        };
        let requests = text.lines().filter_map(of_operation).sum();
        Self { requests, statements: server.metric("noetl_sql_statements_total").await }
    }
}

/// Measures messages beside those of a deployment that keeps neither the history of executions nor the index of labels.
pub async fn measure_triggers(stage: &Stage, without: &Stage, report: &mut Report) {
    let drop_triggers = "DROP TRIGGER execution_history_insert ON noetl.execution;
                         DROP TRIGGER execution_history_update ON noetl.execution;
                         DROP TRIGGER execution_history_delete ON noetl.execution;
                         DROP TRIGGER execution_index_labels ON noetl.execution;
                         DROP TRIGGER execution_change_labels ON noetl.execution;
                         DROP TRIGGER execution_drop_labels ON noetl.execution";
    without.deployment.on_shard(0, drop_triggers).await;
    let (with_all, tasks) = sources(stage, Protocol::Relay).await;
    let (with_none, other_tasks) = sources(without, Protocol::Relay).await;
    let sides = &mut [
        Side::new("a whole message", stage.of_server(), with_all),
        Side::new("without the history and the index of labels", without.of_server(), with_none),
    ];
    let pace = Pace { time: stage.pace.time * LONGER, ..stage.pace };
    let work = "a whole message, with the history and the index of labels";
    let comparison =
        Comparison { ratio: Some(Limit::AtLeast(0.95)), ..stage.comparison("triggers", work, "messages/s", IN_FLIGHT) };
    report.compared(comparison, in_turns(pace, sides, async || ()).await);
    drop((tasks, other_tasks));
}

/// Prints the statements that take the most time of Postgres, with their calls and times for each message.
async fn print_largest_statements(database: &mut PgConnection, messages: f64) {
    let rows: Vec<(String, f64, f64, f64)> = sqlx::query_as(
        r"SELECT left(regexp_replace(query, '\s+', ' ', 'g'), 100), calls::float8, total_plan_time, total_exec_time
          FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
          WHERE datname LIKE 't%' ORDER BY total_plan_time + total_exec_time DESC LIMIT 12",
    )
    .fetch_all(database)
    .await
    .unwrap();
    for (text, calls, planning, execution) in rows {
        let [calls, planning, execution] = [calls, planning, execution].map(|total| total / messages);
        println!("{calls:.2} calls, planning {planning:.3} ms, execution {execution:.3} ms: {text}");
    }
}

/// Waits until the list shows every execution of a message as completed.
async fn until_all_completed(server: &Server, messages: f64) {
    eventually("all executions are completed in the list", async || {
        let query = r#"{ executionStats(filter: {path: "bench/message"}) { byStatus { status count } } }"#;
        let stats = server.data(query, json!({})).await;
        let groups = stats["executionStats"]["byStatus"].as_array().unwrap();
        let completed = groups.iter().find(|group| group["status"] == "COMPLETED")?;
        let count: f64 = completed["count"].as_f64().or_else(|| completed["count"].as_str()?.parse().ok())?;
        (count >= messages.min(9_000.0)).then_some(())
    })
    .await;
}
