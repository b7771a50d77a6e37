//! The catalog: versions increase without gaps under concurrency, an entry never changes, and lists are filtered and
//! ordered.

use futures::future::join_all;
use noetl_testkit::feed::run;
use noetl_testkit::pages::read_pages;
use noetl_testkit::{Deployment, Server};
use serde_json::{Value, json};

const REGISTER: &str = "mutation($input: RegisterCatalogEntryInput!) { registerCatalogEntry(input: $input) {
    catalogEntry { id: catalogId path version kind content document workload labels createdAt }
    userErrors { code field message } } }";

async fn register(server: &Server, input: Value) -> Value {
    let payload = server.data(REGISTER, json!({ "input": input })).await["registerCatalogEntry"].clone();
    assert_eq!(payload["userErrors"], json!([]));
    payload["catalogEntry"].clone()
}

async fn entry(server: &Server, path: &str, version: Option<u32>) -> Value {
    let query = "query($by: CatalogEntryKey!) { catalogEntry(by: $by) {
        id: catalogId path version kind content document workload labels createdAt } }";
    let by = match version {
        Some(version) => json!({ "pathVersion": { "path": path, "version": version } }),
        None => json!({ "path": path }),
    };
    server.data(query, json!({ "by": by })).await["catalogEntry"].clone()
}

const YAML: &str = "\
kind: Playbook
workload: &defaults
  greeting: \"grüß dich\"
  retries: 3
  ratio: 0.5
  on: true
  nothing: null
steps:
  - { name: one, with: *defaults }
  - name: two
    text: |
      line
      line
";

#[tokio::test]
async fn yaml_and_json_entries_keep_their_content_and_get_increasing_versions_in_filtered_lists() {
    let deployment = Deployment::start(1).await;
    let (one, other) = tokio::join!(deployment.replica(), deployment.replica());
    lists(&one).await;
    orders(&deployment, &one).await;
    documents(&one).await;
    kinds(&one).await;
    versions(&one, &other).await;
    executed_versions(&one, &other).await;
}

/// YAML and JSON give the same document, and the content is kept unchanged.
async fn documents(server: &Server) {
    let defaults = json!({ "greeting": "grüß dich", "retries": 3, "ratio": 0.5, "on": true, "nothing": null });
    let parsed = json!({ "kind": "Playbook", "workload": defaults,
        "steps": [{ "name": "one", "with": defaults }, { "name": "two", "text": "line\nline\n" }] });
    let of_yaml = register(server, json!({ "path": "a", "content": YAML })).await;
    let of_json = register(server, json!({ "path": "b", "content": parsed.to_string() })).await;
    assert_eq!((&of_yaml["document"], &of_json["document"]), (&parsed, &parsed));
    assert_eq!((&of_yaml["workload"], &of_json["workload"]), (&defaults, &defaults));
    assert_eq!((&of_yaml["content"], &of_json["content"]), (&json!(YAML), &json!(parsed.to_string())));
    assert_eq!((&of_yaml["labels"], &of_json["labels"]), (&Value::Null, &Value::Null));
    assert_eq!((&of_yaml["kind"], &of_json["kind"]), (&json!("PLAYBOOK"), &json!("PLAYBOOK")));
    assert_eq!(entry(server, "a", None).await, of_yaml);
}

/// The kind is taken from the input, or else from the content.
async fn kinds(server: &Server) {
    let cases = [
        (json!(null), "kind: agent", "AGENT"),
        (json!("SUBSCRIPTION"), "kind: agent", "SUBSCRIPTION"),
        (json!("MCP"), "a: 1", "MCP"),
        (json!(null), "{\"kind\": \"Memory\"}", "MEMORY"),
        (json!("CREDENTIAL"), "kind: nonsense", "CREDENTIAL"),
    ];
    for (kind, content, expected) in cases {
        let registered = register(server, json!({ "path": "kinds", "kind": kind, "content": content })).await;
        assert_eq!(registered["kind"], expected, "{content}");
    }
}

/// Concurrent registrations give versions without a gap or a duplicate.
async fn versions(one: &Server, other: &Server) {
    let registers = (0..100).map(|n| {
        let (path, content) = (["counted/a", "counted/b"][n / 2 % 2], format!("kind: playbook\nn: {n}"));
        register([one, other][n % 2], json!({ "path": path, "content": content }))
    });
    let registered = join_all(registers).await;
    for path in ["counted/a", "counted/b"] {
        let of_path: Vec<&Value> = registered.iter().filter(|entry| entry["path"] == path).collect();
        let mut versions: Vec<u64> = of_path.iter().map(|entry| entry["version"].as_u64().unwrap()).collect();
        versions.sort_unstable();
        assert_eq!(versions, (1..=50).collect::<Vec<_>>(), "{path}");
        // Each replica returns a version exactly as it was registered, and the newest version is the last one.
        for entry_of_path in of_path {
            let version = entry_of_path["version"].as_u64().map(|version| u32::try_from(version).unwrap());
            assert_eq!(&entry(one, path, version).await, entry_of_path);
        }
        assert_eq!(entry(other, path, None).await["version"], 50);
        assert_eq!(entry(other, path, Some(51)).await, Value::Null);
    }
}

/// An execution runs the newest version, or the given one.
async fn executed_versions(one: &Server, other: &Server) {
    let mut ids = Vec::new();
    for n in 1..=3 {
        let content = json!({ "kind": "playbook", "workload": { "version": n } });
        ids.push(one.register_entry("process", &content).await);
        // A replica that has already used the path sees its new version.
        let answer = other.execute(json!({ "path": "process" })).await;
        let started = answer["execution"]["id"].clone();
        let query = "query($id: ID!) { execution(id: $id) { workload catalogEntry { id: catalogId version } } }";
        let seen = other.data(query, json!({ "id": started })).await["execution"].clone();
        assert_eq!(seen["workload"], json!({ "version": n }));
        assert_eq!(seen["catalogEntry"], json!({ "id": ids[n - 1], "version": n }));
    }
    let query = "mutation($id: ID!) { execute(input: {entry: {catalogId: $id}}) { execution { workload } } }";
    let first = other.data(query, json!({ "id": ids[0] })).await["execute"]["execution"].clone();
    assert_eq!(first["workload"], json!({ "version": 1 }));
}

const LIST: &str = "
query($order: CatalogOrder, $filter: CatalogFilter, $first: Int, $after: String, $last: Int, $before: String) {
    catalogEntries(order: $order, filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { path version } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } totalCount { value } } }";

/// Reads the list in pages of `size`, forwards or backwards. Returns the items in the order of the list. Their number is
/// `totalCount`.
async fn walk(
    server: &Server,
    order: Option<&str>,
    filter: &Value,
    size: usize,
    backwards: bool,
) -> Vec<(String, u64)> {
    let pages = read_pages(size, backwards, async |mut range: Value| {
        range["order"] = json!(order);
        range["filter"] = filter.clone();
        server.data(LIST, range).await["catalogEntries"].take()
    })
    .await;
    let nodes = pages.iter().flat_map(|page| page["nodes"].as_array().unwrap());
    let found: Vec<_> =
        nodes.map(|node| (node["path"].as_str().unwrap().to_owned(), node["version"].as_u64().unwrap())).collect();
    for page in &pages {
        assert_eq!(page["totalCount"]["value"], found.len(), "{order:?} {filter}");
    }
    found
}

/// Lists are filtered, and ordered by path and version. Only this part's entries exist.
async fn lists(server: &Server) {
    let paths = ["a/1", "a/1/deep", "a/10", "a_1", "b/1", "ä/1", "a%1"];
    for (n, path) in paths.into_iter().enumerate() {
        let kind = ["PLAYBOOK", "SUBSCRIPTION", "AGENT"][n % 3];
        for _ in 0..=n % 4 {
            register(server, json!({ "path": path, "kind": kind, "content": "a: 1" })).await;
        }
    }
    let all = |pick: &dyn Fn(usize, &str) -> bool, latest: bool| -> Vec<(String, u64)> {
        let mut entries: Vec<(String, u64)> = Vec::new();
        for (n, path) in paths.into_iter().enumerate().filter(|(n, path)| pick(*n, path)) {
            let versions = n as u64 % 4 + 1;
            entries
                .extend((1..=versions).filter(|version| !latest || *version == versions).map(|v| (path.to_owned(), v)));
        }
        entries.sort();
        entries
    };
    let cases: [(Value, Vec<(String, u64)>); 19] = [
        (Value::Null, all(&|_, _| true, true)),
        (json!({ "latestOnly": null }), all(&|_, _| true, true)),
        (json!({ "latestOnly": false }), all(&|_, _| true, false)),
        (json!({ "pathPrefix": "a/1" }), all(&|_, path| path.starts_with("a/1"), true)),
        (json!({ "pathPrefix": "a_" }), all(&|_, path| path == "a_1", true)),
        (json!({ "pathPrefix": "a%", "latestOnly": false }), all(&|_, path| path == "a%1", false)),
        (json!({ "path": "a/1" }), all(&|_, path| path == "a/1", true)),
        (json!({ "path": "a_1", "latestOnly": false }), all(&|_, path| path == "a_1", false)),
        (json!({ "path": "a/1", "pathPrefix": "a/1/" }), Vec::new()),
        (json!({ "path": "a" }), Vec::new()),
        (json!({ "kinds": ["AGENT", "SUBSCRIPTION"] }), all(&|n, _| n % 3 != 0, true)),
        (json!({ "kinds": ["PLAYBOOK"], "pathPrefix": "b/" }), Vec::new()),
        (json!({ "kinds": [] }), Vec::new()),
        (json!({ "kinds": ["UNKNOWN"] }), Vec::new()),
        (json!({ "text": "/1" }), all(&|_, path| path.contains("/1"), true)),
        (json!({ "text": "ä/" }), all(&|_, path| path == "ä/1", true)),
        (json!({ "text": "%" }), all(&|_, path| path == "a%1", true)),
        (json!({ "text": "1", "kinds": ["AGENT"], "latestOnly": false }), all(&|n, _| n % 3 == 2, false)),
        (json!({ "text": "nothing" }), Vec::new()),
    ];
    for (filter, expected) in cases {
        for size in [1, 3, 100] {
            for backwards in [false, true] {
                let found = walk(server, None, &filter, size, backwards).await;
                assert_eq!(found, expected, "{filter} in pages of {size}, backwards: {backwards}");
            }
        }
    }
}

/// Lists by registration and by retirement have all versions, many with equal times. Only entries of [`lists`] exist.
async fn orders(deployment: &Deployment, server: &Server) {
    let mut database = deployment.cluster().await;
    let times = "UPDATE noetl.catalog SET
                     created_at = timestamp '2026-01-01 12:00' - version * interval '1 hour',
                     archived_at = CASE WHEN version < 4
                                   THEN timestamptz '2026-02-01 12:00+00' + version % 2 * interval '1 hour' END";
    run(&mut database, times).await;
    let cases = [
        ("NEWEST", json!({}), "SELECT path, version FROM noetl.catalog ORDER BY created_at DESC, catalog_id DESC"),
        (
            "NEWEST",
            json!({ "path": "a_1" }),
            "SELECT path, version FROM noetl.catalog WHERE path = 'a_1' ORDER BY created_at DESC, catalog_id DESC",
        ),
        (
            "NEWEST",
            json!({ "createdAfter": "2026-01-01T09:00:00Z", "createdBefore": "2026-01-01T11:00:00Z" }),
            "SELECT path, version FROM noetl.catalog WHERE version IN (2, 3) ORDER BY created_at DESC, catalog_id DESC",
        ),
        (
            "NEWEST",
            json!({ "path": "a_1", "createdBefore": "2026-01-01T10:00:00Z" }),
            "SELECT path, version FROM noetl.catalog WHERE path = 'a_1' AND version > 2
             ORDER BY created_at DESC, catalog_id DESC",
        ),
        (
            "LAST_RETIRED",
            Value::Null,
            "SELECT path, version FROM noetl.catalog WHERE archived_at IS NOT NULL
             ORDER BY archived_at DESC, catalog_id DESC",
        ),
        (
            "LAST_RETIRED",
            json!({ "path": "a_1" }),
            "SELECT path, version FROM noetl.catalog WHERE path = 'a_1' AND archived_at IS NOT NULL
             ORDER BY archived_at DESC, catalog_id DESC",
        ),
        (
            "LAST_RETIRED",
            json!({ "archivedAfter": "2026-02-01T12:00:00Z", "archivedBefore": "2026-02-01T13:00:00Z" }),
            "SELECT path, version FROM noetl.catalog WHERE version = 2 ORDER BY archived_at DESC, catalog_id DESC",
        ),
    ];
    for (order, filter, expected) in cases {
        let expected: Vec<(String, i16)> = sqlx::query_as(expected).fetch_all(&mut database).await.unwrap();
        let expected: Vec<(String, u64)> =
            expected.into_iter().map(|(path, version)| (path, u64::try_from(version).unwrap())).collect();
        assert!(!expected.is_empty(), "{order} {filter}");
        for size in [1, 3, 100] {
            for backwards in [false, true] {
                let found = walk(server, Some(order), &filter, size, backwards).await;
                assert_eq!(found, expected, "{order} {filter} in pages of {size}, backwards: {backwards}");
            }
        }
    }
    foreign_cursors(server).await;
    run(&mut database, "UPDATE noetl.catalog SET archived_at = NULL").await;
}

/// A cursor is valid only in its order.
async fn foreign_cursors(server: &Server) {
    let orders = ["PATH", "NEWEST", "LAST_RETIRED"];
    for order in orders {
        let first = server.data(LIST, json!({ "order": order, "first": 1, "filter": null })).await;
        for other in orders.into_iter().filter(|other| *other != order) {
            let cursor = &first["catalogEntries"]["pageInfo"]["endCursor"];
            let refused = server.send(LIST, json!({ "order": other, "after": cursor })).await.unwrap();
            let extensions = &refused["errors"][0]["extensions"];
            assert_eq!(
                (&extensions["code"], &extensions["field"]),
                (&json!("INVALID_INPUT"), &json!(["after"])),
                "{order} {other} {refused}"
            );
        }
    }
}
