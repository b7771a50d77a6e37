//! Number of allocations for each event and each outbox row, on their whole way through the server.
//!
//! The server runs on the thread of the test, and the allocations of this thread are counted. Its client, its databases,
//! its broker and a second replica run elsewhere. Each way is measured with two numbers of items. The difference is
//! what the items cost, without what each request costs. The bounds are a little above the numbers that were measured.

#![allow(clippy::disallowed_methods, reason = "tests may use the clock, tasks and the environment directly")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(missing_docs, unreachable_pub, reason = "tests have no public API")]

use std::future::pending;

use noetl_graphql::app::{self, App};
use noetl_graphql::config::{RequiredSettings, Sources};
use noetl_runtime::supervisor::{EndedEarly, Signals};
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::projections::fill_has_ended;
use noetl_testkit::{Deployment, Live, Server, http_client};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const PROJECT: &str = "mutation($events: [EventInput!]!) { projectEvents(input: {events: $events}) {
    projected rejected { index } userErrors { message } } }";
const DOCUMENTS: &str = "mutation($events: [JSON!]!) { projectEventDocuments(input: {events: $events}) {
    projected rejected { index } userErrors { message } } }";
const CLAIM: &str = "mutation($n: Int!) { claimOutbox(input: {select: {all: true}, limit: $n}) {
    claims { attempts payload } userErrors { message } } }";
const LIVE: &str = "subscription { events { ... on EventDelivery { cursor event {
    id executionId type nodeName status createdAt context result meta } } } }";

/// A server whose allocations are counted, and what it needs.
struct Counted {
    /// Runs the client and starts the second replica.
    elsewhere: Runtime,
    here: Runtime,
    deployment: Deployment,
    url: String,
}

impl Counted {
    fn start() -> Self {
        let elsewhere = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let deployment = elsewhere.block_on(Deployment::start(1));
        let here = Builder::new_current_thread().enable_all().build().unwrap();
        let off = ["NOETL_EVENT_STREAM_ENABLED", "NOETL_PROJECTOR", NO_RELAY.0].map(|name| (name, "false".to_owned()));
        let settings = deployment.env.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let config = Sources::default().with(settings.chain(off)).check(RequiredSettings::Servers).unwrap();
        let url = here.block_on(async {
            let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder().handle();
            let app = App::start(&config, metrics).await.unwrap();
            let socket = app::bind(&config).await.unwrap();
            let url = format!("http://{}", socket.local_addr().unwrap());
            tokio::spawn(app.serve(socket, Signals::listen().unwrap(), pending::<EndedEarly>()));
            fill_has_ended(&mut deployment.shard(0).await).await;
            url
        });
        Self { elsewhere, here, deployment, url }
    }

    /// Runs the work of a client, and returns its result and the number of allocations of the server meanwhile.
    fn during<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> (T, u64) {
        let work = self.elsewhere.spawn(work);
        let mut result = None;
        let counted = allocation_counter::measure(|| result = Some(self.here.block_on(work).unwrap()));
        (result.unwrap(), counted.count_total)
    }

    /// Sends an operation to the server, and returns its data and the number of allocations.
    fn send(&self, query: &str, variables: Value) -> (Value, u64) {
        let post = http_client().post(format!("{}/graphql", self.url));
        let post = post.json(&json!({ "query": query, "variables": variables }));
        let (mut response, allocations) =
            self.during(async move { post.send().await.unwrap().json::<Value>().await.unwrap() });
        assert_eq!(response.get("errors"), None, "{response}");
        (response["data"].take(), allocations)
    }

    /// Returns the number of allocations for each event that a mutation stores.
    fn for_each_stored(&self, mutation: &str, query: &str, event: fn(usize) -> Value) -> f64 {
        let mut next = 1;
        let mut store = |count: usize| {
            let events: Vec<Value> = (next..next + count).map(event).collect();
            next += count;
            let (data, allocations) = self.send(query, json!({ "events": events }));
            assert_eq!(data[mutation]["projected"], count, "{data}");
            allocations
        };
        store(300);
        let (once, twice) = ([store(300), store(300), store(300)], [store(600), store(600), store(600)]);
        each(300, least(once), least(twice))
    }
}

/// Returns the measurement without background work, which only adds to it.
fn least(measured: [u64; 3]) -> u64 {
    measured.into_iter().fold(u64::MAX, u64::min)
}

/// Returns the allocations for each item, from those for `count` items and for twice as many.
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn each(count: usize, once: u64, twice: u64) -> f64 {
    twice.abs_diff(once) as f64 / count as f64
}

fn context(n: usize) -> Value {
    json!({ "step": "extract", "attempt": 1, "input": { "n": n, "source": "orders/2026", "filters": ["new", "open"] },
            "trace": { "parent": null, "sampled": true } })
}

fn result(n: usize) -> Value {
    json!({ "status": "ok", "data": { "rows": n, "ids": [n, n + 1, n + 2], "checksum": "9f86d081884c7d65" },
            "seconds": 0.25 })
}

fn meta(n: usize) -> Value {
    json!({ "command_id": format!("c-{n}"), "worker": { "id": "w-1", "pool": "shared" } })
}

fn input(n: usize) -> Value {
    json!({ "executionId": "7", "eventId": n.to_string(), "type": "call.done", "nodeName": "extract",
            "status": "COMPLETED", "createdAt": "2026-01-31T12:00:00Z", "durationSeconds": 0.25,
            "context": context(n), "result": result(n), "meta": meta(n) })
}

fn document(n: usize) -> Value {
    json!({ "execution_id": 8, "event_id": n, "event_type": "call.done", "node_name": "extract",
            "status": "COMPLETED", "created_at": "2026-01-31T12:00:00Z", "duration": 0.25,
            "context": context(n), "result": result(n), "meta": meta(n) })
}

/// Asserts a bound, and prints the number of allocations.
fn assert_at_most(bound: f64, allocations: f64, what: &str) {
    println!("{allocations:.1} allocations for each {what}");
    assert!(allocations <= bound, "{allocations:.1} allocations for each {what}; at most {bound} are allowed");
}

#[test]
fn allocations_for_each_event_of_a_request_are_bounded() {
    let server = Counted::start();
    assert_at_most(29.0, server.for_each_stored("projectEvents", PROJECT, input), "stored event");
    let documents = server.for_each_stored("projectEventDocuments", DOCUMENTS, document);
    assert_at_most(34.0, documents, "stored document of an event");
}

#[test]
fn allocations_for_each_event_of_a_subscriber_are_bounded() {
    let server = Counted::start();
    let publisher = server.elsewhere.block_on(async {
        let publisher = server.deployment.replica().await;
        server.deployment.feeds_begun().await;
        publisher
    });
    let url = server.url.clone();
    let (reader, _) = server.during(async move {
        let mut reader = Live::open(&url, LIVE, Value::Null).await;
        // The first item says that the reader receives all later events.
        reader.next().await;
        reader
    });
    let deliver = |(publisher, mut reader): (Server, Live), from: usize, count: usize| {
        server.during(async move {
            let events: Vec<Value> = (from..from + count).map(input).collect();
            publisher.project(&events).await;
            let mut delivered = 0;
            while delivered < count {
                delivered += usize::from(reader.next().await.unwrap()["events"].get("event").is_some());
            }
            (publisher, reader)
        })
    };
    let (feed, _) = deliver((publisher, reader), 1, 500);
    let (feed, once) = deliver(feed, 501, 500);
    let (_feed, twice) = deliver(feed, 1001, 1000);
    assert_at_most(165.0, each(500, once, twice), "delivered event");
}

#[test]
fn allocations_for_each_outbox_row_are_bounded() {
    let server = Counted::start();
    server.elsewhere.block_on(async {
        let fill = "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload)
            SELECT n, n, 'noetl.executions.test', jsonb_build_object('n', n, 'list', jsonb_build_array(n, 'text', null))
            FROM generate_series(1, 700) AS n";
        server.deployment.on_shard(0, fill).await;
    });
    let claim = |count: usize| {
        let (data, allocations) = server.send(CLAIM, json!({ "n": count }));
        assert_eq!(data["claimOutbox"]["claims"].as_array().unwrap().len(), count, "{data}");
        allocations
    };
    claim(100);
    assert_at_most(34.0, each(200, claim(200), claim(400)), "claimed outbox row");
}
