//! A bulk mutation never selects more than its caller wrote: an incomplete selector changes nothing.

use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};

/// A bulk mutation: its name, the other fields of its input, and the type of its filter.
struct Bulk {
    mutation: &'static str,
    others: &'static str,
    filter: &'static str,
    /// Type of the items of its condition `statuses`.
    status: &'static str,
    /// A condition of the filter that has a text.
    text: &'static str,
}

const BULKS: [Bulk; 4] = [
    Bulk {
        mutation: "transitionSubscriptions",
        others: "action: DEACTIVATE",
        filter: "SubscriptionFilter",
        status: "SubscriptionStatus",
        text: "pathPrefix",
    },
    Bulk {
        mutation: "rerunExecutions",
        others: "",
        filter: "ExecutionFilter",
        status: "ExecutionStatus",
        text: "pathPrefix",
    },
    Bulk { mutation: "retryOutbox", others: "", filter: "OutboxFilter", status: "OutboxStatus", text: "tenantId" },
    Bulk { mutation: "discardOutbox", others: "", filter: "OutboxFilter", status: "OutboxStatus", text: "tenantId" },
];

/// Outcome of a request: refused with this field, or by validation, before anything runs.
#[derive(Debug, PartialEq)]
enum Refusal {
    Field(Vec<String>),
    Validation,
}

/// Sends a bulk mutation with this selector and these variables. Returns how it was refused.
async fn refusal(server: &Server, bulk: &Bulk, declared: &str, select: &str, variables: Value) -> Option<Refusal> {
    let Bulk { mutation, others, .. } = bulk;
    let declared = if declared.is_empty() { String::new() } else { format!("({declared})") };
    let query = format!(
        "mutation {declared} {{ it: {mutation}(input: {{ {others} {select} }}) {{ userErrors {{ code field }} }} }}"
    );
    let answer = server.send(&query, variables).await.unwrap();
    if answer["errors"][0]["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED" {
        return Some(Refusal::Validation);
    }
    let error = answer["data"]["it"]["userErrors"].get(0)?;
    assert_eq!(error["code"], "INVALID_INPUT", "{query}: {answer}");
    Some(Refusal::Field(serde_json::from_value(error["field"].clone()).unwrap()))
}

fn field(path: &str) -> Refusal {
    Refusal::Field(path.split('.').map(str::to_owned).collect())
}

/// Returns the incomplete selectors of a mutation: the declared variables, the selector, the values, the refusal.
fn incomplete(bulk: &Bulk) -> Vec<(String, String, Value, Refusal)> {
    let Bulk { filter, status, text, .. } = bulk;
    let validation = || Refusal::Validation;
    let mut cases = Vec::new();
    let mut case = |declared: &str, select: &str, variables: Value, refusal| {
        cases.push((declared.to_owned(), select.to_owned(), variables, refusal));
    };
    // Without variables.
    case("", "", json!({}), validation());
    for select in ["null", "{}", "{ ids: null }", "{ all: null }", "{ filter: null }", "{ all: true, filter: {} }"] {
        case("", &format!("select: {select}"), json!({}), validation());
    }
    case("", "select: { ids: [], all: true }", json!({}), validation());
    case("", "select: { ids: [] }", json!({}), field("select.ids"));
    case("", "select: { all: false }", json!({}), field("select.all"));
    case("", "select: { filter: {} }", json!({}), field("select.filter"));
    for value in ["null", "[]"] {
        let select = format!("select: {{ filter: {{ statuses: {value} }} }}");
        case("", &select, json!({}), field("select.filter.statuses"));
    }
    case("", &format!("select: {{ filter: {{ {text}: \"\" }} }}"), json!({}), field(&format!("select.filter.{text}")));
    // A variable without a value, one that is null, and one that is empty, alone and beside a condition.
    for declared in ["$ids: [ID!]", "$ids: [ID!] = null"] {
        for variables in [json!({}), json!({ "ids": null })] {
            case(declared, "select: { ids: $ids }", variables, validation());
        }
    }
    for declared in [format!("$statuses: [{status}!]"), format!("$statuses: [{status}!] = null")] {
        for variables in [json!({}), json!({ "statuses": null })] {
            for beside in ["", "organizationId: \"default\""] {
                let select = format!("select: {{ filter: {{ {beside} statuses: $statuses }} }}");
                case(&declared, &select, variables.clone(), field("select.filter.statuses"));
            }
        }
    }
    case("$ids: [ID!]!", "select: { ids: $ids }", json!({ "ids": [] }), field("select.ids"));
    let select = format!("select: {{ filter: {{ {text}: $text }} }}");
    for value in [json!({}), json!({ "text": null }), json!({ "text": "" })] {
        case("$text: String", &select, value, field(&format!("select.filter.{text}")));
    }
    for value in [json!({}), json!({ "all": null })] {
        case("$all: Boolean", "select: { all: $all }", value, validation());
    }
    case("$all: Boolean!", "select: { all: $all }", json!({ "all": false }), field("select.all"));
    let declared = format!("$filter: {filter}!");
    for value in [json!({}), json!({ "filter": null })] {
        case(&format!("$filter: {filter}"), "select: { filter: $filter }", value, validation());
    }
    case(&declared, "select: { filter: $filter }", json!({ "filter": {} }), field("select.filter"));
    // A null in a variable that is a whole object.
    let nested = json!({ "organizationId": "default", "statuses": null });
    let expected = || field("select.filter.statuses");
    case(&declared, "select: { filter: $filter }", json!({ "filter": nested }), expected());
    let selector = format!("$select: {}!", filter.replace("Filter", "Selector"));
    case(&selector, "select: $select", json!({ "select": { "filter": nested } }), expected());
    for value in [json!({}), json!({ "ids": null }), json!({ "all": true, "filter": nested })] {
        case(&selector, "select: $select", json!({ "select": value }), validation());
    }
    // The default of `dryRun` changes data.
    case("$dry: Boolean", "select: { all: true } dryRun: $dry", json!({}), field("dryRun"));
    case("$dry: Boolean", "select: { all: true } dryRun: $dry", json!({ "dry": null }), validation());
    cases
}

async fn deployment_with_objects_to_change() -> (Deployment, Server) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_with(&QUIET).await;
    for path in ["inbox/1", "inbox/2"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
        server.register(path).await;
    }
    deployment.fill_outbox(0, &[1, 2], 1).await;
    let dead = "UPDATE noetl.outbox SET status = 'FAILED', attempts = 20, available_at = 'infinity'";
    deployment.on_shard(0, dead).await;
    (deployment, server)
}

#[tokio::test]
async fn a_bulk_mutation_selects_what_its_complete_selector_says_and_refuses_an_incomplete_one() {
    let (deployment, server) = deployment_with_objects_to_change().await;
    incomplete_selectors(&deployment, &server).await;
    empty_ids(&server).await;
    complete_selectors(&server).await;
}

/// An incomplete selector is refused, and changes nothing.
async fn incomplete_selectors(deployment: &Deployment, server: &Server) {
    let before = deployment.table_digests().await;
    let mut wrong = Vec::new();
    for bulk in &BULKS {
        for (declared, select, variables, expected) in incomplete(bulk) {
            let found = refusal(server, bulk, &declared, &select, variables.clone()).await;
            if found.as_ref() != Some(&expected) {
                let name = bulk.mutation;
                wrong.push(format!("{name} ({declared}) {select} {variables}: {found:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(deployment.table_digests().await, before, "a refused request changed the databases");
}

/// A complete selector selects by id, by filter, or everything.
async fn complete_selectors(server: &Server) {
    let send = async |query: &str, variables: Value| server.data(query, variables).await;
    let transition = "mutation($select: SubscriptionSelector!, $dry: Boolean!) {
        it: transitionSubscriptions(input: { action: ACTIVATE, select: $select, dryRun: $dry }) {
            results { subscription { id path } } userErrors { code } } }";
    let paths = async |select: Value, dry: bool| {
        let payload = send(transition, json!({ "select": select, "dry": dry })).await["it"].take();
        assert_eq!(payload["userErrors"], json!([]));
        let results = payload["results"].as_array().unwrap().clone();
        results.iter().map(|one| one["subscription"]["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(json!({ "all": true }), true).await, ["inbox/2", "inbox/1"]);
    assert_eq!(paths(json!({ "filter": { "pathPrefix": "inbox/1" } }), true).await, ["inbox/1"]);
    let inbox = server.register("inbox/2").await["subscription"]["id"].clone();
    assert_eq!(paths(json!({ "ids": [inbox] }), false).await, ["inbox/2"]);

    for (mutation, changed, kind) in
        [("retryOutbox", "retried", "RetryOutboxInput"), ("discardOutbox", "discarded", "DiscardOutboxInput")]
    {
        let query = format!(
            "mutation($input: {kind}!) {{ it: {mutation}(input: $input) {{ matched changed: {changed} userErrors {{ code }} }} }}"
        );
        for (select, matched) in [
            (json!({ "all": true }), 2),
            (json!({ "filter": { "executionId": "1" } }), 1),
            (json!({ "ids": ["0-1", "0-2"] }), 2),
        ] {
            let payload = send(&query, json!({ "input": { "select": select, "dryRun": true } })).await["it"].take();
            assert_eq!(payload, json!({ "matched": matched, "changed": 0, "userErrors": [] }), "{mutation} {select}");
        }
    }
    // An id that no entry has does not stop the others. The id of a shard that does not exist changes nothing.
    let retry = "mutation($ids: [ID!]!) { it: retryOutbox(input: { select: { ids: $ids } }) {
        matched retried userErrors { code field } } }";
    let refused = send(retry, json!({ "ids": ["0-1", "9-1"] })).await["it"].take();
    let error = |code: &str| json!([{ "code": code, "field": ["select", "ids", "1"] }]);
    assert_eq!(refused, json!({ "matched": 0, "retried": 0, "userErrors": error("INVALID_INPUT") }));
    let retried = send(retry, json!({ "ids": ["0-1", "0-999999"] })).await["it"].take();
    assert_eq!(retried, json!({ "matched": 1, "retried": 1, "userErrors": error("NOT_FOUND") }));
    let discard = "mutation { it: discardOutbox(input: { select: { all: true } }) { discarded } }";
    assert_eq!(send(discard, Value::Null).await["it"]["discarded"], 1);
}

/// An empty id is malformed.
async fn empty_ids(server: &Server) {
    for (mutation, others) in [
        ("transitionSubscriptions", "action: DEACTIVATE"),
        ("cancelExecutions", ""),
        ("rerunExecutions", ""),
        ("retryOutbox", ""),
        ("discardOutbox", ""),
    ] {
        let query = format!(
            "mutation {{ it: {mutation}(input: {{ {others} select: {{ ids: [\"1-1\", \"\"] }} }}) {{
             userErrors {{ code field message }} }} }}"
        );
        let query = query.replace("1-1", if mutation.ends_with("Outbox") { "0-1" } else { "1" });
        let error = server.data(&query, Value::Null).await["it"]["userErrors"][0].take();
        assert_eq!(error["field"], json!(["select", "ids", "1"]), "{mutation}: {error}");
        assert!(!error["message"].as_str().unwrap().contains("restrict"), "{mutation}: {error}");
    }
}
