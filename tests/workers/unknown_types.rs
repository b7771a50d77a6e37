//! Events of unknown types: the result of a batch names the types, and a strict batch refuses the events.

use noetl_testkit::worker::with_errors_of_items;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

/// The mutations that store events, with the types of their inputs.
const MUTATIONS: [(&str, &str); 2] =
    [("projectEvents", "ProjectEventsInput"), ("projectEventDocuments", "ProjectEventDocumentsInput")];

/// Sends events of one log, given by their ids and types.
async fn send(server: &Server, mutation: (&str, &str), log: i64, events: &[(i64, &str)], strict: bool) -> Value {
    let (field, input) = mutation;
    let event = |(id, event_type): &(i64, &str)| {
        if field == "projectEvents" {
            json!({ "eventId": id.to_string(), "executionId": log.to_string(), "type": event_type })
        } else {
            json!({ "event_id": id, "execution_id": log, "event_type": event_type })
        }
    };
    let events: Vec<Value> = events.iter().map(event).collect();
    let query = format!(
        "mutation($input: {input}!) {{ {field}(input: $input) {{ projected duplicates unknownTypes
            rejected {{ index userErrors {{ code field message retryable }} }} userErrors {{ code }} }} }}"
    );
    let input = json!({ "events": events, "strict": strict });
    with_errors_of_items(server.data(&query, json!({ "input": input })).await[field].take())
}

/// Returns the numbers of stored, repeated and refused events, and the unknown types.
fn outcome(payload: &Value) -> Value {
    let refused = payload["rejected"].as_array().unwrap().len();
    json!([payload["projected"], payload["duplicates"], refused, payload["unknownTypes"]])
}

#[tokio::test]
async fn unknown_types_are_named_and_a_strict_batch_refuses_their_events() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    the_unknown_types_of_the_events_in_the_log_are_named(&server).await;
    a_strict_batch_refuses_only_the_events_of_unknown_types(&server).await;
}

/// The result names each unknown type that is stored, or that was stored before.
async fn the_unknown_types_of_the_events_in_the_log_are_named(server: &Server) {
    for (log, mutation) in (7..).zip(MUTATIONS) {
        let misspelt = [(1, "step.entr"), (2, "call.done"), (3, "acme.progress"), (4, "step.entr")];
        let sent = send(server, mutation, log, &misspelt, false).await;
        assert_eq!(outcome(&sent), json!([4, 0, 0, ["acme.progress", "step.entr"]]), "{mutation:?}");
        let again = send(server, mutation, log, &misspelt[..2], false).await;
        assert_eq!(outcome(&again), json!([0, 2, 0, ["step.entr"]]), "{mutation:?}: duplicates");
        let known = send(server, mutation, log, &[(5, "step.enter")], false).await;
        assert_eq!(outcome(&known), json!([1, 0, 0, []]), "{mutation:?}");
        // Ids that are taken in the log and in the batch, and a type that only transitions write.
        let refused = [(1, "step.ente"), (6, "Step.Enter"), (6, "step_entered"), (8, "subscription.activated")];
        let sent = send(server, mutation, log, &refused, false).await;
        assert_eq!(outcome(&sent), json!([1, 0, 3, ["Step.Enter"]]), "{mutation:?}");
    }
}

/// A strict batch stores the events of known types, and those that are stored already.
async fn a_strict_batch_refuses_only_the_events_of_unknown_types(server: &Server) {
    for (log, mutation) in (9..).zip(MUTATIONS) {
        let events = [(1, "step.enter"), (2, "step.entr"), (3, "call.done")];
        let payload = send(server, mutation, log, &events, true).await;
        assert_eq!(outcome(&payload), json!([2, 0, 1, []]), "{mutation:?}");
        let refused = &payload["rejected"][0];
        assert_eq!((&refused["index"], &refused["code"]), (&json!(1), &json!("INVALID_INPUT")), "{payload}");
        assert_eq!((&refused["field"], &refused["retryable"]), (&json!(["events", "1", "type"]), &json!(false)));
        assert!(refused["message"].as_str().unwrap().contains("step.entr"), "{payload}");

        let lenient = send(server, mutation, log, &events, false).await;
        assert_eq!(outcome(&lenient), json!([1, 2, 0, ["step.entr"]]), "{mutation:?}");
        let again = send(server, mutation, log, &events, true).await;
        assert_eq!(outcome(&again), json!([0, 2, 1, []]), "{mutation:?}: the event is stored already");
    }
}
