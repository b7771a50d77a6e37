//! Invalid input gets a typed error that names the field. It writes no row and claims no key.

use std::collections::BTreeMap;

use noetl_testkit::{Deployment, Server, execute_input};
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Ids and cursors that exist, for valid and invalid input.
struct Known {
    playbook: String,
    subscription_entry: String,
    subscription: String,
    execution: String,
    /// A cursor of the list of executions.
    cursor: String,
}

async fn known(server: &Server) -> Known {
    let playbook = server.register_entry("process", &json!({ "kind": "playbook" })).await;
    let subscription_entry = server.register_entry("inbox", &json!({ "kind": "subscription" })).await;
    let subscription = server.register("inbox").await["subscription"]["id"].as_str().unwrap().to_owned();
    let execution = server.started(json!({ "path": "process" })).await;
    let list = server.data("{ executions { pageInfo { endCursor } } }", json!({})).await;
    let cursor = list["executions"]["pageInfo"]["endCursor"].as_str().unwrap().to_owned();
    Known { playbook, subscription_entry, subscription, execution, cursor }
}

/// Returns the number of rows of each table in each database.
async fn rows(deployment: &Deployment) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for dsn in deployment.shard_dsns.iter().chain([&deployment.cluster_dsn]) {
        let mut database = PgConnection::connect(dsn).await.unwrap();
        // A background task writes its progress into read_model_fill at any time.
        let tables =
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'noetl' AND tablename <> 'read_model_fill'";
        for table in sqlx::query_scalar::<_, String>(tables).fetch_all(&mut database).await.unwrap() {
            let count = AssertSqlSafe(format!("SELECT count(*) FROM noetl.{table}"));
            rows.insert(format!("{dsn} {table}"), sqlx::query_scalar(count).fetch_one(&mut database).await.unwrap());
        }
    }
    rows
}

/// A mutation, its input, and the expected error code and field.
type BadMutation = (&'static str, Value, &'static str, &'static str);

const NOT_IDS: [&str; 8] = ["", "x", "-1", "+1", "01", "1.5", " 1", "9223372036854775808"];

fn bad_executes(known: &Known) -> Vec<BadMutation> {
    let mut cases = Vec::new();
    // Each case has a valid dedup key, so that a claim of it would be found.
    let mut case = |input: Value, code, field| {
        let mut whole = json!({ "dedup": { "key": "k" } });
        whole.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        cases.push(("execute", execute_input(whole), code, field));
    };
    for path in ["", " ", "process ", "a\nb", "a\0b", &"x".repeat(513)] {
        case(json!({ "path": path }), "INVALID_INPUT", "entry.path");
    }
    case(json!({ "path": "nowhere" }), "NOT_FOUND", "entry.path");
    case(json!({ "path": "inbox" }), "WRONG_KIND", "entry.path");
    for id in NOT_IDS {
        case(json!({ "catalogId": id }), "INVALID_INPUT", "entry.catalogId");
        case(json!({ "path": "process", "parentExecutionId": id }), "INVALID_INPUT", "parentExecutionId");
    }
    case(json!({ "catalogId": "1" }), "NOT_FOUND", "entry.catalogId");
    case(json!({ "catalogId": known.execution }), "NOT_FOUND", "entry.catalogId");
    case(json!({ "catalogId": known.subscription_entry }), "WRONG_KIND", "entry.catalogId");
    for parent in ["0", "1", &known.playbook, "9223372036854775807"] {
        case(json!({ "path": "process", "parentExecutionId": parent }), "NOT_FOUND", "parentExecutionId");
    }
    let good = |field: &str, value: Value| {
        let mut input = json!({ "path": "process" });
        input[field] = value;
        input
    };
    for value in [json!([]), json!("text"), json!(5), json!(true)] {
        case(good("workload", value), "INVALID_INPUT", "workload");
    }
    for value in [json!({ "a": "b\0c" }), json!({ "a": [{ "b\0": 1 }] })] {
        case(good("workload", value), "INVALID_INPUT", "workload");
    }
    case(good("workload", json!({ "a": "x".repeat(5 << 20) })), "PAYLOAD_TOO_LARGE", "workload");
    for parent in ["", "other", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "a\0"] {
        case(good("trace", json!({ "traceparent": parent })), "INVALID_INPUT", "trace.traceparent");
    }
    for state in ["", "a", "a=1,a=2", "A=1", "a=\0", &"k=v,".repeat(10 << 10)] {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        case(good("trace", json!({ "traceparent": parent, "tracestate": state })), "INVALID_INPUT", "trace.tracestate");
    }
    for pool in ["", "a b", "a.b", "*", ">", "ä", "a\0", &"x".repeat(65)] {
        case(good("executionPool", json!(pool)), "INVALID_INPUT", "executionPool");
    }
    let label = |name: &str, value: &str| json!({ "name": name, "value": value });
    for name in ["", "A", "a b", "a=b", "-a", "a\0", &"x".repeat(64)] {
        case(good("labels", json!([label("a", "b"), label(name, "b")])), "INVALID_INPUT", "labels.1.name");
    }
    for value in ["", "a\nb", "a\0", &"x".repeat(129)] {
        case(good("labels", json!([label("a", value)])), "INVALID_INPUT", "labels.0.value");
    }
    case(good("labels", json!([label("a", "b"), label("a", "c")])), "INVALID_INPUT", "labels.1.name");
    let many: Vec<Value> = (0..21).map(|n| label(&format!("n{n}"), "b")).collect();
    case(good("labels", json!(many)), "INVALID_INPUT", "labels");
    case(good("inheritLabels", json!(true)), "INVALID_INPUT", "inheritLabels");
    for key in ["", "a\0b", &"x".repeat(1025), &"x".repeat(1 << 20)] {
        case(good("dedup", json!({ "key": key })), "INVALID_INPUT", "dedup.key");
    }
    for seconds in [0, -1, i32::MIN, 2_592_001, i32::MAX] {
        case(good("dedup", json!({ "key": "k", "windowSeconds": seconds })), "INVALID_INPUT", "dedup.windowSeconds");
    }
    cases
}

fn bad_entries() -> Vec<BadMutation> {
    let mut cases = Vec::new();
    let mut case = |change: Value, code, field| {
        let mut whole = json!({ "path": "fresh", "content": "kind: playbook" });
        whole.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        cases.push(("registerCatalogEntry", whole, code, field));
    };
    for path in ["", " fresh", "a\0b", "a\tb", &"ä".repeat(257)] {
        case(json!({ "path": path }), "INVALID_INPUT", "path");
    }
    let deep = format!("kind: playbook\na: {}{}", "[".repeat(50_000), "]".repeat(50_000));
    let laughs = (1..30).fold("kind: playbook\na0: &a0 [x, x]\n".to_owned(), |text, n| {
        format!("{text}a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1)
    });
    let unparsable = ["a: [1", "{\"kind\": ", "\"open", "a: b: c", "a\0b", "%", "kind: *gone", &deep, &laughs];
    let no_maps = ["", "just text", "- kind: playbook", "5", "null", "[]"];
    let without_kind = ["a: 1", "kind: banana", "kind: 5", "kind: [playbook]", "kind:"];
    for content in unparsable.into_iter().chain(no_maps).chain(without_kind) {
        case(json!({ "content": content }), "INVALID_INPUT", "content");
    }
    case(json!({ "content": r#"{"kind": "playbook", "a": "b\u0000c"}"# }), "INVALID_INPUT", "content");
    let big = format!("kind: playbook\na: {}", "x".repeat(5 << 20));
    case(json!({ "content": big }), "PAYLOAD_TOO_LARGE", "content");
    case(json!({ "kind": "UNKNOWN" }), "INVALID_INPUT", "kind");
    for mutation in ["archiveCatalogEntry", "restoreCatalogEntry"] {
        for id in NOT_IDS {
            cases.push((mutation, json!({ "catalogId": id }), "INVALID_INPUT", "catalogId"));
        }
        cases.push((mutation, json!({ "catalogId": "1" }), "NOT_FOUND", "catalogId"));
    }
    cases
}

fn bad_transitions(known: &Known) -> Vec<BadMutation> {
    let mut cases = Vec::new();
    for path in ["", "a\0b", " inbox"] {
        cases.push(("registerSubscription", json!({ "path": path }), "INVALID_INPUT", "path"));
    }
    cases.push(("registerSubscription", json!({ "path": "nowhere" }), "NOT_FOUND", "path"));
    cases.push(("registerSubscription", json!({ "path": "process" }), "WRONG_KIND", "path"));
    let reasons = ["x".repeat(4097), "a\0b".to_owned()];
    for action in ["activate", "pause", "resume", "drain", "deactivate"] {
        let mutation: &'static str = format!("{action}Subscription").leak();
        for id in NOT_IDS {
            let expecting = json!({ "subscriptionId": known.subscription, "expectedLastEventId": id });
            cases.push((mutation, expecting, "INVALID_INPUT", "expectedLastEventId"));
            cases.push((mutation, json!({ "subscriptionId": id }), "INVALID_INPUT", "subscriptionId"));
        }
        for id in ["0", "1", &known.execution, &known.subscription_entry, "9223372036854775807"] {
            cases.push((mutation, json!({ "subscriptionId": id }), "NOT_FOUND", "subscriptionId"));
        }
        for reason in &reasons {
            let input = json!({ "subscriptionId": known.subscription, "reason": reason });
            cases.push((mutation, input, "INVALID_INPUT", "reason"));
        }
        let stale = json!({ "subscriptionId": known.subscription, "expectedLastEventId": known.subscription });
        cases.push((mutation, stale, "STALE_VERSION", "expectedLastEventId"));
    }
    for id in NOT_IDS {
        let ids = json!({ "ids": [known.subscription, id] });
        cases.push((BULK, json!({ "action": "ACTIVATE", "select": ids }), "INVALID_INPUT", "select.ids.1"));
        cases.push(("cancelExecution", json!({ "executionId": id }), "INVALID_INPUT", "executionId"));
    }
    let many = json!({ "ids": vec!["1"; 1001] });
    cases.push((BULK, json!({ "action": "ACTIVATE", "select": many }), "INVALID_INPUT", "select.ids"));
    let prefix = json!({ "filter": { "pathPrefix": "a\0" } });
    let input = json!({ "action": "ACTIVATE", "select": prefix });
    cases.push((BULK, input, "INVALID_INPUT", "select.filter.pathPrefix"));
    for id in ["0", "1", &known.subscription, &known.playbook] {
        cases.push(("cancelExecution", json!({ "executionId": id }), "NOT_FOUND", "executionId"));
    }
    for reason in &reasons {
        cases.push((
            BULK,
            json!({ "action": "PAUSE", "select": { "all": true }, "reason": reason }),
            "INVALID_INPUT",
            "reason",
        ));
        let input = json!({ "executionId": known.execution, "reason": reason });
        cases.push(("cancelExecution", input, "INVALID_INPUT", "reason"));
    }
    cases
}

const BULK: &str = "transitionSubscriptions";

fn input_type(mutation: &str) -> String {
    if mutation.ends_with("Subscription") && mutation != "registerSubscription" {
        return "SubscriptionTransitionInput".to_owned();
    }
    if ["archiveCatalogEntry", "restoreCatalogEntry"].contains(&mutation) {
        return "CatalogArchivingInput".to_owned();
    }
    let (first, rest) = mutation.split_at(1);
    format!("{}{rest}Input", first.to_uppercase())
}

/// Returns queries with one invalid argument, with the expected error code and field.
fn bad_queries(known: &Known) -> Vec<(String, &'static str, String)> {
    let mut cases = Vec::new();
    let mut case = |query: String, field: &str| cases.push((query, "INVALID_INPUT", field.to_owned()));
    let lists = [
        ("subscriptions(@) { nodes { id } }".to_owned(), false),
        ("executions(@) { nodes { id } }".to_owned(), true),
        ("catalogEntries(@) { nodes { id } }".to_owned(), false),
        (format!("events(executionId: \"{}\", @) {{ nodes {{ id }} }}", known.execution), false),
        (format!("execution(id: \"{}\") {{ children(@) {{ nodes {{ id }} }} }}", known.execution), true),
        (format!("execution(id: \"{}\") {{ events(@) {{ nodes {{ id }} }} }}", known.execution), false),
        (format!("subscription(by: {{id: \"{}\"}}) {{ events(@) {{ nodes {{ id }} }} }}", known.subscription), false),
        (
            format!("subscription(by: {{id: \"{}\"}}) {{ executions(@) {{ nodes {{ id }} }} }}", known.subscription),
            true,
        ),
    ];
    let cut = &known.cursor[..known.cursor.len() - 1];
    for (list, of_executions) in lists {
        for size in [0, -1, 101, i32::MIN, 5000] {
            case(list.replace('@', &format!("first: {size}")), "first");
            case(list.replace('@', &format!("last: {size}")), "last");
        }
        case(list.replace('@', "first: 1, last: 1"), "first");
        for cursor in ["", "x", "====", "\\u0000", cut, &known.cursor] {
            if of_executions && cursor == known.cursor {
                continue;
            }
            case(list.replace('@', &format!("first: 1, after: \"{cursor}\"")), "after");
            case(list.replace('@', &format!("last: 1, before: \"{cursor}\"")), "before");
        }
    }
    for id in NOT_IDS {
        case(format!("execution(id: \"{id}\") {{ id }}"), "id");
        case(format!("subscription(by: {{id: \"{id}\"}}) {{ id }}"), "by.id");
        case(format!("event(executionId: \"{id}\", eventId: \"1\") {{ id }}"), "executionId");
        case(format!("event(executionId: \"1\", eventId: \"{id}\") {{ id }}"), "eventId");
        case(format!("executionState(executionId: \"{id}\", at: {{eventId: \"1\"}}) {{ status }}"), "executionId");
        case(format!("executionState(executionId: \"1\", at: {{eventId: \"{id}\"}}) {{ status }}"), "at.eventId");
        case(format!("events(executionId: \"{id}\") {{ nodes {{ id }} }}"), "executionId");
        let parent = format!("filter: {{parentExecutionId: \"{id}\"}}");
        case(format!("executions({parent}) {{ nodes {{ id }} }}"), "filter.parentExecutionId");
        case(format!("executions(filter: {{rerunOf: \"{id}\"}}) {{ nodes {{ id }} }}"), "filter.rerunOf");
        case(format!("events(executionId: \"1\", {parent}) {{ nodes {{ id }} }}"), "filter.parentExecutionId");
        let executions = format!("filter: {{executionIds: [\"{id}\"]}}");
        case(format!("events(executionId: \"1\", {executions}) {{ nodes {{ id }} }}"), "filter.executionIds.0");
    }
    for key in ["", &"x".repeat(1025)] {
        case(format!("dedupClaim(key: \"{key}\") {{ duplicates }}"), "key");
        case(format!("executions(filter: {{dedupKey: \"{key}\"}}) {{ nodes {{ id }} }}"), "filter.dedupKey");
    }
    let nul = "a\\u0000";
    case(format!("subscription(by: {{path: \"{nul}\"}}) {{ id }}"), "by.path");
    case(format!("catalogEntry(by: {{path: \"{nul}\"}}) {{ id }}"), "by.path");
    let version = format!("by: {{pathVersion: {{path: \"{nul}\", version: 1}}}}");
    case(format!("catalogEntry({version}) {{ id }}"), "by.pathVersion.path");
    case("catalogEntry(by: {id: \"x\"}) { id }".to_owned(), "by.id");
    for list in ["subscriptions", "executions", "catalogEntries"] {
        case(format!("{list}(filter: {{pathPrefix: \"{nul}\"}}) {{ nodes {{ id }} }}"), "filter.pathPrefix");
    }
    for text in [nul, "", &"x".repeat(257)] {
        case(format!("catalogEntries(filter: {{text: \"{text}\"}}) {{ nodes {{ id }} }}"), "filter.text");
    }
    for text in ["xyz\\u0000", "xy", &"x".repeat(201)] {
        case(format!("executions(filter: {{errorContains: \"{text}\"}}) {{ nodes {{ id }} }}"), "filter.errorContains");
    }
    let many = vec!["\"x\""; 1001].join(",");
    for field in ["types", "nodeNames", "statuses"] {
        for values in [format!("\"{nul}\""), many.clone()] {
            let list = format!("events(executionId: \"1\", filter: {{{field}: [{values}]}}) {{ nodes {{ id }} }}");
            case(list, &format!("filter.{field}"));
        }
    }
    cases.extend(bad_orders_and_statistics());
    cases.extend(bad_orders_of_entries());
    cases
}

/// Returns queries of the catalog with a condition that the order does not offer, as [`bad_queries`] does.
fn bad_orders_of_entries() -> Vec<(String, &'static str, String)> {
    let mut cases = Vec::new();
    let mut case = |query: String, field: &str| cases.push((query, "INVALID_INPUT", field.to_owned()));
    let time = "\"2026-01-01T00:00:00Z\"";
    for (condition, value, offered) in [
        ("kinds", "[PLAYBOOK]", "PATH"),
        ("pathPrefix", "\"a\"", "PATH"),
        ("text", "\"a\"", "PATH"),
        ("latestOnly", "false", "PATH"),
        ("includeArchived", "true", "PATH"),
        ("createdAfter", time, "NEWEST"),
        ("createdBefore", time, "NEWEST"),
        ("archivedAfter", time, "LAST_RETIRED"),
        ("archivedBefore", time, "LAST_RETIRED"),
    ] {
        for order in ["PATH", "NEWEST", "LAST_RETIRED"].into_iter().filter(|order| *order != offered) {
            let arguments = format!("order: {order}, filter: {{{condition}: {value}}}");
            case(format!("catalogEntries({arguments}) {{ nodes {{ id }} }}"), "order");
        }
    }
    for order in ["PATH", "NEWEST", "LAST_RETIRED"] {
        let arguments = format!("order: {order}, filter: {{path: \"a\\u0000\"}}");
        case(format!("catalogEntries({arguments}) {{ nodes {{ id }} }}"), "filter.path");
    }
    cases
}

/// Returns queries of orders, of the history and of steps with one invalid argument, as [`bad_queries`] does.
fn bad_orders_and_statistics() -> Vec<(String, &'static str, String)> {
    let mut cases = Vec::new();
    let mut case = |query: String, field: &str| cases.push((query, "INVALID_INPUT", field.to_owned()));
    let orders = ["LONGEST", "LAST_ENDED"];
    for condition in [
        "path: \"a\"",
        "paths: [\"a\"]",
        "pathPrefix: \"a\"",
        "parentExecutionId: \"1\"",
        "rootsOnly: true",
        "rerunOf: \"1\"",
        "isRerun: true",
        "hasFailedSteps: false",
        "errorContains: \"abc\"",
        "executionPools: [\"a\"]",
        "labels: [{name: \"a\", exists: true}]",
        "dedupKey: \"a\"",
        "idPrefix: \"99\"",
        "startedAfter: \"2026-01-01T00:00:00Z\"",
        "startedBefore: \"2026-01-01T00:00:00Z\"",
        "organizationId: \"a\"",
    ] {
        for order in orders {
            case(format!("executions(order: {order}, filter: {{{condition}}}) {{ nodes {{ id }} }}"), "order");
        }
    }
    for condition in ["endedAfter", "endedBefore"] {
        let filter = format!("filter: {{{condition}: \"2026-01-01T00:00:00Z\"}}");
        case(format!("executions(order: LONGEST, {filter}) {{ nodes {{ id }} }}"), "order");
    }
    for (arguments, field) in [
        ("interval: DAY, from: \"2026-01-02T00:00:00Z\", to: \"2026-01-02T00:00:00Z\"", "to"),
        ("interval: HOUR, from: \"2100-01-01T00:00:00Z\", to: \"2100-12-31T00:00:00Z\"", "to"),
        ("interval: DAY, from: \"2100-01-01T00:00:00Z\", to: \"9999-01-01T00:00:00Z\"", "to"),
        ("interval: HOUR, from: \"0001-01-01T00:00:00Z\", to: \"9999-01-01T00:00:00Z\"", "from"),
        ("interval: DAY, from: \"2020-01-01T00:00:00Z\", to: \"2020-01-02T00:00:00Z\"", "from"),
        ("interval: MINUTE, from: \"2020-01-01T00:00:00Z\", to: \"2020-01-01T01:00:00Z\"", "from"),
    ] {
        case(format!("executionHistory({arguments}) {{ unavailableShards }}"), field);
    }
    let day = "interval: DAY, from: \"2026-01-01T00:00:00Z\", to: \"2026-01-02T00:00:00Z\"";
    for (field, value) in [
        ("paths", format!("[{}]", vec!["\"x\""; 101].join(","))),
        ("executionPools", "[\"a\\u0000\"]".to_owned()),
        ("tenantId", "\"a\\u0000\"".to_owned()),
        ("organizationId", "\"a\\u0000\"".to_owned()),
        ("labels", "[]".to_owned()),
    ] {
        let query = format!("executionHistory({day}, filter: {{{field}: {value}}}) {{ unavailableShards }}");
        case(query, &format!("filter.{field}"));
    }
    case("stepStats(path: \"a\\u0000\") { executions }".to_owned(), "path");
    for last in [0, -1, 501, i32::MAX] {
        case(format!("stepStats(path: \"x\", last: {last}) {{ executions }}"), "last");
    }
    cases
}

/// Returns requests that fail GraphQL validation, with a word that the message must contain.
fn outside_the_types(known: &Known) -> Vec<(String, &'static str)> {
    let execute =
        |input: &str| format!("mutation {{ execute(input: {{entry: {{path: \"process\"}}, {input}}}) {{ outcome }} }}");
    vec![
        (execute("dedup: {key: \"k\", windowSeconds: \"1\"}"), "windowSeconds"),
        (execute("dedup: {key: \"k\", windowSeconds: 3155760000}"), "input.dedup.windowSeconds"),
        (execute("dedup: {windowSeconds: 1}"), "key"),
        (execute("dedup: {key: 5}"), "key"),
        (execute("priority: 1"), "priority"),
        ("mutation { execute(input: {}) { outcome } }".to_owned(), "entry"),
        ("mutation { execute(input: {entry: {}}) { outcome } }".to_owned(), "ExecuteEntryKey"),
        (
            "mutation { execute(input: {entry: {path: \"a\", catalogId: \"1\"}}) { outcome } }".to_owned(),
            "ExecuteEntryKey",
        ),
        (format!("{{ subscription(by: {{id: \"{}\", path: \"inbox\"}}) {{ id }} }}", known.subscription), "by"),
        ("{ subscription(by: {}) { id } }".to_owned(), "by"),
        ("{ subscriptions(filter: {statuses: [ASLEEP]}) { nodes { id } } }".to_owned(), "statuses"),
        ("{ executions(filter: {startedAfter: \"yesterday\"}) { nodes { id } } }".to_owned(), "filter.startedAfter"),
        ("{ executions(first: \"ten\") { nodes { id } } }".to_owned(), "first"),
    ]
}

fn shown(text: &str) -> &str {
    text.get(..300).unwrap_or(text)
}

/// Number of cases that one operation has.
const AT_ONCE: usize = 20;
/// Length of an input from which it is sent alone.
const LARGE: usize = 100_000;

/// Sends mutations in one operation and returns those that have not their expected error.
async fn wrong_mutations(server: &Server, cases: &[BadMutation]) -> Vec<String> {
    let (mut variables, mut fields, mut inputs) = (Vec::new(), Vec::new(), Map::new());
    for (n, (mutation, input, ..)) in cases.iter().enumerate() {
        variables.push(format!("$i{n}: {}!", input_type(mutation)));
        fields.push(format!("m{n}: {mutation}(input: $i{n}) {{ userErrors {{ code field message retryable }} }}"));
        inputs.insert(format!("i{n}"), input.clone());
    }
    let query = format!("mutation({}) {{ {} }}", variables.join(", "), fields.join(" "));
    let answer = server.send(&query, Value::Object(inputs)).await.unwrap();
    let mut wrong = Vec::new();
    for (n, (mutation, input, code, field)) in cases.iter().enumerate() {
        let payload = &answer["data"][format!("m{n}")];
        let expected: Vec<&str> = field.split('.').collect();
        let errors = payload["userErrors"].as_array().cloned().unwrap_or_default();
        let right = |error: &Value| {
            error["code"] == *code
                && error["field"] == json!(expected)
                && error["retryable"] == false
                && error["message"].as_str().is_some_and(|message| (10..2000).contains(&message.len()))
        };
        if errors.len() != 1 || !errors.iter().all(right) {
            let (input, payload, others) = (input.to_string(), payload.to_string(), answer["errors"].to_string());
            let got = format!("{} {}", shown(&payload), shown(&others));
            wrong.push(format!("{mutation} {}: not {code} at {field}: {got}", shown(&input)));
        }
    }
    wrong
}

/// Sends queries in one operation and returns those that have not their expected error.
async fn wrong_queries(server: &Server, cases: &[(String, &'static str, String)]) -> Vec<String> {
    let fields: Vec<String> = cases.iter().enumerate().map(|(n, (query, ..))| format!("q{n}: {query}")).collect();
    let answer = server.send(&format!("{{ {} }}", fields.join(" ")), json!({})).await.unwrap();
    let errors = answer["errors"].as_array().cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    for (n, (query, code, field)) in cases.iter().enumerate() {
        let own: Vec<&Value> = errors.iter().filter(|error| error["path"][0] == format!("q{n}")).collect();
        let expected = json!(field.split('.').collect::<Vec<_>>());
        let right = |error: &&Value| error["extensions"]["code"] == *code && error["extensions"]["field"] == expected;
        if !own.first().is_some_and(right) {
            wrong.push(format!("{}: not {code} at {field}: {}", shown(query), shown(&json!(own).to_string())));
        }
    }
    wrong
}

#[tokio::test]
async fn invalid_input_gets_a_typed_error_and_writes_nothing() {
    let deployment = Deployment::start(2).await;
    // Without the tailer, because it writes its cursor at any time.
    let server = deployment.replica_without_feed().await;
    let known = known(&server).await;
    let before = rows(&deployment).await;
    let mut wrong = Vec::new();

    let mutations = bad_executes(&known).into_iter().chain(bad_entries()).chain(bad_transitions(&known));
    let (large, small): (Vec<_>, Vec<_>) = mutations.partition(|(_, input, ..)| input.to_string().len() >= LARGE);
    for cases in large.chunks(1).chain(small.chunks(AT_ONCE)) {
        wrong.extend(wrong_mutations(&server, cases).await);
    }
    // The failure of this field hides its siblings.
    let (alone, others): (Vec<_>, Vec<_>) =
        bad_queries(&known).into_iter().partition(|(query, ..)| query.starts_with("executions("));
    for cases in alone.chunks(1).chain(others.chunks(AT_ONCE)) {
        wrong.extend(wrong_queries(&server, cases).await);
    }
    for (request, named) in outside_the_types(&known) {
        let answer = server.send(&request, json!({})).await.unwrap();
        let error = &answer["errors"][0];
        let coded = error["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED";
        if !coded || !error["message"].as_str().unwrap_or_default().contains(named) {
            wrong.push(format!("{request}: not about {named}: {}", shown(&answer.to_string())));
        }
    }

    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(rows(&deployment).await, before, "invalid input changed the databases");
    // The server still works, and no invalid request has claimed the key.
    let good = server.execute(json!({ "path": "process", "dedup": { "key": "k" } })).await;
    assert_eq!(good["outcome"], "STARTED", "{good}");
}

#[tokio::test]
async fn missing_objects_are_null_and_wrong_pages_and_times_are_refused_with_their_field() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    missing_objects(&server).await;
    large_pages(&server).await;
    wrong_times(&server).await;
}

/// Missing objects are null, and missing lists are empty.
async fn missing_objects(server: &Server) {
    let known = known(server).await;
    for (field, argument) in [
        ("execution", "id: \"1\""),
        ("subscription", "by: {id: \"1\"}"),
        ("subscription", "by: {path: \"x\"}"),
        ("event", "executionId: \"1\", eventId: \"1\""),
        ("catalogEntry", "by: {id: \"1\"}"),
        ("catalogEntry", "by: {path: \"x\"}"),
        ("catalogEntry", "by: {pathVersion: {path: \"process\", version: 0}}"),
        ("catalogEntry", "by: {pathVersion: {path: \"process\", version: 2}}"),
        ("catalogEntry", "by: {pathVersion: {path: \"process\", version: 100000}}"),
    ] {
        let data = server.data(&format!("{{ {field}({argument}) {{ id }} }}"), json!({})).await;
        assert_eq!(data[field], Value::Null, "{field}({argument})");
    }
    let of_another_kind = format!(
        "{{ execution(id: \"{}\") {{ id }} subscription(by: {{id: \"{}\"}}) {{ id }} }}",
        known.subscription, known.execution
    );
    let data = server.data(&of_another_kind, json!({})).await;
    assert_eq!(data, json!({ "execution": null, "subscription": null }));
    let data = server.data("{ events(executionId: \"1\") { nodes { id } } }", json!({})).await;
    assert_eq!(data["events"]["nodes"], json!([]));
}

/// A page beyond the maximum fails only its own field.
async fn large_pages(server: &Server) {
    for arguments in ["first: 101", "first: 50000", "last: 2147483647"] {
        let query = format!(
            "{{ executions({arguments}) {{ nodes {{ id steps {{ nodes {{ name }} }} events(first: 2) {{ nodes {{ id }} }} }} }} server {{ version }} }}"
        );
        let answer = server.send(&query, json!({})).await.unwrap();
        let error = &answer["errors"][0];
        let field = arguments.split(':').next().unwrap();
        let extensions = json!({ "code": "INVALID_INPUT", "field": [field], "retryable": false });
        assert_eq!(error["extensions"], extensions, "{answer}");
        assert_eq!((&error["path"], &answer["data"]["executions"]), (&json!(["executions"]), &Value::Null));
        assert!(answer["data"]["server"]["version"].is_string(), "{answer}");
    }
    let answer = server.send("{ executions(first: 99999999999) { nodes { id } } }", json!({})).await.unwrap();
    assert_eq!(answer["errors"][0]["extensions"]["code"], "GRAPHQL_VALIDATION_FAILED", "{answer}");
    let query = "query($n: Int) { executions(first: $n) { nodes { id } } }";
    let answer = server.send(query, json!({ "n": 99_999_999_999_u64 })).await.unwrap();
    assert_eq!(answer["errors"][0]["extensions"]["code"], "GRAPHQL_VALIDATION_FAILED", "{answer}");
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("$n"), "{answer}");
    let mutation = "mutation { claimOutbox(input: { select: { all: true } limit: 1000000 }) { claims { entryId }
        userErrors { code field } } }";
    let refused = server.data(mutation, json!({})).await["claimOutbox"].take();
    assert_eq!(refused["userErrors"], json!([{ "code": "INVALID_INPUT", "field": ["limit"] }]));
}

/// A wrong time is refused with its path.
async fn wrong_times(server: &Server) {
    let literal = "{ executions(filter: { startedAfter: \"junk\" }) { nodes { id } } }";
    let field = "query($v: DateTime) { executions(filter: { startedAfter: $v }) { nodes { id } } }";
    let filter = "query($v: ExecutionFilter) { executions(filter: $v) { nodes { id } } }";
    let mutation = "mutation($v: ExecutionFilter!) { it: cancelExecutions(input: { select: { filter: $v } }) {
        userErrors { code } } }";
    let nested = json!(["input", "select", "filter", "startedAfter"]);
    let junk = json!({ "path": "a", "startedAfter": "junk" });
    for (query, value, path) in [
        (literal, Value::Null, json!(["filter", "startedAfter"])),
        (field, json!("2026-13-01T00:00:00Z"), json!(["filter", "startedAfter"])),
        (field, json!(5), json!(["filter", "startedAfter"])),
        (filter, junk.clone(), json!(["filter", "startedAfter"])),
        (mutation, junk, nested),
    ] {
        let answer = server.send(query, json!({ "v": value })).await.unwrap();
        let extensions = json!({ "code": "GRAPHQL_VALIDATION_FAILED", "field": path, "retryable": false });
        assert_eq!(answer["errors"][0]["extensions"], extensions, "{query}: {answer}");
        assert!(answer["errors"][0]["message"].as_str().unwrap().contains("2026-01-31T12:00:00Z"), "{answer}");
    }
    let answer = server.send(field, json!({ "v": "2100-01-01T00:00:00+02:00" })).await.unwrap();
    assert_eq!(answer["data"]["executions"]["nodes"], json!([]), "{answer}");
}
