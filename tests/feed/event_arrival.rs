//! Logs in the order of arrival: a reader that continues from a cursor gets every committed event once, whatever the ids
//! and the order of commits are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use noetl_domain::cursor::{CursorKind, decode, encode};
use noetl_domain::event_list::Arrival;
use noetl_testkit::feed::{assert_exactly, insert, insert_typed, run};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Server, sleep_in_scenario};
use serde_json::{Value, json};

const LOG: &str = "query($id: ID!, $order: EventOrder, $first: Int, $after: String, $filter: EventFilter) {
    events(executionId: $id, order: $order, first: $first, after: $after, filter: $filter) {
        nodes { eventId } pageInfo { hasNextPage hasPreviousPage endCursor } } }";

/// A reader of a log in the order of arrival.
struct Follower<'a> {
    server: &'a Server,
    log: i64,
    cursor: Value,
    seen: Vec<i64>,
}

impl<'a> Follower<'a> {
    fn new(server: &'a Server, log: i64) -> Self {
        Self { server, log, cursor: Value::Null, seen: Vec::new() }
    }

    /// Reads pages until there are no more events.
    async fn read(&mut self, size: u32) -> &[i64] {
        let from = self.seen.len();
        loop {
            let variables =
                json!({ "id": self.log.to_string(), "order": "ARRIVAL", "first": size, "after": self.cursor });
            let page = self.server.data(LOG, variables).await["events"].take();
            self.seen.extend(ids(&page));
            if page["nodes"] != json!([]) {
                self.cursor = page["pageInfo"]["endCursor"].clone();
            }
            if page["pageInfo"]["hasNextPage"] == false {
                return &self.seen[from..];
            }
        }
    }
}

fn ids(page: &Value) -> Vec<i64> {
    let id = |node: &Value| node["eventId"].as_str().unwrap().parse().unwrap();
    page["nodes"].as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn a_reader_of_a_log_in_arrival_order_gets_every_event_once() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_projector().await;
    Box::pin(a_cursor_in_arrival_order_sees_an_event_with_a_lower_id_that_is_committed_later(&deployment, &server))
        .await;
    Box::pin(followers_get_every_event_once_while_writers_commit_in_any_order(&deployment, &server)).await;
    a_cursor_of_another_server_and_a_backward_page_are_refused(&deployment, &server).await;
}

async fn a_cursor_in_arrival_order_sees_an_event_with_a_lower_id_that_is_committed_later(
    deployment: &Deployment,
    server: &Server,
) {
    let (mut shard, mut other) = (deployment.shard(0).await, deployment.shard(0).await);
    let log = 1000;
    insert_typed(&mut shard, (log, 10), "playbook_started").await;
    for event in [20, 30] {
        insert(&mut shard, (log, event)).await;
    }
    let by_id =
        async |after: Value| server.data(LOG, json!({ "id": log.to_string(), "after": after })).await["events"].take();
    let end = by_id(Value::Null).await["pageInfo"]["endCursor"].take();
    let mut follower = Follower::new(server, log);
    assert_eq!(follower.read(2).await, [10, 20, 30]);
    assert_eq!(follower.read(2).await, [0_i64; 0]);

    insert(&mut shard, (log, 15)).await;
    assert_eq!(ids(&by_id(end).await), [0_i64; 0], "the order of ids does not see it");
    assert_eq!(follower.read(2).await, [15]);

    // The transaction with the lower transaction id commits last.
    run(&mut shard, "BEGIN").await;
    insert(&mut shard, (log, 5)).await;
    insert(&mut other, (log, 6)).await;
    insert(&mut other, (log, 40)).await;
    assert_eq!(follower.read(1).await, [6, 40], "an open transaction delays only its own events");
    run(&mut shard, "COMMIT").await;
    insert(&mut other, (log, 7)).await;
    assert_eq!(follower.read(1).await, [5, 7]);

    let mut late = Follower::new(server, log);
    assert_eq!(late.read(3).await, [10, 20, 30, 15, 5, 6, 40, 7], "all are ordered by their transactions");
    assert_eq!(ids(&by_id(Value::Null).await), [5, 6, 7, 10, 15, 20, 30, 40]);
    let nested = "query($id: ID!) { execution(id: $id) { events(order: ARRIVAL, first: 3) { nodes { eventId } } } }";
    let nested = server.data(nested, json!({ "id": log.to_string() })).await["execution"]["events"].take();
    assert_eq!(ids(&nested), [10, 20, 30]);
    let filter = json!({ "createdBefore": "2000-01-01T00:00:00Z" });
    let none = server.data(LOG, json!({ "id": log.to_string(), "order": "ARRIVAL", "filter": filter })).await;
    assert_eq!(none["events"]["nodes"], json!([]));
}

async fn followers_get_every_event_once_while_writers_commit_in_any_order(deployment: &Deployment, server: &Server) {
    let before = deployment.committed().await;
    let logs: Vec<i64> = (1_i64..=2).flat_map(|writer| deployment.ids_on(0, writer << 32, 2)).collect();
    let (enough, written) = (AtomicBool::new(true), AtomicBool::new(false));
    let writing = async {
        join_all((0..2).map(|index| Writer::new(deployment, index).write(&enough))).await;
        written.store(true, Ordering::Relaxed);
    };
    let following = join_all(logs.iter().map(async |log| {
        let mut follower = Follower::new(server, *log);
        while !written.load(Ordering::Relaxed) {
            follower.read(3).await;
            // Shorter than the time between the commits of a late transaction and of a younger one.
            sleep_in_scenario(Duration::from_millis(30)).await;
        }
        follower.read(3).await;
        follower.seen.iter().map(|event| (*log, *event)).collect::<Vec<_>>()
    }));
    let ((), seen) = tokio::join!(writing, following);
    assert_exactly(&seen.concat(), &deployment.committed().await.difference(&before).copied().collect());
}

async fn a_cursor_of_another_server_and_a_backward_page_are_refused(deployment: &Deployment, server: &Server) {
    insert(&mut deployment.shard(0).await, (7, 1)).await;
    let mut follower = Follower::new(server, 7);
    follower.read(1).await;
    let here = Arrival::read(&decode(CursorKind::EventArrival, follower.cursor.as_str().unwrap()).unwrap()).unwrap();
    let elsewhere = Arrival { server: here.server + 1, ..here };
    let elsewhere = encode(CursorKind::EventArrival, &elsewhere.to_bytes());
    for (arguments, field) in [
        (format!("after: \"{elsewhere}\""), "after"),
        ("after: \"junk\"".to_owned(), "after"),
        ("last: 2".to_owned(), "last"),
        (format!("first: 2, before: {}", follower.cursor), "before"),
    ] {
        let query = format!("{{ events(executionId: \"7\", order: ARRIVAL, {arguments}) {{ nodes {{ eventId }} }} }}");
        let answer = server.send(&query, Value::Null).await.unwrap();
        let extensions = &answer["errors"][0]["extensions"];
        assert_eq!(extensions["code"], "INVALID_INPUT", "{answer}");
        assert!(extensions["field"].to_string().contains(field), "{answer}");
    }
    let answer = server.send("{ events(order: ARRIVAL) { nodes { eventId } } }", Value::Null).await.unwrap();
    assert!(answer["errors"][0]["extensions"]["field"].to_string().contains("order"), "{answer}");
}
