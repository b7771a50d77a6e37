//! Benchmark of 10,000 readers that each follow one execution: the cost of an event, and the time until all of them
//! have resumed after a restart. The readers share sockets, because a socket may carry 100 subscriptions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures::{StreamExt, stream};
use noetl_testkit::{Deployment, Live, Server};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::report::{Limit, Report, cpu_seconds, quantile};

const READERS: usize = 10_000;
/// Number of readers of the run to which the other one is compared.
const FEW: usize = 100;
const PER_SOCKET: usize = 100;
/// Interval of the events: 500 per second.
const GAP: Duration = Duration::from_millis(2);
const EVENTS: i64 = 5_000;
/// Maximum number of events while the readers resume: a minute of them.
const EVENTS_MEANWHILE: i64 = 30_000;
const FIRST: i64 = 1 << 40;
/// Maximum time of one part.
const GIVE_UP: Duration = Duration::from_mins(2);

const QUERY: &str = "subscription($id: ID!, $start: EventStart) {
    events(filter: {executionIds: [$id]}, start: $start) {
        __typename ... on EventDelivery { cursor event { n: eventId } } ... on CaughtUp { cursor } } }";

/// Times of the commits of events, by id.
type Commits = HashMap<i64, Instant>;

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(2).await;
    let leader = deployment.replica_with(&[("NOETL_PROJECTOR", "false"), ("NOETL_OUTBOX_RELAY", "false")]).await;
    deployment.feeds_begun().await;
    let executions: Vec<Execution> = (0..2)
        .flat_map(|shard| {
            deployment.ids_on(shard, FIRST, READERS / 2).into_iter().map(move |id| Execution { shard, id })
        })
        .collect();
    let server = replica(&deployment).await;
    let few = follow(&deployment, &server, &executions[READERS / 2 - FEW / 2..][..FEW], FIRST).await;
    let many = follow(&deployment, &server, &executions, 2 * FIRST).await;
    let name = "10,000 readers of one execution each, 500 events/s";
    report.figure(&format!("{name}: server's CPU"), many.cores, "cores", None);
    report.figure(&format!("{name}: CPU / with 100 readers"), many.cores / few.cores, "ratio", None);
    report.quantiles(&format!("{name}: commit to reader"), many.seconds, None);
    drop(server);
    resume(&deployment, &executions, many.cursors, report).await;
    drop(leader);
}

/// An execution that one reader follows.
#[derive(Debug, Clone, Copy)]
struct Execution {
    shard: usize,
    id: i64,
}

/// Result of a run.
struct Followed {
    cores: f64,
    /// Times from commit to reader.
    seconds: Vec<f64>,
    /// Last cursor of each reader, by execution id.
    cursors: HashMap<i64, String>,
}

/// Starts a replica that only delivers events. All readers have the same address.
async fn replica(deployment: &Deployment) -> Server {
    let settings = [
        ("NOETL_EVENT_STREAM_ENABLED", "false"),
        ("NOETL_PROJECTOR", "false"),
        ("NOETL_OUTBOX_RELAY", "false"),
        ("NOETL_CALLER_SHARE_PERCENT", "100"),
    ];
    deployment.replica_with(&settings).await
}

/// Writes [`EVENTS`] events, each of which one reader follows, and measures the readers.
async fn follow(deployment: &Deployment, server: &Server, executions: &[Execution], first: i64) -> Followed {
    let sockets = connect(server, executions, &HashMap::new()).await;
    let (cpu, begun) = (cpu_seconds(server), Instant::now());
    let mut reading = JoinSet::new();
    let done = Arc::new(AtomicBool::new(false));
    for socket in sockets {
        reading.spawn(socket.read(Arc::clone(&done)));
    }
    let commits = write(deployment, executions, first..first + EVENTS, &AtomicBool::new(false)).await;
    let cores = (cpu_seconds(server) - cpu) / begun.elapsed().as_secs_f64();
    // The last events are on their way.
    tokio::time::sleep(Duration::from_secs(2)).await;
    done.store(true, Ordering::Relaxed);
    let (mut seconds, mut cursors) = (Vec::new(), HashMap::new());
    for socket in reading.join_all().await {
        let latency = |(event, at): &(i64, Instant)| at.saturating_duration_since(commits[event]).as_secs_f64();
        seconds.extend(socket.arrived.iter().map(latency));
        cursors.extend(socket.cursors);
    }
    assert_eq!(seconds.len(), commits.len(), "each event reaches its reader");
    Followed { cores, seconds, cursors }
}

/// Measures the time until all readers have resumed on a new replica, and the tailer meanwhile, during writes.
async fn resume(deployment: &Deployment, executions: &[Execution], cursors: HashMap<i64, String>, report: &mut Report) {
    let done = Arc::new(AtomicBool::new(false));
    let tailers = [tail(deployment, 0, Arc::clone(&done)).await, tail(deployment, 1, Arc::clone(&done)).await];
    let writing = write(deployment, executions, 3 * FIRST..3 * FIRST + EVENTS_MEANWHILE, &done);
    let resuming = async {
        // Some events are committed while no replica delivers them.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let server = replica(deployment).await;
        let begun = Instant::now();
        let sockets = tokio::time::timeout(GIVE_UP, connect(&server, executions, &cursors)).await;
        let seconds = begun.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        drop(sockets.expect("all readers resume in time"));
        seconds
    };
    let (commits, seconds) = tokio::join!(writing, resuming);
    let name = "10,000 readers resume after a restart";
    report.figure(name, seconds, "s", Some(Limit::AtMost(30.0)));
    let mut stored = Vec::new();
    for tailer in tailers {
        let arrived = tailer.await.unwrap();
        stored
            .extend(arrived.iter().filter_map(|(event, at)| Some(at.saturating_duration_since(*commits.get(event)?))));
    }
    let mut stored: Vec<f64> = stored.iter().map(Duration::as_secs_f64).collect();
    let p99 = quantile(&mut stored, 99);
    report.figure(&format!("{name}: commit to stream meanwhile: p99"), p99 * 1000.0, "ms", None);
}

/// Starts a reader of the shard's stream, which returns the time at which each event arrived in the stream.
async fn tail(deployment: &Deployment, shard: usize, done: Arc<AtomicBool>) -> JoinHandle<Vec<(i64, Instant)>> {
    let (_, stream) = deployment.stream(shard).await;
    let start_sequence = stream.cached_info().state.last_sequence + 1;
    let deliver_policy = async_nats::jetstream::consumer::DeliverPolicy::ByStartSequence { start_sequence };
    let consumer = stream.create_consumer(OrderedConfig { deliver_policy, ..OrderedConfig::default() }).await.unwrap();
    let mut messages = consumer.messages().await.unwrap();
    tokio::spawn(async move {
        let mut arrived = Vec::new();
        while !done.load(Ordering::Relaxed) {
            let Ok(message) = tokio::time::timeout(Duration::from_millis(100), messages.next()).await else { continue };
            let message = message.unwrap().unwrap();
            let id = message.headers.as_ref().and_then(|headers| headers.get("Nats-Msg-Id")).unwrap();
            arrived.push((id.as_str().rsplit([':', '-', '.']).next().unwrap().parse().unwrap(), Instant::now()));
        }
        arrived
    })
}

/// Commits an event every [`GAP`], until all are committed or `done` is set, and returns the time of each commit.
async fn write(deployment: &Deployment, executions: &[Execution], events: Range<i64>, done: &AtomicBool) -> Commits {
    let mut writers = [deployment.shard(0).await, deployment.shard(1).await];
    let mut ticks = tokio::time::interval(GAP);
    let mut commits = HashMap::new();
    for (event, index) in events.zip(0..) {
        if done.load(Ordering::Relaxed) {
            break;
        }
        ticks.tick().await;
        // A prime step, so that neighbours are on different sockets.
        let execution = executions[index * 7919 % executions.len()];
        sqlx::query(
            "INSERT INTO noetl.event (execution_id, event_id, event_type, context)
             VALUES ($1, $2, 'call.done', jsonb_build_object('filler', repeat('x', 300)))",
        )
        .bind(execution.id)
        .bind(event)
        .execute(&mut writers[execution.shard])
        .await
        .unwrap();
        commits.insert(event, Instant::now());
    }
    commits
}

/// Connects a reader for each execution, and waits until all have caught up.
async fn connect(server: &Server, executions: &[Execution], cursors: &HashMap<i64, String>) -> Vec<Socket> {
    let opening = executions.chunks(PER_SOCKET).map(|followed| Socket::open(server, followed, cursors));
    stream::iter(opening).buffer_unordered(16).collect().await
}

/// A socket with up to [`PER_SOCKET`] readers.
struct Socket {
    live: Live,
    /// Events, and the times of their arrival.
    arrived: Vec<(i64, Instant)>,
    /// Last cursor of each reader, by execution id.
    cursors: HashMap<i64, String>,
}

impl Socket {
    async fn open(server: &Server, executions: &[Execution], cursors: &HashMap<i64, String>) -> Self {
        let mut live = Live::init(&server.url, &[], Value::Null).await.expect("the server accepts a socket");
        live.text().await.expect("the socket is acknowledged");
        for Execution { id, .. } in executions {
            let start = cursors.get(id).map_or_else(|| json!({ "latest": true }), |cursor| json!({ "after": cursor }));
            let variables = json!({ "id": id.to_string(), "start": start });
            live.subscribe_as(&id.to_string(), QUERY, variables).await.expect("the socket is open");
        }
        let mut socket = Self { live, arrived: Vec::new(), cursors: HashMap::new() };
        let mut caught_up = 0;
        while caught_up < executions.len() {
            let text = socket.live.text_at_any_time().await.expect("the socket stays open");
            caught_up += usize::from(socket.note(&text));
        }
        socket
    }

    /// Notes an item. Returns true if it is the marker of a reader that has caught up. The text is not parsed, so that
    /// the readers use little of the machine.
    fn note(&mut self, text: &str) -> bool {
        let part = |name: &str| text.split_once(name).and_then(|(_, rest)| rest.split('"').next());
        if let (Some(reader), Some(cursor)) = (part("\"id\":\""), part("\"cursor\":\"")) {
            self.cursors.insert(reader.parse().unwrap(), cursor.to_owned());
        }
        if let Some(event) = part("\"n\":\"") {
            self.arrived.push((event.parse().unwrap(), Instant::now()));
        }
        text.contains("CaughtUp")
    }

    /// Reads until `done` is set.
    async fn read(mut self, done: Arc<AtomicBool>) -> Self {
        while !done.load(Ordering::Relaxed) {
            let next = tokio::time::timeout(Duration::from_millis(100), self.live.text_at_any_time()).await;
            if let Ok(text) = next {
                self.note(&text.expect("the socket stays open"));
            }
        }
        self
    }
}
