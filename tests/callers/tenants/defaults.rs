//! Defaults and filters of tenants and organizations, and the claims of crashed callers.

use noetl_testkit::feed::{Reader, run};
use noetl_testkit::worker::{event, event_with};
use noetl_testkit::{Deployment, Server, eventually, execute_input};
use serde_json::{Value, json};

use super::snapshots;

const EXECUTE: &str = "mutation($input: ExecuteInput!) { execute(input: $input) {
    execution { id tenantId organizationId } userErrors { code field } } }";

#[tokio::test]
async fn tenants_and_organizations_have_defaults_are_kept_and_can_be_selected() {
    let deployment = Deployment::start(2).await;
    abandon_a_claim(&deployment).await;
    let server = deployment.feed_replica().await;
    server.register_entry("flow", &json!({ "kind": "playbook" })).await;
    for path in ["abandoned", "filtered", "defaults", "registered", "events"] {
        server.register_entry(path, &json!({ "kind": "subscription" })).await;
    }
    abandon_a_registration(&deployment).await;
    // First, because it lists everything of some tenants.
    Box::pin(lists_and_live_events_can_be_limited_to_a_tenant_and_an_organization(&deployment, &server)).await;
    executions_have_the_tenant_of_the_parent_or_the_named_one_or_the_default(&deployment, &server).await;
    a_registration_that_names_another_tenant_than_the_live_subscriptions_is_rejected(&server).await;
    events_have_the_tenant_of_their_execution(&deployment, &server).await;
    a_request_that_names_a_tenant_differs_from_one_that_names_none(&server).await;
    snapshots::a_state_is_read_from_the_snapshot_of_its_tenant_only(&deployment, &server).await;
    abandoned_claims_and_registrations_are_finished_with_their_tenants(&deployment).await;
}

async fn execute(server: &Server, more: Value) -> Value {
    let mut input = json!({ "path": "flow" });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.data(EXECUTE, json!({ "input": execute_input(input) })).await["execute"].take()
}

/// Starts an execution and returns its id.
async fn started(server: &Server, more: Value) -> String {
    let payload = execute(server, more).await;
    payload["execution"]["id"].as_str().unwrap_or_else(|| panic!("{payload}")).to_owned()
}

/// Returns the tenant and the organization of every row of an execution.
async fn owners(deployment: &Deployment, id: &str) -> Vec<String> {
    let query = "SELECT DISTINCT concat_ws('/', tenant_id, organization_id) FROM (
                     SELECT execution_id, tenant_id, organization_id FROM noetl.execution
                     UNION ALL SELECT execution_id, tenant_id, organization_id FROM noetl.event
                     UNION ALL SELECT execution_id, tenant_id, organization_id FROM noetl.outbox
                     UNION ALL SELECT execution_id, payload ->> 'tenant_id', payload ->> 'organization_id'
                     FROM noetl.outbox
                 ) AS row WHERE execution_id = $1";
    deployment.rows::<(String,)>(query, id).await.into_iter().map(|row| row.0).collect()
}

/// A child has the tenant and the organization of its parent, or another organization that the request names.
async fn executions_have_the_tenant_of_the_parent_or_the_named_one_or_the_default(
    deployment: &Deployment,
    server: &Server,
) {
    let plain = started(server, json!({})).await;
    assert_eq!(owners(deployment, &plain).await, ["default/default"]);
    let parent = started(server, json!({ "tenantId": "acme", "organizationId": "west" })).await;
    assert_eq!(owners(deployment, &parent).await, ["acme/west"]);
    let child = started(server, json!({ "parentExecutionId": parent })).await;
    assert_eq!(owners(deployment, &child).await, ["acme/west"]);
    let east = started(server, json!({ "parentExecutionId": parent, "organizationId": "east" })).await;
    assert_eq!(owners(deployment, &east).await, ["acme/east"]);
    let foreign = execute(server, json!({ "parentExecutionId": parent, "tenantId": "globex" })).await;
    assert_eq!(foreign["userErrors"], json!([{ "code": "INVALID_INPUT", "field": ["tenantId"] }]));
    for (field, name) in [("tenantId", String::new()), ("organizationId", "x".repeat(257)), ("tenantId", "a\nb".into())]
    {
        let invalid = execute(server, json!({ field: name })).await;
        assert_eq!(invalid["userErrors"], json!([{ "code": "INVALID_INPUT", "field": [field] }]));
    }

    let register =
        "mutation { registerSubscription(input: { path: \"defaults\", tenantId: \"acme\", organizationId: \"west\" }) {
        subscription { id tenantId organizationId } } }";
    let subscription = server.data(register, Value::Null).await["registerSubscription"]["subscription"].take();
    assert_eq!((&subscription["tenantId"], &subscription["organizationId"]), (&json!("acme"), &json!("west")));
    let message = started(server, json!({ "parentExecutionId": subscription["id"] })).await;
    assert_eq!(owners(deployment, &message).await, ["acme/west"]);
}

/// A caller without a tenant gets the live subscription of a path, unless it names another tenant.
async fn a_registration_that_names_another_tenant_than_the_live_subscriptions_is_rejected(server: &Server) {
    let register = async |more: &str| {
        let query = format!(
            "mutation {{ registerSubscription(input: {{ path: \"registered\" {more} }}) {{
                subscription {{ id }} userErrors {{ code field }} }} }}"
        );
        server.data(&query, Value::Null).await["registerSubscription"].take()
    };
    let first = register(", tenantId: \"acme\"").await["subscription"].take();
    assert_eq!(register("").await["subscription"], first, "a caller that names no tenant gets the live one");
    assert_eq!(register(", tenantId: \"acme\"").await["subscription"], first);
    let refused = json!([{ "code": "INVALID_TRANSITION", "field": ["path"] }]);
    assert_eq!(register(", tenantId: \"globex\"").await["userErrors"], refused);
}

/// Events that name no tenant have that of their execution, of its first event, or the default.
async fn events_have_the_tenant_of_their_execution(deployment: &Deployment, server: &Server) {
    let execution = started(server, json!({ "tenantId": "acme", "organizationId": "west" })).await;
    let subscription =
        "mutation { registerSubscription(input: { path: \"events\", tenantId: \"globex\" }) { subscription { id } } }";
    let subscription =
        server.data(subscription, Value::Null).await["registerSubscription"]["subscription"]["id"].take();
    let id = |text: &Value| text.as_str().unwrap().parse::<i64>().unwrap();
    let (execution, subscription, unknown, unlisted) = (execution.parse().unwrap(), id(&subscription), 71, 72);
    let first = event_with(unlisted, 5, &json!({ "tenantId": "initech", "organizationId": "north" }));
    assert_eq!(server.project(&[first]).await["projected"], 1);
    let late = 900_000_000_000_000_000;
    let events = [
        event(execution, late),
        event_with(execution, late + 1, &json!({ "tenantId": "globex" })),
        event_with(execution, late + 2, &json!({ "organizationId": "east" })),
        event(subscription, late + 3),
        event(unknown, late + 4),
        event(unlisted, late + 5),
    ];
    assert_eq!(server.project(&events).await["projected"], 6);
    let query = "SELECT concat_ws('/', tenant_id, organization_id) FROM noetl.event WHERE event_id = $1";
    let expected = ["acme/west", "globex/default", "acme/east", "globex/default", "default/default", "initech/north"];
    for (at, expected) in (0..).zip(expected) {
        let found = deployment.rows::<(String,)>(query, &(late + at).to_string()).await;
        assert_eq!(found, [(expected.to_owned(),)], "event {at}");
    }
}

/// Lists, logs and live events have exactly the rows of the tenant and the organization of their filter.
async fn lists_and_live_events_can_be_limited_to_a_tenant_and_an_organization(
    deployment: &Deployment,
    server: &Server,
) {
    deployment.feeds_begun().await;
    let mut ids = Vec::new();
    for (tenant, organization) in [("acme", "west"), ("acme", "east"), ("globex", "west")] {
        ids.push(started(server, json!({ "tenantId": tenant, "organizationId": organization })).await);
    }
    let register =
        "mutation { registerSubscription(input: { path: \"filtered\", tenantId: \"acme\", organizationId: \"west\" }) {
        subscription { id } } }";
    let subscription = server.data(register, Value::Null).await["registerSubscription"]["subscription"]["id"].take();
    for (filter, executions, subscriptions) in [
        (json!({ "tenantId": "acme" }), vec![&ids[0], &ids[1]], 1),
        (json!({ "organizationId": "west" }), vec![&ids[0], &ids[2]], 1),
        (json!({ "tenantId": "globex", "organizationId": "west" }), vec![&ids[2]], 0),
        (json!({ "tenantId": "default" }), vec![], 0),
    ] {
        let query = "query($e: ExecutionFilter, $s: SubscriptionFilter, $o: OutboxFilter) {
            executions(filter: $e) { nodes { id } } subscriptions(filter: $s) { nodes { id } }
            outbox { entries(filter: $o) { nodes { executionId } } } }";
        let found = server.data(query, json!({ "e": filter, "s": filter, "o": filter })).await;
        let texts = |list: &Value, field: &str| {
            let texts = list.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned());
            let mut texts: Vec<String> = texts.collect();
            texts.sort();
            texts
        };
        let mut expected: Vec<String> = executions.into_iter().cloned().collect();
        expected.sort();
        assert_eq!(texts(&found["executions"]["nodes"], "id"), expected, "{filter}");
        assert_eq!(texts(&found["outbox"]["entries"]["nodes"], "executionId"), expected, "{filter}");
        assert_eq!(found["subscriptions"]["nodes"].as_array().unwrap().len(), subscriptions, "{filter}");
        let stored = "query($id: ID!, $filter: EventFilter) { events(executionId: $id, filter: $filter) { nodes { id: eventId } } }";
        let log = server.data(stored, json!({ "id": subscription, "filter": filter })).await;
        assert_eq!(log["events"]["nodes"].as_array().unwrap().len(), subscriptions, "{filter}");
        deployment.until_all_published().await;
        let reader = Reader::open(server, json!({ "beginning": true }), filter.clone()).await;
        assert_eq!(reader.seen.len(), expected.len() + subscriptions, "{filter}");
    }
}

/// Dedup keys without a parent are unique within a tenant.
async fn a_request_that_names_a_tenant_differs_from_one_that_names_none(server: &Server) {
    let dedup = json!({ "key": "a" });
    let first = server.execute(json!({ "path": "flow", "dedup": dedup })).await;
    let same = server.execute(json!({ "path": "flow", "dedup": dedup })).await;
    assert_eq!((&same["executionId"], &same["differs"]), (&first["executionId"], &json!(false)));
    let other = server.execute(json!({ "path": "flow", "dedup": dedup, "tenantId": "acme" })).await;
    assert_eq!(other["outcome"], "STARTED", "keys without a parent are unique within a tenant");
    let east = json!({ "path": "flow", "dedup": dedup, "tenantId": "acme", "organizationId": "east" });
    let east = server.execute(east).await;
    assert_eq!((&east["executionId"], &east["differs"]), (&other["executionId"], &json!(true)));
}

/// Leaves a dedup claim of a caller that crashed before it started the execution 1.
async fn abandon_a_claim(deployment: &Deployment) {
    let claims = "INSERT INTO noetl.subscription_dedup
            (subscription_id, dedup_key, execution_id, request_hash, state, request, seen_at, expires_at)
        SELECT 0, 1, 1, '\\x00', 0,
               jsonb_build_object('execution_id', 1, 'event_id', 11, 'parent_execution_id', NULL, 'catalog_id', 0,
                   'path', 'flow', 'workload', '{}'::jsonb, 'pool', NULL, 'trace', NULL,
                   'emitted_at', '2026-11-21T02:00:00Z', 'actor', NULL,
                   'tenancy', jsonb_build_object('tenant_id', 'initech', 'organization_id', 'south')),
               now() - interval '1 hour', now() + interval '1 hour'";
    run(&mut deployment.cluster().await, claims).await;
}

/// Leaves the intent of a caller that crashed before it registered the subscription 99.
async fn abandon_a_registration(deployment: &Deployment) {
    let intent = "INSERT INTO noetl.subscription_registry
            (path, subscription_id, intent_after, intent_tenant_id, intent_organization_id, updated_at)
        VALUES ('abandoned', 99, 0, 'initech', 'south', now() - interval '1 hour')";
    run(&mut deployment.cluster().await, intent).await;
}

/// The sweeper starts the execution and registers the subscription with the tenants that the callers named.
async fn abandoned_claims_and_registrations_are_finished_with_their_tenants(deployment: &Deployment) {
    let settled = "SELECT (SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0)
                        + (SELECT count(*) FROM noetl.subscription_registry WHERE intent_after IS NOT NULL)";
    eventually("the sweeper has finished them", async || (deployment.in_cluster(settled).await == 0).then_some(()))
        .await;
    assert_eq!(owners(deployment, "1").await, ["initech/south"]);
    assert_eq!(owners(deployment, "99").await, ["initech/south"]);
}
