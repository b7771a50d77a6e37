//! A page of stored events and the live events after its `streamCursor` have every event once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use noetl_testkit::feed::{Key, Reader, assert_exactly, insert};
use noetl_testkit::writer::Writer;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const PAGE: &str = "query($id: ID, $order: EventOrder, $first: Int, $after: String, $filter: EventFilter) {
    events(executionId: $id, order: $order, first: $first, after: $after, filter: $filter) {
        streamCursor nodes { executionId eventId } pageInfo { hasNextPage endCursor } } }";

/// Maximum number of rounds of a writer. Pages of three events are read more slowly than a writer writes, so a list
/// would not end.
const ROUNDS: i64 = 40;

/// Events that a client has: those of its pages, then those of a live reader.
struct Joined {
    pages: Vec<Key>,
    reader: Reader,
    /// Whether the pages and the reader have no event twice.
    is_exact: bool,
    log: Option<i64>,
}

impl Joined {
    /// Reads pages until the list ends, and continues with the live events.
    async fn read(server: &Server, list: &Value, size: u32) -> Self {
        let (mut pages, mut cursors, mut after) = (Vec::new(), Vec::new(), Value::Null);
        loop {
            let mut variables = list.clone();
            variables["first"] = size.into();
            variables["after"] = after;
            let page = server.data(PAGE, variables).await["events"].take();
            let number = |node: &Value, name: &str| node[name].as_str().unwrap().parse::<i64>().unwrap();
            let nodes = page["nodes"].as_array().unwrap().iter();
            pages.extend(nodes.map(|node| (number(node, "executionId"), number(node, "eventId"))));
            cursors.push(page["streamCursor"].clone());
            if page["pageInfo"]["hasNextPage"] == false {
                break;
            }
            after = page["pageInfo"]["endCursor"].clone();
        }
        let by_arrival = list["order"] == "ARRIVAL";
        let cursor = if by_arrival { cursors.last() } else { cursors.first() };
        let log = list["id"].as_str().map(|log| log.parse().unwrap());
        let filter = log.map_or(Value::Null, |log: i64| json!({ "executionIds": [log.to_string()] }));
        let reader = Reader::open(server, json!({ "after": cursor }), filter).await;
        Self { pages, reader, is_exact: by_arrival || cursors.len() == 1, log }
    }

    /// Reads until the last event of each shard, and compares with the committed events.
    async fn check(mut self, committed: &BTreeSet<Key>, last: &[Key]) {
        let wanted: BTreeSet<Key> =
            committed.iter().filter(|key| self.log.is_none_or(|log| log == key.0)).copied().collect();
        let pages: BTreeSet<Key> = self.pages.iter().copied().collect();
        assert_eq!(pages.len(), self.pages.len(), "the pages repeat an event");
        let rest = wanted.difference(&pages).copied().chain(last.iter().copied().filter(|key| wanted.contains(key)));
        assert!(self.reader.until_seen(rest).await, "the feed ended");
        let mut all = [self.pages, self.reader.seen].concat();
        if !self.is_exact {
            all = BTreeSet::from_iter(all).into_iter().collect();
        }
        assert_exactly(&all, &wanted);
    }
}

#[tokio::test]
async fn a_page_and_its_live_events_have_every_event_once_while_writers_commit_out_of_order() {
    let deployment = Deployment::start(2).await;
    let server = deployment.feed_replica().await;
    deployment.feeds_begun().await;
    let logs: Vec<i64> =
        (0..2).flat_map(|index| deployment.ids_on(index, (i64::try_from(index).unwrap() + 1) << 32, 2)).collect();
    let lists: Vec<(Value, u32)> = [(json!({}), 100), (json!({ "filter": { "types": ["call.*"] } }), 20)]
        .into_iter()
        .chain(logs.iter().flat_map(|log| {
            let log = log.to_string();
            [(json!({ "id": log }), 100), (json!({ "id": log, "order": "ARRIVAL" }), 3)]
        }))
        .collect();
    let enough = AtomicBool::new(false);
    let writing = async {
        join_all((0..2).map(|index| Writer::new(&deployment, index).at_most(ROUNDS).write(&enough))).await;
    };
    // Readers are checked together, because a socket that nobody reads is closed after a while.
    let read_all = || join_all(lists.iter().map(|(list, size)| Joined::read(&server, list, *size)));
    let joining = async {
        let mut joined = Vec::new();
        for _ in 0..3 {
            joined.extend(read_all().await);
        }
        enough.store(true, Ordering::Relaxed);
        joined
    };
    let ((), mut joined) = tokio::join!(writing, joining);
    assert!(joined.iter().any(|one| !one.pages.is_empty()), "the pages have no events");
    // Events after all others, in each log.
    let last: Vec<Key> = logs.iter().map(|log| (*log, 1 << 60)).collect();
    for (index, key) in last.iter().enumerate() {
        insert(&mut deployment.shard(index / 2).await, *key).await;
    }
    deployment.until_all_published().await;
    joined.extend(read_all().await);
    let committed = deployment.committed().await;
    assert!(joined.iter().filter(|one| one.is_exact && one.log.is_none()).count() > 0, "no page has all events");
    join_all(joined.into_iter().enumerate().map(|(number, one)| {
        // The reader of a page that was read last gets no event.
        one.check(&committed, if number < 3 * lists.len() { last.as_slice() } else { &[] })
    }))
    .await;
}

/// Until the feed has published an event, neither a page that is to be joined has it, nor is it lost.
#[tokio::test]
async fn a_page_without_a_stream_has_no_cursor_and_every_event() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_without_projector().await;
    insert(&mut deployment.shard(0).await, (7, 1)).await;
    for list in [json!({ "id": "7" }), json!({ "id": "7", "order": "ARRIVAL" }), json!({})] {
        let page = server.data(PAGE, list).await["events"].take();
        assert_eq!(page["streamCursor"], Value::Null);
        assert_eq!(page["nodes"], json!([{ "executionId": "7", "eventId": "1" }]));
    }
}
