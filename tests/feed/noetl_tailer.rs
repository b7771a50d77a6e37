//! NoETL's own tailer published from the same database, or publishes to the same stream: our feed still holds every event
//! once.

use async_nats::HeaderMap;
use noetl_testkit::Deployment;
use noetl_testkit::feed::{Key, Reader, run};

const BACKFILL: (&str, &str) = ("NOETL_EVENT_STREAM_BACKFILL", "true");

/// The position that NoETL's tailer stores before it publishes its first event.
const NOETL_POSITION: &str = "INSERT INTO noetl.stream_cursor (name, position) VALUES ('event_stream_tailer', 1)";

/// Publishes rows as NoETL's tailer does: the message id is the event id, and there are no other headers.
async fn publish_as_noetl(deployment: &Deployment, condition: &str) {
    let select = format!("SELECT event_id, to_jsonb(event)::text FROM noetl.event WHERE {condition} ORDER BY event_id");
    let rows: Vec<(i64, String)> =
        sqlx::query_as(sqlx::AssertSqlSafe(select)).fetch_all(&mut deployment.shard(0).await).await.unwrap();
    let (context, _) = deployment.stream(0).await;
    for (id, payload) in rows {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id.to_string());
        let subject = "noetl.events.call.done";
        context.publish_with_headers(subject, headers, payload.into()).await.unwrap().await.unwrap();
    }
}

async fn commit(deployment: &Deployment, ids: std::ops::RangeInclusive<i64>) {
    let (first, last) = (ids.start(), ids.end());
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type)
         SELECT 7, n, 'call.done' FROM generate_series({first}, {last}) AS n"
    );
    run(&mut deployment.shard(0).await, &rows).await;
}

#[tokio::test]
async fn events_that_noetl_s_tailer_publishes_before_ours_or_in_their_place_reach_our_readers_once() {
    let deployment = Deployment::start(1).await;
    // Our feed has created the stream and has no event.
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    assert!(server.stop().await.success());
    commit(&deployment, 1..=300).await;
    publish_as_noetl(&deployment, "event_id % 3 = 0").await;
    publish_as_noetl(&deployment, "event_id = 1").await;
    let server = deployment.replica().await;
    let mut reader = Reader::from_beginning(&server).await;
    assert!(reader.until_seen([(7, 300)]).await);
    // Both tailers publish the next events at the same time. A tailer of NoETL that publishes has stored its position.
    run(&mut deployment.shard(0).await, NOETL_POSITION).await;
    commit(&deployment, 301..=600).await;
    publish_as_noetl(&deployment, "event_id > 300").await;
    commit(&deployment, 601..=601).await;
    assert!(reader.until_seen([(7, 601)]).await);
    let all: Vec<Key> = (1..=601).map(|id| (7, id)).collect();
    assert_eq!(reader.seen, all);
    an_event_in_the_place_of_ours_reaches_our_readers(&deployment, &mut reader).await;
}

/// The last event of the feed is 601.
async fn an_event_in_the_place_of_ours_reaches_our_readers(deployment: &Deployment, reader: &mut Reader) {
    deployment.until_batch_finished().await;
    reader.seen.clear();
    // NoETL's messages take the sequences that ours are to get, with the ids of the same events.
    for (first, count) in [(602, 2), (605, 1)] {
        let (context, _) = deployment.stream(0).await;
        for id in first..first + count {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", id.to_string());
            let payload = format!("{{\"execution_id\": 7, \"event_id\": {id}}}");
            let stored = context.publish_with_headers("noetl.events.call.done", headers, payload.into()).await.unwrap();
            stored.await.unwrap();
        }
        // One batch: the events of NoETL's messages, and one more.
        commit(deployment, first..=first + count).await;
        assert!(reader.until_seen((first..=first + count).map(|id| (7, id))).await);
    }
    let all: Vec<Key> = (602..=606).map(|id| (7, id)).collect();
    assert_eq!(reader.seen, all);
}

#[tokio::test]
async fn a_first_start_continues_from_the_position_of_noetl_s_tailer() {
    for (settings, expected) in [(vec![], 61..=101), (vec![BACKFILL], 1..=101)] {
        let deployment = Deployment::start(1).await;
        commit(&deployment, 1..=100).await;
        let position =
            "INSERT INTO noetl.stream_cursor (name, position) VALUES ('event_stream_tailer', 60), ('other', 10)";
        run(&mut deployment.shard(0).await, position).await;
        let server = deployment.replica_with(&settings).await;
        deployment.feeds_begun().await;
        commit(&deployment, 101..=101).await;
        let mut reader = Reader::from_beginning(&server).await;
        assert!(reader.until_seen([(7, 101)]).await);
        assert_eq!(reader.seen, expected.map(|id| (7, id)).collect::<Vec<Key>>());
        // A later start continues from our own cursor.
        reader.disconnect().await;
        assert!(server.stop().await.success());
        let _server = deployment.replica_with(&settings).await;
        commit(&deployment, 102..=102).await;
        deployment.until_published(reader.seen.len() + 1).await;
    }
}
