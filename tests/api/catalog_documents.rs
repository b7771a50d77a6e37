//! Parts of a catalog entry's document: workflow and workload, for diagrams and forms; search by name; validation; and
//! registration of changed content only.

use noetl_testkit::pages::texts;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const ORDERS: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: Order process, path: shop/orders, description: Charges orders., labels: { team: shop } }
workload:
  order: { id: null, items: [] }
  currency: EUR
  retries: 3
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: charge, when: '{{ workload.order.id }}' }, { step: end }] }
  - step: charge
    desc: Charges the order.
    when: '{{ not paid }}'
    loop: { in: '{{ workload.order.items }}', iterator: item, spec: { mode: parallel } }
    tool:
      - { name: pay, kind: http }
      - confirm: { kind: playbook, path: shop/confirm }
    next: end
  - step: end
    tool: { kind: noop }
";

const REGISTER: &str = "mutation($input: RegisterCatalogEntryInput!) { registerCatalogEntry(input: $input) {
    outcome catalogEntry { id path version } userErrors { code field message } } }";

async fn register(server: &Server, input: Value) -> Value {
    server.data(REGISTER, json!({ "input": input })).await["registerCatalogEntry"].clone()
}

/// Fields that an entry and a draft have.
const PARTS: &str = "path kind name description labels workload
    workloadFields { name type default required fields { name type required } }
    workflow { steps { name description condition routing tools { label kind playbook }
        repetition { mode iterator items } transitions { to condition } } }";

/// Returns the parts of [`ORDERS`].
fn parts() -> Value {
    let noop = json!([{ "label": null, "kind": "noop", "playbook": null }]);
    let step = |name: &str, routing: &str, transitions: Value| {
        json!({ "name": name, "description": null, "condition": null, "routing": routing, "tools": noop,
                "repetition": null, "transitions": transitions })
    };
    let to_charge = json!({ "to": "charge", "condition": "{{ workload.order.id }}" });
    let to_end = json!({ "to": "end", "condition": null });
    let mut charge = step("charge", "EXCLUSIVE", json!([to_end]));
    charge["description"] = json!("Charges the order.");
    charge["condition"] = json!("{{ not paid }}");
    charge["repetition"] = json!({ "mode": "PARALLEL", "iterator": "item", "items": "{{ workload.order.items }}" });
    charge["tools"] = json!([{ "label": "pay", "kind": "http", "playbook": null },
                             { "label": "confirm", "kind": "playbook", "playbook": "shop/confirm" }]);
    let order = json!({ "id": null, "items": [] });
    let field = |name: &str, of: &str, default: Value| json!({ "name": name, "type": of, "default": default, "required": false, "fields": [] });
    let mut of_order = field("order", "OBJECT", order.clone());
    of_order["fields"] = json!([{ "name": "id", "type": "UNKNOWN", "required": true },
                                { "name": "items", "type": "LIST", "required": false }]);
    json!({
        "path": "shop/orders", "kind": "PLAYBOOK", "name": "Order process", "description": "Charges orders.",
        "labels": { "team": "shop" }, "workload": { "order": order, "currency": "EUR", "retries": 3 },
        "workloadFields": [of_order, field("currency", "STRING", json!("EUR")), field("retries", "INTEGER", json!(3))],
        "workflow": { "steps": [step("start", "INCLUSIVE", json!([to_charge, to_end])), charge,
                                step("end", "EXCLUSIVE", json!([]))] },
    })
}

#[tokio::test]
async fn documents_are_shown_in_parts_validated_compared_and_found_by_name() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    shown_parts(&server).await;
    validation(&deployment, &server).await;
    names(&deployment, &server).await;
    changed_content(&server).await;
    versions_and_executions(&server).await;
}

/// A document is shown in parts for diagrams and forms. No other entry exists.
async fn shown_parts(server: &Server) {
    let id = register(server, json!({ "content": ORDERS })).await["catalogEntry"]["id"].clone();
    let query = format!(
        "query($id: ID!) {{ one: catalogEntry(by: {{id: $id}}) {{ {PARTS} }}
            all: catalogEntries {{ nodes {{ {PARTS} }} edges {{ node {{ kindText }} }} }} }}"
    );
    let found = server.data(&query, json!({ "id": id })).await;
    assert_eq!((&found["one"], &found["all"]["nodes"]), (&parts(), &json!([parts()])));
    assert_eq!(found["all"]["edges"], json!([{ "node": { "kindText": "playbook" } }]));

    register(server, json!({ "path": "bare", "content": "kind: credential" })).await;
    let bare = format!("{{ catalogEntry(by: {{path: \"bare\"}}) {{ {PARTS} }} }}");
    let expected = json!({ "path": "bare", "kind": "CREDENTIAL", "name": null, "description": null, "labels": null,
                           "workload": null, "workloadFields": [], "workflow": null });
    assert_eq!(server.data(&bare, Value::Null).await["catalogEntry"], expected);
}

const ENTRIES: &str = "SELECT count(*) FROM noetl.catalog";

/// A validation returns the errors of a registration, and registers nothing.
async fn validation(deployment: &Deployment, server: &Server) {
    let before = deployment.in_cluster(ENTRIES).await;
    let query = format!(
        "query($input: ValidateCatalogEntryInput!) {{ validateCatalogEntry(input: $input) {{
            entry {{ {PARTS} document }} userErrors {{ code field message }} }} }}"
    );
    let validate =
        async |input: &Value| server.data(&query, json!({ "input": input })).await["validateCatalogEntry"].clone();
    let mut valid = validate(&json!({ "content": ORDERS })).await;
    assert_eq!(valid["entry"]["document"]["kind"], "Playbook");
    valid["entry"].as_object_mut().unwrap().remove("document");
    assert_eq!(valid, json!({ "entry": parts(), "userErrors": [] }));
    for input in [
        json!({ "content": "a: [1" }),
        json!({ "content": "kind: playbook" }),
        json!({ "content": "kind: nonsense", "path": "a" }),
        json!({ "content": "kind: playbook", "path": " a" }),
        json!({ "content": "kind: playbook", "path": "a", "kind": "UNKNOWN" }),
        json!({ "content": "kind: subscription\nspec: { source: rabbitmq }", "path": "a" }),
    ] {
        let (validated, refused) = (validate(&input).await, register(server, input.clone()).await);
        assert_eq!((&validated["entry"], &validated["userErrors"]), (&Value::Null, &refused["userErrors"]), "{input}");
        assert_eq!(validated["userErrors"][0]["code"], "INVALID_INPUT", "{input}");
    }
    assert_eq!(deployment.in_cluster(ENTRIES).await, before);
}

/// Only changed content is registered if the request says so.
async fn changed_content(server: &Server) {
    let orders = ORDERS.replace("shop/orders", "shop/changed");
    let orders = orders.as_str();
    let input = |content: &str| json!({ "content": content, "onlyIfChanged": true });
    let changed = orders.replace("retries: 3", "retries: 4");
    let mut first = register(server, input(orders)).await;
    assert_eq!((&first["outcome"], &first["catalogEntry"]["version"]), (&json!("ADDED"), &json!(1)));
    first["outcome"] = json!("UNCHANGED");
    assert_eq!(register(server, input(orders)).await, first);
    let second = register(server, input(&changed)).await;
    assert_eq!((&second["outcome"], &second["catalogEntry"]["version"]), (&json!("ADDED"), &json!(2)));
    // Only the newest version is compared, and another kind is a change.
    assert_eq!(register(server, input(orders)).await["catalogEntry"]["version"], 3);
    let kind = json!({ "content": orders, "kind": "AGENT", "onlyIfChanged": true });
    assert_eq!(register(server, kind).await["catalogEntry"]["version"], 4);
    let always = register(server, json!({ "content": orders, "kind": "AGENT" })).await;
    assert_eq!((&always["outcome"], &always["catalogEntry"]["version"]), (&json!("ADDED"), &json!(5)));
}

/// Entries of both products are found by a part of their name. No other entry has such a name.
async fn names(deployment: &Deployment, server: &Server) {
    register(server, json!({ "content": ORDERS })).await;
    let theirs = "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content)
                  SELECT n, 'theirs/' || n, 1, kind, content FROM (VALUES
                      (1, 'playbook', E'kind: Playbook\\nmetadata: { name: Reorder }'),
                      (2, 'playbook', '{\"metadata\": {\"name\": \"a\\u0000order\"}}'),
                      (3, 'playbook', 'a: [1'), (4, 'playbook', NULL), (5, 'notebook', 'a: 1')) AS t (n, kind, content)";
    let kind = "INSERT INTO noetl.resource (name) VALUES ('notebook')";
    let mut cluster = deployment.cluster().await;
    for statement in [kind, theirs] {
        sqlx::query(statement).execute(&mut cluster).await.unwrap();
    }
    let unnamed = "SELECT count(*) FROM noetl.catalog WHERE name IS NULL";
    eventually("all names are read", async || (deployment.in_cluster(unnamed).await == 0).then_some(())).await;
    eventually("the names are counted", async || {
        (server.metric("noetl_catalog_named_total").await >= 5.0).then_some(())
    })
    .await;
    let list = "query($filter: CatalogFilter!) { catalogEntries(filter: $filter) {
        nodes { path kind kindText } totalCount { value capped } } }";
    let found = async |filter: Value| {
        let list = server.data(list, json!({ "filter": filter })).await["catalogEntries"].clone();
        let paths = texts(&list["nodes"], "path");
        assert_eq!(list["totalCount"], json!({ "value": paths.len(), "capped": false }));
        paths
    };
    assert_eq!(found(json!({ "text": "oRDer" })).await, ["shop/orders", "theirs/1", "theirs/2"]);
    assert_eq!(found(json!({ "text": "order process" })).await, ["shop/orders"]);
    assert_eq!(found(json!({ "text": "reorder", "kinds": ["PLAYBOOK"] })).await, ["theirs/1"]);
    assert_eq!(found(json!({ "kinds": ["UNKNOWN"] })).await, ["theirs/5"]);
    assert_eq!(found(json!({ "kinds": ["UNKNOWN", "MCP"], "text": "order" })).await, Vec::<String>::new());
    let notebook = "{ catalogEntry(by: {path: \"theirs/5\"}) { kind kindText } }";
    let notebook = server.data(notebook, Value::Null).await["catalogEntry"].clone();
    assert_eq!(notebook, json!({ "kind": "UNKNOWN", "kindText": "notebook" }));
}

const LISTS: &str = "query($path: String!, $first: Int, $after: String, $last: Int, $before: String) {
    catalogEntry(by: {path: $path}) {
        versions(first: $first, after: $after, last: $last, before: $before) {
            nodes { version content } totalCount { value } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }
        executions { nodes { id } totalCount { value capped } unavailableShards } } }";

async fn lists(server: &Server, path: &str, page: Value) -> Value {
    let mut variables = page;
    variables["path"] = json!(path);
    server.data(LISTS, variables).await["catalogEntry"].clone()
}

fn versions(lists: &Value) -> Vec<u64> {
    lists["versions"]["nodes"].as_array().unwrap().iter().map(|node| node["version"].as_u64().unwrap()).collect()
}

/// An entry lists its versions and its executions.
async fn versions_and_executions(server: &Server) {
    let mut ids = Vec::new();
    for n in 1..=5 {
        ids.push(server.register_entry("process", &json!({ "kind": "playbook", "n": n })).await);
    }
    server.register_entry("other", &json!({ "kind": "playbook" })).await;
    let mut started = Vec::new();
    for input in [json!({ "catalogId": ids[1] }), json!({ "path": "process" }), json!({ "path": "process" })] {
        started.push(server.execute(input).await["execution"]["id"].clone());
    }
    let first = lists(server, "process", json!({ "first": 2 })).await;
    assert_eq!((versions(&first), &first["versions"]["totalCount"]["value"]), (vec![5, 4], &json!(5)));
    assert!(first["versions"]["nodes"][0]["content"].as_str().unwrap().contains("\"n\":5"), "{first}");
    let info = &first["versions"]["pageInfo"];
    assert_eq!((&info["hasNextPage"], &info["hasPreviousPage"]), (&json!(true), &json!(false)));
    let next = lists(server, "process", json!({ "first": 9, "after": info["endCursor"] })).await;
    assert_eq!(versions(&next), [3, 2, 1]);
    let before = lists(server, "process", json!({ "last": 2, "before": next["versions"]["pageInfo"]["endCursor"] }));
    assert_eq!(versions(&before.await), [3, 2]);

    let newest = &first["executions"];
    assert_eq!(newest["nodes"], json!([{ "id": started[2] }, { "id": started[1] }]));
    assert_eq!(newest["totalCount"], json!({ "value": 2, "capped": false }));
    assert_eq!(newest["unavailableShards"], json!([]));
    let query = "query($id: ID!) { catalogEntry(by: {id: $id}) { version
        executions(first: 1) { nodes { id } pageInfo { hasNextPage } totalCount(upTo: 1) { value } } } }";
    let second = server.data(query, json!({ "id": ids[1] })).await["catalogEntry"].clone();
    assert_eq!((&second["version"], &second["executions"]["nodes"]), (&json!(2), &json!([{ "id": started[0] }])));
    let none = server.data(query, json!({ "id": ids[0] })).await["catalogEntry"]["executions"].clone();
    assert_eq!((&none["nodes"], &none["totalCount"]["value"]), (&json!([]), &json!(0)));
}
