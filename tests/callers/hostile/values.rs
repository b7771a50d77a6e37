//! Hostile values: variables, literals and JSON.

use serde_json::{Value, json};

use super::corpus::{Corpus, parts};

const INVALID: &str = "GRAPHQL_VALIDATION_FAILED";
const MALFORMED: &str = "BAD_REQUEST";
const BYTES: &str = "LIMIT_EXCEEDED argument_bytes";

pub fn add(corpus: &mut Corpus) {
    variables(corpus);
    literals(corpus);
    json_values(corpus);
}

fn variables(corpus: &mut Corpus) {
    large_variables(corpus);
    let mut add = |name, expected, query: &str, variables: Value| {
        corpus.with("variables", name, expected, query, &variables);
    };
    let filter = |prefixes: &str| format!("executions(filter: {{ pathPrefix: {prefixes} }}) {{ totalCount }}");
    let defined = parts(1_000, |index| format!("$v{index}: Int"));
    add("definitions", "LIMIT_EXCEEDED variables", &format!("query ({defined}) {{ server {{ version }} }}"), json!({}));
    let unused = parts(100, |index| format!("$v{index}: Int"));
    add("unused definitions", INVALID, &format!("query ({unused}) {{ server {{ version }} }}"), json!({}));
    add(
        "one definition 100 times",
        INVALID,
        &format!("query ({}) {{ {} }}", "$v: Int ".repeat(100), filter("$v")),
        json!({}),
    );
    add("undefined", INVALID, &format!("{{ {} }}", parts(300, |index| filter(&format!("$v{index}")))), json!({}));
    let types = format!("query ($v: {}Int{}) {{ server {{ version }} }}", "[".repeat(60), "]".repeat(60));
    add("lists of lists", INVALID, &types, json!({ "v": null }));
    let deep = (0..100).fold(json!(1), |value, _| json!([value]));
    add("a value 100 deep", INVALID, "query ($v: ID!) { execution(id: $v) { id } }", json!({ "v": deep }));
    let object = json!({ "v": { "id": "1", "path": "x" } });
    add(
        "two fields where one is allowed",
        INVALID,
        "query ($v: SubscriptionKey!) { subscription(by: $v) { id } }",
        object,
    );
}

/// Returns the JSON of a list of equal values, as the variable `v`.
fn listed(value: &str, count: usize) -> String {
    let others = format!("{value},").repeat(count - 1);
    format!(r#"{{"v":[{others}{value}]}}"#)
}

fn large_variables(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str, variables: &str| {
        corpus.with_text("variables", name, expected, query, variables);
    };
    let text = |length| format!(r#"{{"v":"{}"}}"#, "x".repeat(length));
    // Validation would copy the value at each use: 1.4 GiB.
    let uses = format!(
        "query ($v: String) {{ events(executionId: \"1\", filter: {{ types: [{}] }}) {{ nodes {{ id }} }} }}",
        "$v ".repeat(2_000)
    );
    add("500 kB used 2,000 times", BYTES, &uses, &text(500_000));
    let more_uses = uses.replace("$v ", "$v $v $v $v $v ");
    add("4 MiB used 9,900 times", "LIMIT_EXCEEDED tokens", &more_uses, &text(4 << 20));
    add("15 MiB used twice", BYTES, &uses.replace(&"$v ".repeat(2_000), "$v $v"), &text(15 << 20));
    let default = uses.replace("$v: String", &format!("$v: String = \"{}\"", "x".repeat(100_000)));
    add("a default used 2,000 times", BYTES, &default, "{}");
    let many = listed(&format!(r#""{}""#, "x".repeat(30)), 50_000);
    let in_list =
        "query ($v: [String!]) { executions(first: 100) { nodes { events(filter: { types: $v }) { nodes { id } } } } }";
    add("a list in a list", BYTES, in_list, &many);
    let zeros = listed("0", 200_000);
    let statuses = "query ($v: [Int!]) { executions(first: 1, filter: { statuses: $v }) { nodes { id } } }";
    add("a list of 200,000 numbers", "LIMIT_EXCEEDED values", statuses, &zeros);
    add("a list for a text", "LIMIT_EXCEEDED values", "query ($v: ID!) { execution(id: $v) { id } }", &zeros);
    let unknown = parts(300_000, |index| format!(r#""f{index}":0,"#)).replace(' ', "");
    let input = "mutation ($v: ExecuteInput!) { execute(input: $v) { outcome } }";
    add("unknown fields", "LIMIT_EXCEEDED values", input, &format!(r#"{{"v":{{{unknown}"f":0}}}}"#));
    let undeclared = parts(50_000, |index| format!(r#""v{index}":{index},"#));
    add("undeclared", "ok", "{ server { version } }", &format!(r#"{{{undeclared}"v":0}}"#));
    let events = "mutation ($v: [EventInput!]!) { projectEvents(input: { events: $v }) { inserted } }";
    add("25,000 wrong values", INVALID, events, &listed(r#"{"unknown":1}"#, 25_000));
}

fn literals(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str| corpus.query("literals", name, expected, query);
    let workload = |value: &str| {
        format!("mutation {{ execute(input: {{ entry: {{ path: \"p\" }} workload: {value} }}) {{ outcome }} }}")
    };
    let entry = |value: &str| format!("{{ executions(first: 1, filter: {value}) {{ pageInfo {{ hasNextPage }} }} }}");
    add("a long string", INVALID, &entry(&format!("{{ statuses: \"{}\" }}", "x".repeat(250_000))));
    add("a document of one string", "LIMIT_EXCEEDED document_bytes", &entry(&format!("\"{}\"", "x".repeat(300_000))));
    add("escapes", INVALID, &entry(&format!("{{ statuses: \"{}\" }}", "\\u00e4".repeat(40_000))));
    add("a block string of lines", INVALID, &entry(&format!("{{ statuses: \"\"\"{}\"\"\" }}", "  x\n".repeat(60_000))));
    add("a string without an end", "GRAPHQL_PARSE_FAILED", &format!("{{ a(b: \"{}", "x".repeat(200_000)));
    add(
        "a number of 200,000 digits",
        INVALID,
        &format!("{{ executions(first: {}) {{ totalCount }} }}", "9".repeat(200_000)),
    );
    add("a number out of range", INVALID, &workload("1e999"));
    add("lists in lists", "LIMIT_EXCEEDED brackets", &workload(&format!("{}{}", "[".repeat(4_000), "]".repeat(4_000))));
    add(
        "objects in objects",
        "LIMIT_EXCEEDED brackets",
        &workload(&format!("{}1{}", "{a:".repeat(2_000), "}".repeat(2_000))),
    );
    add("a list of 5,000", INVALID, &entry(&format!("{{ statuses: [{}] }}", "ASLEEP ".repeat(5_000))));
    let keys = parts(3_000, |index| format!("k{index}: 1"));
    add("an object of 3,000 keys", "LIMIT_EXCEEDED comparisons", &workload(&format!("{{ {keys} }}")));
    let keys = parts(200, |_| "k: 1".to_owned());
    add("one key 200 times", INVALID, &workload(&format!("{{ {keys} }}")));
    let equal = parts(10, |_| {
        format!(
            "execute(input: {{ entry: {{ path: \"p\" }} workload: {{ {} }} }}) {{ outcome }}",
            parts(100, |index| format!("k{index}: 1"))
        )
    });
    add("objects that are compared", "LIMIT_EXCEEDED comparisons", &format!("mutation {{ {equal} }}"));
    let copied = format!(
        "{{ executions(first: 100) {{ nodes {{ events(filter: {{ types: [{}] }}) {{ totalCount }} }} }} }}",
        "\"x\" ".repeat(3_000)
    );
    add("a literal in a list", BYTES, &copied);
}

fn json_values(corpus: &mut Corpus) {
    let mut add = |name, expected, body: String| corpus.body("JSON", name, expected, body);
    let with = |variables: &str| format!(r#"{{"query":"{{ server {{ version }} }}","variables":{variables}}}"#);
    let key = "$serde_json::private::RawValue";
    add("the key of raw JSON", "ok", with(&format!(r#"{{"{key}":1}}"#)));
    add("the key of raw JSON with text", "ok", with(&format!(r#"{{"{key}":"{{}}","{}":1}}"#, "x".repeat(33))));
    add("the key of raw numbers", "ok", with(r#"{"$serde_json::private::Number":"1"}"#));
    add("a batch", MALFORMED, format!("[{}]", vec![with("{}"); 1_000].join(",")));
    add("1,000,001 values", "LIMIT_EXCEEDED", with(&listed("1", 1_000_001)));
    add("900,000 values", "ok", with(&listed("1", 900_000)));
    add("10,000 levels", "INVALID_INPUT", with(&format!(r#"{{"a":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000))));
    add("a number of 100,000 digits", "INVALID_INPUT", with(&format!(r#"{{"a":{}}}"#, "9".repeat(100_000))));
    add("one key 100,000 times", "ok", with(&format!("{{{}}}", vec![r#""a":1"#; 100_000].join(","))));
    add("half of a surrogate pair", "INVALID_INPUT", with(r#"{"a":"\ud800"}"#));
    add("no end", MALFORMED, with("{\"a\":"));
    add("variables before a wrong query", MALFORMED, format!(r#"{{"variables":{},"query":1}}"#, listed("0", 200_000)));
    add("no JSON", MALFORMED, "\u{0}".repeat(100_000));
    add(
        "an operation name of 1 MB",
        INVALID,
        format!(r#"{{"query":"{{ server {{ version }} }}","operationName":"{}"}}"#, "x".repeat(1 << 20)),
    );
    add(
        "extensions",
        "ok",
        format!(r#"{{"query":"{{ server {{ version }} }}","extensions":{{"a":[{}]}}}}"#, vec!["{}"; 100_000].join(",")),
    );
}
