//! The outbox of a database whose tables NoETL's own server made: its rows are delivered as NoETL delivers them, DEAD
//! rows fit into its table, and its delivered rows stay until an operator asks for the purge.

use std::collections::BTreeSet;

use noetl_testkit::feed::read_messages;
use noetl_testkit::outbox::{NO_RELAY, references};
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

/// The tables of an existing NoETL server.
const NOETL: &str = include_str!("../fixtures/noetl.sql");
const FEATHER: &str = "application/vnd.apache.arrow.file";

/// Creates a deployment on a database of an existing NoETL server, with the given outbox rows.
async fn adopted(rows: &str) -> Deployment {
    let deployment = Deployment::unmigrated(0).await;
    deployment.on_shard(0, NOETL).await;
    deployment.on_shard(0, rows).await;
    deployment.migrate().await;
    deployment
}

/// Returns the messages that the relay published to the stream of events: subject, content type and payload, as a set.
async fn relayed(deployment: &Deployment) -> BTreeSet<(String, String, Vec<u8>)> {
    let messages = read_messages(&deployment.stream(0).await.1).await;
    let read = messages.iter().map(|message| {
        let header = |name: &str| {
            let headers = message.headers.as_ref().unwrap();
            headers.get(name).map(ToString::to_string).unwrap_or_default()
        };
        (message.subject.to_string(), header("Content-Type"), message.payload.to_vec())
    });
    read.collect()
}

/// NoETL publishes an event without a subject to `noetl.events.<tenant>.<organization>.<execution>.0`.
#[tokio::test]
async fn rows_without_subject_and_rows_in_other_codecs_are_delivered() {
    let rows = r#"INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_bytes, payload_codec) VALUES
        (7, 1, NULL, '{"n": 1}', NULL, 'json'),
        (7, 2, NULL, '{"n": 2, "tenant_id": "a b.c", "organization_id": ""}', '\x4152524f573100ff', 'arrow-feather'),
        (NULL, 3, NULL, '{"n": 3}', NULL, 'arrow-feather'),
        (8, 4, 'noetl.events.theirs', '{"n": 4}', '\x00', 'msgpack'),
        (8, 5, 'noetl.events.theirs', '{"n": 5}', '\x00', 'json')"#;
    let deployment = adopted(rows).await;
    let _server = deployment.replica().await;
    eventually("every row is delivered", async || {
        (deployment.outbox_rows("status = 'PUBLISHED'").await == 5).then_some(())
    })
    .await;
    let expected = [
        ("noetl.events.default.default.7.0", "application/json", br#"{"n": 1}"#.as_slice()),
        ("noetl.events.a-b-c.default.7.0", FEATHER, b"ARROW1\x00\xff"),
        ("noetl.events.default.default.none.0", "application/json", br#"{"n": 3}"#),
        ("noetl.events.theirs", "application/x-msgpack", b"\x00"),
        ("noetl.events.theirs", "application/json", br#"{"n": 5}"#),
    ];
    let owned = expected.map(|(subject, media, payload)| (subject.to_owned(), media.to_owned(), payload.to_vec()));
    assert_eq!(relayed(&deployment).await, BTreeSet::from(owned));
}

const CLAIM: &str = "mutation { claimOutbox(input: {select: {all: true}, limit: 2}) { claims {
    subject payload payloadCodec payloadBase64 contentType } userErrors { message } } }";

#[tokio::test]
async fn a_worker_claims_rows_of_noetl_and_noetl_claims_no_dead_row() {
    let rows = r#"INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_bytes, payload_codec) VALUES
        (7, 1, NULL, '{"n": 1}', NULL, 'json'),
        (8, 2, 'a.b', '{"n": 2}', '\x4152524f5731', 'arrow-feather'),
        (9, 3, 'a', '{}', NULL, 'json')"#;
    let deployment = adopted(rows).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    a_worker_receives_the_same_message_as_the_relay_publishes(&server).await;
    noetls_table_accepts_a_dead_row_and_noetls_publisher_does_not_claim_it(&deployment, &server).await;
}

/// A claim has the subject, the codec and the content that a message of the relay has.
async fn a_worker_receives_the_same_message_as_the_relay_publishes(server: &Server) {
    let claims = server.data(CLAIM, Value::Null).await["claimOutbox"]["claims"].clone();
    let expected = json!([
        { "subject": "noetl.events.default.default.7.0", "payload": { "n": 1 }, "payloadCodec": "json",
          "payloadBase64": null, "contentType": "application/json" },
        { "subject": "a.b", "payload": { "n": 2 }, "payloadCodec": "arrow-feather",
          "payloadBase64": "QVJST1cx", "contentType": FEATHER },
    ]);
    assert_eq!(claims, expected);
}

/// The rows that NoETL's publisher would claim: PENDING and FAILED rows whose `available_at` has passed.
const NOETL_CLAIMS: &str = "status IN ('PENDING', 'FAILED') AND available_at <= now()";

/// The table of NoETL accepts a DEAD row, and NoETL's publisher does not claim it.
async fn noetls_table_accepts_a_dead_row_and_noetls_publisher_does_not_claim_it(
    deployment: &Deployment,
    server: &Server,
) {
    let claimed = references(&server.claim(json!({ "maxAttempts": 1 })).await);
    server.failed(&claimed[0], "no", None).await;
    let entries = "{ outbox { entries(filter: { statuses: [DEAD] }) { nodes { entryId status } } } }";
    let entries = server.data(entries, Value::Null).await;
    assert_eq!(entries["outbox"]["entries"]["nodes"], json!([{ "entryId": "0-3", "status": "DEAD" }]));
    assert_eq!(deployment.outbox_rows(NOETL_CLAIMS).await, 0);
}

/// Two rows that were delivered long ago: one from before the adoption, one from after it.
const DELIVERED: [&str; 2] = [
    "INSERT INTO noetl.outbox (execution_id, event_id, payload, status, published_at)
     VALUES (1, 1, '{}', 'PUBLISHED', now() - interval '9 days')",
    "INSERT INTO noetl.outbox (execution_id, event_id, payload, status, published_at)
     VALUES (1, 2, '{}', 'PUBLISHED', now() - interval '9 days')",
];

#[tokio::test]
async fn delivered_rows_of_an_adopted_database_are_purged_only_if_a_retention_is_set() {
    let (theirs, ours) = tokio::join!(adopted(DELIVERED[0]), Deployment::start(0));
    theirs.on_shard(0, DELIVERED[1]).await;
    ours.on_shard(0, DELIVERED[0]).await;
    let said = theirs.maintain(&[]).await;
    assert!(said.contains("NOETL_OUTBOX_RETENTION_SECS"), "{said}");
    ours.maintain(&[]).await;
    assert_eq!((theirs.outbox_rows("true").await, ours.outbox_rows("true").await), (2, 0));
    let said = theirs.maintain(&[("NOETL_OUTBOX_RETENTION_SECS", "86400")]).await;
    assert!(said.contains("purged 2 delivered"), "{said}");
    assert_eq!(theirs.outbox_rows("true").await, 0);
}
