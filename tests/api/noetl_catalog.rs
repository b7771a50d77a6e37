//! Catalog entries have NoETL's form: each product reads the entries of the other, and a subscription's document
//! determines the defaults of its executions.

use noetl_domain::document::Document;
use noetl_testkit::outbox::NO_RELAY;
use noetl_testkit::{Deployment, Server, eventually};
use serde_json::{Value, json};

const FLOW: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: flow
  path: work/flow
  labels: { team: orders }
workload:
  currency: EUR
  order: { id: unknown }
workflow:
  - step: start
    tool: { kind: noop }
";

const INBOX: &str = "\
apiVersion: noetl.io/v1
kind: Subscription
metadata: { name: inbox }
spec:
  source: nats
  mode: pull
  activation: scheduled
  stream: ORDERS
  dispatch: { playbook: work/flow, execution_pool: orders, batch_dispatch: true, batch_max: 1000 }
  dedup: { enabled: true, window_secs: 7 }
  limits: { max_in_flight: 64, max_dispatch_per_sec: 20 }
  headers: { directives: [{ header: x-noetl-pool, controls: dispatch.execution_pool, allowed: [orders, bulk] }] }
  spool: { mode: buffer_and_ack, bucket: overflow, ordering: per_key }
";

const ENTRIES: &str = "SELECT count(*) FROM noetl.catalog";

async fn register(server: &Server, input: Value) -> Value {
    let query = "mutation($input: RegisterCatalogEntryInput!) { registerCatalogEntry(input: $input) {
        catalogEntry { id: catalogId path version kind content document workload labels }
        userErrors { code field message } } }";
    server.data(query, json!({ "input": input })).await["registerCatalogEntry"].clone()
}

/// Returns the code and the field of the first user error.
fn error(payload: &Value) -> String {
    let error = &payload["userErrors"][0];
    let field: Vec<&str> = error["field"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    format!("{} {}", error["code"].as_str().unwrap_or_default(), field.join("."))
}

/// Registers a document without naming a path, and returns the entry.
async fn registered(server: &Server, content: &str) -> Value {
    let payload = register(server, json!({ "content": content })).await;
    assert_eq!(payload["userErrors"], json!([]));
    payload["catalogEntry"].clone()
}

/// Stores an entry as NoETL's server does, and returns its id.
async fn insert(deployment: &Deployment, path: &str, kind: &str, content: &str, payload: Option<Value>) -> i64 {
    let statement = "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content, layout, payload, meta)
                     SELECT coalesce(max(catalog_id), 0) + 1, $1, 1, $2, $3, '[{\"step\": \"start\"}]', $4, NULL
                     FROM noetl.catalog RETURNING catalog_id";
    let row = sqlx::query_scalar(statement).bind(path).bind(kind).bind(content).bind(payload);
    row.fetch_one(&mut deployment.cluster().await).await.unwrap()
}

#[tokio::test]
async fn entries_are_stored_and_read_as_noetl_does() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    stored_entry(&deployment, &server).await;
    default_workload(&deployment, &server).await;
    unreadable_document(&deployment, &server).await;
    paths(&server).await;
    concurrent_registrations(&deployment, &server).await;
}

/// An entry is stored as NoETL stores it. It is the only one.
async fn stored_entry(deployment: &Deployment, server: &Server) {
    let entry = registered(server, FLOW).await;
    let workload = json!({ "currency": "EUR", "order": { "id": "unknown" } });
    let workflow = json!([{ "step": "start", "tool": { "kind": "noop" } }]);
    let row = "SELECT jsonb_build_array(path, version, kind, content, payload, layout, meta) FROM noetl.catalog";
    let row: Value = sqlx::query_scalar(row).fetch_one(&mut deployment.cluster().await).await.unwrap();
    assert_eq!(row, json!(["work/flow", 1, "playbook", FLOW, workload, workflow, { "team": "orders" }]));
    assert_eq!((&entry["path"], &entry["content"]), (&json!("work/flow"), &json!(FLOW)));
    assert_eq!(entry["workload"], workload);
    assert_eq!(
        (&entry["labels"], &entry["document"]["metadata"]["name"]),
        (&json!({ "team": "orders" }), &json!("flow"))
    );
}

/// The path is the one of the document, unless the document has only a name.
async fn paths(server: &Server) {
    let both = "kind: playbook\nmetadata: { name: flow, path: work/flow }";
    let name = "kind: playbook\nmetadata: { name: flow }";
    for (input, path) in [
        (json!({ "content": both }), "work/flow"),
        (json!({ "content": name }), "flow"),
        (json!({ "content": both, "path": "work/flow" }), "work/flow"),
        (json!({ "content": name, "path": "elsewhere" }), "elsewhere"),
        (json!({ "content": "kind: playbook", "path": "short" }), "short"),
    ] {
        let payload = register(server, input.clone()).await;
        assert_eq!(payload["catalogEntry"]["path"], path, "{input} {payload}");
    }
    for (input, field) in [
        (json!({ "content": "kind: playbook" }), "path"),
        (json!({ "content": "kind: playbook\nmetadata: { path: 5 }" }), "path"),
        (json!({ "content": both, "path": "elsewhere" }), "path"),
        (json!({ "content": "kind: playbook\nmetadata: { path: ' a' }" }), "content.metadata.path"),
    ] {
        let payload = register(server, input.clone()).await;
        assert_eq!(error(&payload), format!("INVALID_INPUT {field}"), "{input} {payload}");
    }
}

/// The default workload comes from the document of either product. All entries have the same workload.
async fn default_workload(deployment: &Deployment, server: &Server) {
    let workload = json!({ "currency": "EUR", "order": { "id": "unknown" } });
    let theirs = insert(deployment, "theirs", "playbook", FLOW, Some(workload.clone())).await;
    registered(server, FLOW).await;
    for path in ["work/flow", "theirs"] {
        let id = server.execute(json!({ "path": path, "workload": { "order": { "id": "o-1" } } })).await;
        let query = "query($id: ID!) { execution(id: $id) { workload } }";
        let execution = server.data(query, json!({ "id": id["execution"]["id"] })).await["execution"].clone();
        assert_eq!(execution["workload"], json!({ "currency": "EUR", "order": { "id": "o-1" } }), "{path}");
    }
    let query = "{ catalogEntry(by: {path: \"theirs\"}) { id: catalogId kind workload document } }";
    let entry = server.data(query, json!({})).await["catalogEntry"].clone();
    assert_eq!((&entry["id"], &entry["workload"]), (&json!(theirs.to_string()), &workload));
    assert_eq!((&entry["kind"], &entry["document"]["kind"]), (&json!("PLAYBOOK"), &json!("Playbook")));
    let list = "{ catalogEntries { nodes { path document } } }";
    let list = server.data(list, json!({})).await["catalogEntries"]["nodes"].clone();
    assert!(list.as_array().unwrap().iter().all(|entry| entry["document"]["workload"] == workload), "{list}");
}

/// An entry whose document can't be read can't be executed.
async fn unreadable_document(deployment: &Deployment, server: &Server) {
    insert(deployment, "broken", "playbook", "a: [1", None).await;
    let refused = server.execute(json!({ "path": "broken" })).await;
    assert_eq!(error(&refused), "INVALID_INPUT entry.path", "{refused}");
    let entry = server
        .data(
            "{ catalogEntry(by: {path: \"broken\"}) { content document workload name workloadFields { name } } }",
            json!({}),
        )
        .await;
    assert_eq!(
        entry["catalogEntry"],
        json!({ "content": "a: [1", "document": null, "workload": null, "name": null, "workloadFields": [] })
    );
}

/// Registrations of both products at the same time get their own versions.
async fn concurrent_registrations(deployment: &Deployment, server: &Server) {
    let mut theirs = deployment.cluster().await;
    sqlx::query("BEGIN").execute(&mut theirs).await.unwrap();
    let row =
        "INSERT INTO noetl.catalog (catalog_id, path, version, kind, content) VALUES (1, 'a', 1, 'playbook', 'x')";
    sqlx::query(row).execute(&mut theirs).await.unwrap();
    let theirs = async {
        eventually("the registration waits for the row of the other server", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                           AND wait_event_type = 'Lock' AND query LIKE '%noetl.catalog%'";
            (deployment.in_cluster(waiting).await > 0).then_some(())
        })
        .await;
        sqlx::query("COMMIT").execute(&mut theirs).await.unwrap();
    };
    let (ours, ()) = tokio::join!(register(server, json!({ "path": "a", "content": "kind: playbook" })), theirs);
    assert_eq!((&ours["userErrors"], &ours["catalogEntry"]["version"]), (&json!([]), &json!(2)));
}

const SPEC: &str = "query($id: ID!) { subscription(by: {id: $id}) { catalogId executionPool spec {
    source mode activation ingress { gatewayPath verify { type header secret audience serviceAccount } }
    dispatch { playbook executionPool batchDispatch batchMax } dedup { enabled windowSeconds }
    limits { maxInFlight maxDispatchPerSecond } directives { header controls allowed }
    spool { mode backend bucket path ordering } } } }";

async fn subscription(server: &Server, path: &str) -> Value {
    let id = server.register(path).await["subscription"]["id"].clone();
    server.data(SPEC, json!({ "id": id })).await["subscription"].clone()
}

#[tokio::test]
async fn the_document_of_a_subscription_is_typed_and_determines_window_and_pool_of_its_executions() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica_with(&[NO_RELAY]).await;
    typed_document(&server).await;
    unknown_names(&deployment, &server).await;
    short_form(&server).await;
    invalid_documents(&deployment, &server).await;
    window_and_pool(&deployment, &server).await;
    refused_pool(&server).await;
}

/// The document of a subscription is typed.
async fn typed_document(server: &Server) {
    let entry = registered(server, INBOX).await;
    let found = subscription(server, "inbox").await;
    assert_eq!((&found["catalogId"], &found["executionPool"]), (&entry["id"], &json!("orders")));
    let expected = json!({
        "source": "NATS", "mode": "PULL", "activation": "SCHEDULED", "ingress": null,
        "dispatch": { "playbook": "work/flow", "executionPool": "orders", "batchDispatch": true, "batchMax": 1000 },
        "dedup": { "enabled": true, "windowSeconds": 7 },
        "limits": { "maxInFlight": 64, "maxDispatchPerSecond": 20 },
        "directives": [{ "header": "x-noetl-pool", "controls": "dispatch.execution_pool", "allowed": ["orders", "bulk"] }],
        "spool": { "mode": "BUFFER_AND_ACK", "backend": "NATS_OBJECT", "bucket": "overflow", "path": null,
                   "ordering": "PER_KEY" },
    });
    assert_eq!(found["spec"], expected);

    let push = "kind: Subscription\nmetadata: { name: hooks }\nspec:\n  source: webhook\n  mode: push\n  \
                ingress: { gateway_path: /in/hooks, verify: { type: bearer, secret: hook_token } }\n  \
                dispatch: { playbook: work/flow }\n";
    registered(server, push).await;
    let found = subscription(server, "hooks").await;
    assert_eq!((&found["spec"]["mode"], &found["spec"]["activation"]), (&json!("PUSH"), &Value::Null));
    let verify = json!({ "type": "BEARER", "header": null, "secret": "hook_token", "audience": null,
                         "serviceAccount": null });
    assert_eq!(found["spec"]["ingress"], json!({ "gatewayPath": "/in/hooks", "verify": verify }));
    assert_eq!(found["executionPool"], Value::Null);
}

/// Unknown names in a stored document are shown as such, and hide no other setting.
async fn unknown_names(deployment: &Deployment, server: &Server) {
    let stored = INBOX
        .replace("source: nats", "source: sqs")
        .replace("activation: scheduled", "activation: weekly")
        .replace("mode: buffer_and_ack", "mode: mirror")
        .replace("ordering: per_key", "ordering: by_size");
    insert(deployment, "inbox/unknown", "subscription", &stored, None).await;
    registered(server, FLOW).await;
    let id = server.register("inbox/unknown").await["subscription"]["id"].take();
    let query = "query($id: ID!) { subscription(by: {id: $id}) { executionPool spec { source sourceText mode modeText
        activation activationText dispatch { playbook } dedup { windowSeconds }
        spool { mode modeText backend backendText ordering orderingText } } } }";
    let found = server.data(query, json!({ "id": id })).await["subscription"].take();
    let expected = json!({
        "source": "UNKNOWN", "sourceText": "sqs", "mode": "PULL", "modeText": "pull",
        "activation": "UNKNOWN", "activationText": "weekly",
        "dispatch": { "playbook": "work/flow" }, "dedup": { "windowSeconds": 7 },
        "spool": { "mode": "UNKNOWN", "modeText": "mirror", "backend": "NATS_OBJECT", "backendText": "nats_object",
                   "ordering": "UNKNOWN", "orderingText": "by_size" },
    });
    assert_eq!((&found["spec"], &found["executionPool"]), (&expected, &json!("orders")));
    let message = json!({ "path": "work/flow", "parentExecutionId": id, "dedup": { "key": "m" } });
    assert_eq!(server.execute(message).await["outcome"], "STARTED");
    let windows = "SELECT count(*) FROM noetl.subscription_dedup
                   WHERE dedup_key = 'm' AND expires_at - seen_at = interval '7 s'";
    assert_eq!(deployment.in_cluster(windows).await, 1);
}

/// The short form of a subscription is typed too.
async fn short_form(server: &Server) {
    let short =
        "kind: subscription\nsource: { type: nats, subject: a.b }\nplaybook: work/flow\ndedup: { window_secs: 9 }";
    for (path, content) in [("short/form", short), ("short/bare", "kind: subscription")] {
        let payload = register(server, json!({ "path": path, "content": content })).await;
        assert_eq!(payload["userErrors"], json!([]));
    }
    let spec = subscription(server, "short/form").await["spec"].clone();
    assert_eq!((&spec["source"], &spec["mode"]), (&json!("NATS"), &Value::Null));
    assert_eq!((&spec["dispatch"]["playbook"], &spec["dedup"]["windowSeconds"]), (&json!("work/flow"), &json!(9)));
    let spec = subscription(server, "short/bare").await["spec"].clone();
    assert_eq!((&spec["source"], &spec["dispatch"]["playbook"]), (&Value::Null, &Value::Null));
}

/// An invalid document of a subscription is refused with its field.
async fn invalid_documents(deployment: &Deployment, server: &Server) {
    let entries = deployment.in_cluster(ENTRIES).await;
    for (valid, invalid, field) in [
        ("source: nats", "source: rabbitmq", "content.spec.source"),
        ("mode: pull", "mode: push", "content.spec.ingress.gateway_path"),
        ("batch_max: 1000", "batch_max: 1001", "content.spec.dispatch.batch_max"),
        ("window_secs: 7", "window_secs: 0", "content.spec.dedup.window_secs"),
        ("max_in_flight: 64", "max_in_flight: many", "content.spec.limits.max_in_flight"),
        ("header: x-noetl-pool, ", "", "content.spec.headers.directives.0.header"),
        ("bucket: overflow, ", "", "content.spec.spool.bucket"),
    ] {
        let content = INBOX.replace(valid, invalid);
        assert_ne!(content, INBOX);
        let payload = register(server, json!({ "content": content })).await;
        assert_eq!(error(&payload), format!("INVALID_INPUT {field}"), "{invalid} {payload}");
    }
    assert_eq!(deployment.in_cluster(ENTRIES).await, entries);
}

/// Window and pool of an execution are those of the subscription's document.
async fn window_and_pool(deployment: &Deployment, server: &Server) {
    insert(deployment, "inbox/window", "subscription", INBOX, None).await;
    registered(server, FLOW).await;
    let inbox = server.register("inbox/window").await["subscription"]["id"].clone();
    let message = |key: &str, pool: Value| json!({ "path": "work/flow", "parentExecutionId": inbox, "executionPool": pool, "dedup": { "key": key } });
    let child = server.execute(message("m-1", Value::Null)).await["execution"]["id"].clone();
    let other = server.execute(message("m-2", json!("gpu"))).await["execution"]["id"].clone();
    let alone = server.execute(json!({ "path": "work/flow" })).await["execution"]["id"].clone();
    let windows = "SELECT count(*) FROM noetl.subscription_dedup
                   WHERE dedup_key IN ('m-1', 'm-2') AND expires_at - seen_at = interval '7 s'";
    assert_eq!(deployment.in_cluster(windows).await, 2);
    for (id, pool, subject) in
        [(&child, json!("orders"), "orders"), (&other, json!("gpu"), "gpu"), (&alone, Value::Null, "shared")]
    {
        let query = "query($id: ID!) { execution(id: $id) { executionPool catalogId catalogEntry { id: catalogId } } }";
        let execution = server.data(query, json!({ "id": id })).await["execution"].clone();
        assert_eq!((&execution["executionPool"], &execution["catalogId"]), (&pool, &execution["catalogEntry"]["id"]));
        let subjects: Vec<String> = deployment
            .rows("SELECT subject FROM noetl.outbox WHERE execution_id = $1", id.as_str().unwrap())
            .await
            .into_iter()
            .map(|(subject,): (String,)| subject)
            .collect();
        assert_eq!(subjects, [format!("noetl.executions.{subject}.{}", id.as_str().unwrap())]);
    }
}

/// A pool of a document that can't be in a subject refuses the execution.
async fn refused_pool(server: &Server) {
    let document = INBOX.replace("execution_pool: orders", "execution_pool: a.b");
    registered(server, &document.replace("name: inbox", "name: refused")).await;
    registered(server, FLOW).await;
    let inbox = server.register("refused").await["subscription"]["id"].clone();
    let refused = server.execute(json!({ "path": "work/flow", "parentExecutionId": inbox })).await;
    assert_eq!(error(&refused), "INVALID_INPUT executionPool", "{refused}");
    let named = json!({ "path": "work/flow", "parentExecutionId": inbox, "executionPool": "orders" });
    assert_eq!(server.execute(named).await["outcome"], "STARTED");
}

/// NoETL's rules for a playbook: the version, the kind, a step `start`, a tool for each step, and arcs to known steps.
#[test]
fn the_sample_catalog_follows_the_rules_of_noetl() {
    let samples = [
        ("samples/orders/inbox", include_str!("../../examples/catalog/orders-inbox.yaml")),
        ("samples/orders/process", include_str!("../../examples/catalog/orders-process.yaml")),
        ("samples/reports/daily", include_str!("../../examples/catalog/reports-daily.yaml")),
    ];
    for (path, text) in samples {
        let document = Document::parse(text).unwrap();
        assert_eq!((document.path(), document.name().is_some()), (Some(path), true));
        assert!(document.labels().unwrap().as_object().unwrap().values().all(Value::is_string), "{path}");
        assert_eq!(document.value()["apiVersion"], "noetl.io/v2", "{path}");
        if document.kind() == Some("Subscription") {
            let spec = document.subscription().unwrap();
            assert_eq!((spec.dispatch.playbook.as_deref(), spec.dedup.enabled), (Some("samples/orders/process"), true));
            continue;
        }
        assert_eq!(document.kind(), Some("Playbook"), "{path}");
        let steps = document.workflow().unwrap().as_array().unwrap();
        let names: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
        assert!(names.contains(&"start"), "{path}");
        for step in steps {
            let tools = step["tool"].as_array().map_or(std::slice::from_ref(&step["tool"]), Vec::as_slice);
            assert!(!tools.is_empty() && tools.iter().all(|tool| tool["kind"].is_string()), "{path} {step}");
            let arcs = step["next"]["arcs"].as_array().into_iter().flatten();
            assert!(arcs.clone().all(|arc| names.contains(&arc["step"].as_str().unwrap())), "{path} {step}");
            assert_eq!(arcs.count(), usize::from(step["step"] != "end"), "{path} {step}");
        }
    }
}
