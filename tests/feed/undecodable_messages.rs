//! Messages that are not events, or are events that the server cannot decode, stop no reader.

use async_nats::HeaderMap;
use async_nats::jetstream::{self, stream::Config};
use noetl_domain::feed::{FeedId, FeedOwner};
use noetl_feed::wire::envelope::Mark;
use noetl_testkit::feed::Reader;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// Starts a deployment with a stream to which only the test writes.
async fn start() -> (Deployment, Server, jetstream::Context) {
    let deployment = Deployment::start(1).await;
    let context = jetstream::new(async_nats::connect(deployment.nats.url()).await.unwrap());
    let config =
        Config { name: "noetl_events".to_owned(), subjects: vec!["noetl.events.>".to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
    let server = deployment.replica_without_feed().await;
    (deployment, server, context)
}

async fn publish(context: &jetstream::Context, epoch: Option<i32>, payload: String) {
    let owner = FeedOwner { feed: FeedId::new(1), system_identifier: 1, timeline: 1 };
    let mark = |epoch| Mark { epoch, batch: 1, id: None, index: 0, span: None, owner, discard: None }.headers();
    let headers: HeaderMap = epoch.map(mark).unwrap_or_default();
    let subject = "noetl.events.call.done";
    context.publish_with_headers(subject, headers, payload.into()).await.unwrap().await.unwrap();
}

fn event(id: i64, context: &str) -> String {
    format!(
        r#"{{"execution_id":5,"event_id":{id},"created_at":"2025-01-01T00:00:00Z","event_type":"call.done",
            "context":{context},"tenant_id":"default","organization_id":"default"}}"#
    )
}

#[tokio::test]
async fn a_message_that_cannot_be_decoded_stops_no_reader() {
    let (_deployment, server, context) = start().await;
    let mut live = Reader::from_latest(&server).await;
    let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    publish(&context, Some(1), event(1, r#"{"text":"a"}"#)).await;
    publish(&context, None, "not ours".to_owned()).await;
    publish(&context, Some(1), event(2, &deep)).await;
    publish(&context, Some(1), "{".to_owned()).await;
    publish(&context, Some(1), event(3, r#"{"n":1e999}"#)).await;
    publish(&context, Some(1), event(4, r#"{"text":"d"}"#).replace("2025-01-01T00:00:00Z", "infinity")).await;
    publish(&context, None, event(7, "null")).await;
    publish(&context, Some(1), event(5, r#"{"text":"e"}"#)).await;
    assert!(live.until_seen([(5, 5)]).await, "the feed ended");
    let mut replaying = Reader::from_beginning(&server).await;
    assert!(replaying.until_seen([(5, 5)]).await, "the feed ended");
    for reader in [&live, &replaying] {
        let events = reader.items.iter().filter(|item| item["__typename"] == "EventDelivery");
        let shown: Vec<_> = events.map(|item| (&item["event"]["context"]["text"], &item["payloadOmitted"])).collect();
        let (null, no, yes) = (Value::Null, json!(false), json!(true));
        let text = |text: &str| json!(text);
        let expected = [(text("a"), &no), (null.clone(), &yes), (null, &yes), (text("d"), &yes), (text("e"), &no)];
        assert_eq!(shown, expected.iter().map(|(text, partial)| (text, *partial)).collect::<Vec<_>>());
        assert_eq!(reader.gaps(), []);
        // Foreign messages have sequences, so readers do not report a gap.
        assert_eq!((reader.position(0).epoch, reader.position(0).sequence), (1, 8));
    }
}

/// A reader finds the first message of an epoch among foreign messages.
#[tokio::test]
async fn foreign_messages_around_a_new_epoch_hide_no_event() {
    let (_deployment, server, context) = start().await;
    let mut reader = Reader::from_latest(&server).await;
    for id in 1..=9 {
        publish(&context, Some(1), event(id, "null")).await;
    }
    assert!(reader.until_seen([(5, 9)]).await, "the feed ended");
    context.get_stream("noetl_events").await.unwrap();
    context.delete_stream("noetl_events").await.unwrap();
    let config =
        Config { name: "noetl_events".to_owned(), subjects: vec!["noetl.events.>".to_owned()], ..Config::default() };
    context.create_stream(config).await.unwrap();
    for id in 1..=20 {
        let epoch = if id <= 4 { 1 } else { 2 };
        publish(&context, Some(epoch), event(id, "null")).await;
        publish(&context, None, "not ours".to_owned()).await;
    }
    assert!(reader.until_seen([(5, 20)]).await, "the feed ended");
    let mut back = Reader::from_latest(&server).await;
    back.cursor = noetl_feed::wire::cursor::StreamCursor::unnamed(vec![noetl_feed::wire::cursor::Position {
        epoch: 1,
        sequence: 30,
    }])
    .to_text();
    back.reconnect(&server).await;
    assert!(back.until_seen([(5, 20)]).await, "the feed ended");
    assert_eq!(back.seen, (5..=20).map(|id| (5, id)).collect::<Vec<_>>());
    assert_eq!(back.gaps(), [(0, 9, 30, "EPOCH_CHANGED")]);
    assert_eq!(reader.seen[9..], back.seen);
    let gaps = reader.gaps();
    assert!(matches!(gaps[..], [(0, 9, _, "EPOCH_CHANGED")]), "{gaps:?}");
}
