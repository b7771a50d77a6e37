//! Checks of the mutations.

use serde_json::{Value, json};

use super::queries::pending;
use super::world::{Side, World, list, texts};

pub(super) async fn register_catalog_entry(world: &World, own: &Side, _: &Side) {
    let register = "registerCatalogEntry(input: { path: \"theirs\", content: \"kind: playbook\" })";
    assert_eq!(world.outcome(own, register).await, "FOREIGN_TENANT");
    assert_eq!(world.deployment.in_cluster("SELECT count(*) FROM noetl.catalog WHERE path = 'theirs'").await, 0);
}

pub(super) async fn archive_catalog_entry(world: &World, own: &Side, _: &Side) {
    let query = "{ catalogEntry(by: { path: \"flow\" }) { catalogId } }";
    let id = world.data(own, query).await["catalogEntry"]["catalogId"].take();
    for mutation in ["archiveCatalogEntry", "restoreCatalogEntry"] {
        let change = format!("{mutation}(input: {{ catalogId: {id}, allVersions: true }})");
        assert_eq!(world.outcome(own, &change).await, "FOREIGN_TENANT");
    }
    let retired = "SELECT count(*) FROM noetl.catalog WHERE archived_at IS NOT NULL";
    assert_eq!(world.deployment.in_cluster(retired).await, 0);
}

/// Returns inputs of `execute` with the code of their user error.
fn starts(own: &Side, other: &Side) -> [(String, &'static str); 5] {
    [
        ("entry: { path: \"flow\" }".to_owned(), "DONE"),
        (format!("entry: {{ path: \"flow\" }}, tenantId: \"{}\", organizationId: \"west\"", own.tenant), "DONE"),
        (format!("entry: {{ path: \"flow\" }}, tenantId: \"{}\"", other.tenant), "FOREIGN_TENANT"),
        (format!("entry: {{ path: \"flow\" }}, parentExecutionId: \"{}\"", other.executions[0]), "NOT_FOUND"),
        (format!("entry: {{ path: \"flow\" }}, parentExecutionId: \"{}\"", other.subscription), "NOT_FOUND"),
    ]
}

/// Returns the number of rows of executions, events and outbox rows that belong to a tenant.
async fn owned(world: &World, own: &Side) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in ["execution", "event", "outbox"] {
        counts
            .push(world.count(&format!("SELECT count(*) FROM noetl.{table} WHERE tenant_id = '{}'", own.tenant)).await);
    }
    counts
}

pub(super) async fn execute(world: &World, own: &Side, other: &Side) {
    let (before, theirs) = (owned(world, own).await, owned(world, other).await);
    for (input, expected) in starts(own, other) {
        assert_eq!(world.outcome(own, &format!("execute(input: {{ {input} }})")).await, expected, "{input}");
    }
    let added: Vec<i64> = owned(world, own).await.iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!((added, owned(world, other).await), (vec![2, 2, 2], theirs));
}

pub(super) async fn execute_batch(world: &World, own: &Side, other: &Side) {
    let theirs = owned(world, other).await;
    let starts = starts(own, other);
    let requests: Vec<String> = starts.iter().map(|(input, _)| format!("{{ {input} }}")).collect();
    let query = format!(
        "mutation {{ executeBatch(input: {{ requests: [{}] }}) {{
            results {{ execution {{ tenantId organizationId }} userErrors {{ code }} }} }} }}",
        requests.join(", ")
    );
    let results = world.data(own, &query).await["executeBatch"]["results"].take();
    for (result, (input, expected)) in results.as_array().unwrap().iter().zip(&starts) {
        assert_eq!(result["userErrors"][0]["code"].as_str().unwrap_or("DONE"), *expected, "{input}");
    }
    let organizations = [&results[0]["execution"], &results[1]["execution"]];
    let expected = |organization: &str| json!({ "tenantId": own.tenant, "organizationId": organization });
    assert_eq!(organizations, [&expected("default"), &expected("west")]);
    assert_eq!(owned(world, other).await, theirs);
}

pub(super) async fn rerun_execution(world: &World, own: &Side, other: &Side) {
    let rerun = |id: &str| format!("rerunExecution(input: {{ executionId: \"{id}\" }})");
    let theirs = owned(world, other).await;
    assert_eq!(world.outcome(own, &rerun(&other.executions[0])).await, "NOT_FOUND");
    let query = format!(
        "mutation {{ {} {{ execution {{ tenantId organizationId rerunOf {{ id }} }} userErrors {{ code }} }} }}",
        rerun(&own.executions[0])
    );
    let payload = world.data(own, &query).await["rerunExecution"].take();
    let origin = json!({ "id": own.executions[0] });
    let expected = json!({ "tenantId": own.tenant, "organizationId": "default", "rerunOf": origin });
    assert_eq!(payload["execution"], expected);

    let (one, foreign) = (&own.executions[0], &other.executions[0]);
    let many = format!(
        "mutation {{ rerunExecutions(input: {{ select: {{ ids: [\"{foreign}\", \"{one}\"] }} }}) {{
            results {{ origin {{ id }} execution {{ tenantId }} userErrors {{ code }} }} }} }}"
    );
    let results = world.data(own, &many).await["rerunExecutions"]["results"].take();
    let refused = json!({ "origin": null, "execution": null, "userErrors": [{ "code": "NOT_FOUND" }] });
    let started = json!({ "origin": { "id": one }, "execution": { "tenantId": own.tenant }, "userErrors": [] });
    assert_eq!(results, json!([refused, started]));
    let all = "mutation { rerunExecutions(input: { select: { all: true }, dryRun: true }) { results { originId } } }";
    let selected = texts(&world.data(own, all).await["rerunExecutions"]["results"], "originId");
    assert!(selected.contains(one) && !selected.contains(foreign), "{selected:?}");
    assert_eq!(owned(world, other).await, theirs);
}

pub(super) async fn cancel_execution(world: &World, own: &Side, other: &Side) {
    let id = &own.executions[1];
    let cancel = format!("cancelExecution(input: {{ executionId: \"{id}\" }})");
    assert_eq!(world.outcome(other, &cancel).await, "NOT_FOUND");
    let running = format!("SELECT count(*) FROM noetl.execution WHERE execution_id = {id} AND status = 'PENDING'");
    let many = format!(
        "mutation {{ cancelExecutions(input: {{ select: {{ ids: [\"{id}\"] }}, cascade: true }}) {{
            results {{ cancelled execution {{ id }} userErrors {{ code }} }} }} }}"
    );
    let refused = world.data(other, &many).await["cancelExecutions"]["results"].take();
    assert_eq!(refused, json!([{ "cancelled": false, "execution": null, "userErrors": [{ "code": "NOT_FOUND" }] }]));
    let all =
        "mutation { cancelExecutions(input: { select: { all: true }, dryRun: true }) { results { executionId } } }";
    let selected = world.data(other, all).await["cancelExecutions"]["results"].take();
    assert!(!texts(&selected, "executionId").contains(id), "{selected}");
    assert_eq!(world.count(&running).await, 1);
    assert_eq!(world.outcome(own, &cancel).await, "DONE");
    let event = format!(
        "SELECT count(*) FROM noetl.event WHERE execution_id = {id} AND event_type = 'playbook.cancelled'
           AND tenant_id = '{}'",
        own.tenant
    );
    assert_eq!(world.count(&event).await, 1, "the event has the tenant of its log");
}

pub(super) async fn advance_projections(world: &World, own: &Side, other: &Side) {
    let ids = [&own.executions[..], &own.logs[..], &other.executions[..], &other.logs[..]].concat();
    let query = format!(
        "mutation {{ advanceProjections(input: {{ executionIds: {} }}) {{
            results {{ executionId advanced {{ version }} userErrors {{ code }} }} }} }}",
        list(&ids)
    );
    let found = world.data(own, &query).await["advanceProjections"].take();
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let ours = sorted([&own.executions[..], &own.logs[..]].concat());
    let results = found["results"].as_array().unwrap().clone();
    let (advanced, failed): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|result| result["userErrors"] == json!([]) && result["advanced"].is_object());
    assert_eq!(sorted(texts(&Value::from(advanced), "executionId")), ours);
    let codes: Vec<&Value> = failed.iter().map(|result| &result["userErrors"][0]["code"]).collect();
    assert_eq!(codes, ["NOT_FOUND"; 4]);
    for id in &ours {
        let stored = format!(
            "SELECT count(*) FROM noetl.projection_snapshot WHERE aggregate_id = '{id}' AND tenant_id = '{}'",
            own.tenant
        );
        assert_eq!(world.count(&stored).await, 1, "{id}");
    }
}

/// Returns events with the code of their rejection. They have a new id for each call.
fn reports<'a>(own: &'a Side, other: &'a Side, id: i64) -> Vec<(Value, &'static str)> {
    let event = |execution: &str, id: i64| json!({ "execution_id": execution, "event_id": id.to_string() });
    let named = |execution: &str, id, tenant: &str| {
        let mut event = event(execution, id);
        event["tenant_id"] = tenant.into();
        event
    };
    vec![
        (event(&own.executions[0], id), "DONE"),
        (named(&own.executions[1], id, own.tenant), "DONE"),
        (event(&own.logs[0], id), "DONE"),
        (event(&id.to_string(), id), "DONE"),
        (event(&other.executions[0], id), "NOT_FOUND"),
        (event(&other.executions[1], id), "NOT_FOUND"),
        (event(&other.logs[1], id), "NOT_FOUND"),
        (event(&other.subscription, id), "NOT_FOUND"),
        (named(&own.executions[0], id + 1, other.tenant), "FOREIGN_TENANT"),
    ]
}

async fn project(world: &World, own: &Side, other: &Side, field: &str, id: i64, input: impl Fn(&Value) -> String) {
    let reports = reports(own, other, id);
    let events: Vec<String> = reports.iter().map(|(event, _)| input(event)).collect();
    let query = format!(
        "mutation {{ payload: {field}(input: {{ events: [{}] }}) {{
            projected executions {{ id }} rejected {{ index userErrors {{ code }} }} }} }}",
        events.join(", ")
    );
    let found = world.data(own, &query).await["payload"].take();
    let refused = reports.iter().enumerate().filter(|(_, (_, code))| *code != "DONE");
    let refused: Vec<Value> =
        refused.map(|(index, (_, code))| json!({ "index": index, "userErrors": [{ "code": code }] })).collect();
    // The fourth log has no event that makes it an execution's.
    let [first, second] = &own.executions[..] else { panic!("{:?}", own.executions) };
    let executions = [first, second, &own.logs[0]].map(|id| json!({ "id": id }));
    assert_eq!(found, json!({ "projected": 4, "executions": executions, "rejected": refused }));
    let count = |tenant: &str| {
        format!("SELECT count(*) FROM noetl.event WHERE event_id IN ({id}, {}) AND tenant_id = '{tenant}'", id + 1)
    };
    assert_eq!((world.count(&count(own.tenant)).await, world.count(&count(other.tenant)).await), (4, 0));
}

pub(super) async fn project_events(world: &World, own: &Side, other: &Side) {
    let id = if own.tenant == "acme" { 600_000_000_000_000_000 } else { 600_000_000_000_000_010 };
    let input = |event: &Value| {
        let tenant = event["tenant_id"].as_str().map_or(String::new(), |tenant| format!("tenantId: \"{tenant}\","));
        format!(
            "{{ {tenant} executionId: {}, eventId: {}, type: \"call.done\" }}",
            event["execution_id"], event["event_id"]
        )
    };
    project(world, own, other, "projectEvents", id, input).await;
}

pub(super) async fn project_event_documents(world: &World, own: &Side, other: &Side) {
    let id = if own.tenant == "acme" { 600_000_000_000_000_020 } else { 600_000_000_000_000_030 };
    let input = |event: &Value| {
        let tenant = event["tenant_id"].as_str().map_or(String::new(), |tenant| format!("tenant_id: \"{tenant}\","));
        format!(
            "{{ {tenant} execution_id: {}, event_id: {}, event_type: \"call.done\" }}",
            event["execution_id"], event["event_id"]
        )
    };
    project(world, own, other, "projectEventDocuments", id, input).await;
}

pub(super) async fn register_subscription(world: &World, own: &Side, other: &Side) {
    let register = |path: &str, more: &str| format!("registerSubscription(input: {{ path: \"{path}\" {more} }})");
    let (ours, theirs) = (format!("inbox/{}", own.tenant), format!("inbox/{}", other.tenant));
    assert_eq!(world.outcome(own, &register(&ours, "")).await, "DONE", "it is registered already");
    assert_eq!(world.outcome(own, &register(&ours, ", organizationId: \"east\"")).await, "INVALID_TRANSITION");
    let foreign = format!(", tenantId: \"{}\"", other.tenant);
    assert_eq!(world.outcome(own, &register(&ours, &foreign)).await, "FOREIGN_TENANT");
    let query = format!(
        "mutation {{ {} {{ subscription {{ id }} userErrors {{ code message field }} }} }}",
        register(&theirs, "")
    );
    let refused = world.data(own, &query).await["registerSubscription"].take();
    assert_eq!((&refused["subscription"], &refused["userErrors"][0]["code"]), (&Value::Null, &json!("FOREIGN_TENANT")));
    let message = refused["userErrors"][0]["message"].as_str().unwrap();
    assert!(!message.contains(&other.subscription) && !message.contains("REGISTERED"), "{message}");
}

/// Carries out transitions of a new subscription up to `last`. The other tenant can't carry out the last one.
async fn transition(world: &World, own: &Side, other: &Side, actions: &[&str]) {
    let last = actions.last().unwrap();
    let id = world.subscribe(own, &format!("inbox/{}/{last}", own.tenant)).await;
    let mutation = |action: &str| format!("{action}Subscription(input: {{ subscriptionId: \"{id}\" }})");
    for action in &actions[..actions.len() - 1] {
        assert_eq!(world.outcome(own, &mutation(action)).await, "DONE");
    }
    let events = format!("SELECT count(*) FROM noetl.event WHERE execution_id = {id} AND tenant_id = '{}'", own.tenant);
    let before = world.count(&events).await;
    assert_eq!(world.outcome(other, &mutation(last)).await, "NOT_FOUND");
    assert_eq!(world.count(&events).await, before);
    assert_eq!(world.outcome(own, &mutation(last)).await, "DONE");
    assert_eq!(world.count(&events).await, before + 1, "the event has the tenant of its log");
}

pub(super) async fn activate(world: &World, own: &Side, other: &Side) {
    transition(world, own, other, &["activate"]).await;
}

pub(super) async fn pause(world: &World, own: &Side, other: &Side) {
    transition(world, own, other, &["activate", "pause"]).await;
}

pub(super) async fn resume(world: &World, own: &Side, other: &Side) {
    transition(world, own, other, &["activate", "pause", "resume"]).await;
}

pub(super) async fn drain(world: &World, own: &Side, other: &Side) {
    transition(world, own, other, &["activate", "drain"]).await;
}

pub(super) async fn deactivate(world: &World, own: &Side, other: &Side) {
    transition(world, own, other, &["deactivate"]).await;
    // The path is free, so the other tenant can take it. Then its former tenant learns only that it is in use.
    let path = format!("inbox/{}/deactivate", own.tenant);
    let ended = format!("{{ subscription(by: {{ path: \"{path}\" }}) {{ id }} }}");
    let ended = world.data(own, &ended).await["subscription"]["id"].as_str().unwrap().to_owned();
    let theirs = world.subscribe(other, &path).await;
    let activate = format!(
        "mutation {{ activateSubscription(input: {{ subscriptionId: \"{ended}\" }}) {{
            userErrors {{ code message }} }} }}"
    );
    let refused = world.data(own, &activate).await["activateSubscription"]["userErrors"][0].take();
    assert_eq!(refused["code"], "FOREIGN_TENANT");
    assert!(!refused["message"].as_str().unwrap().contains(&theirs), "{refused}");
    let by_path = format!("{{ subscription(by: {{ path: \"{path}\" }}) {{ id }} }}");
    assert_eq!(world.data(own, &by_path).await["subscription"]["id"], ended.as_str());
    assert_eq!(world.data(other, &by_path).await["subscription"]["id"], theirs.as_str());
}

pub(super) async fn transition_subscriptions(world: &World, own: &Side, other: &Side) {
    let path = format!("bulk/{}", own.tenant);
    let (ours, theirs) = (world.subscribe(own, &path).await, world.subscribe(other, &format!("{path}/2")).await);
    let query = |select: &str| {
        format!(
            "mutation {{ transitionSubscriptions(input: {{ action: ACTIVATE, select: {{ {select} }} }}) {{
                results {{ applied subscription {{ id tenantId }} userErrors {{ code }} }} userErrors {{ code }} }} }}"
        )
    };
    let named = format!("ids: {}", list(std::slice::from_ref(&theirs)));
    let none = world.data(own, &query(&named)).await["transitionSubscriptions"]["results"].take();
    assert_eq!(none, json!([{ "applied": false, "subscription": null, "userErrors": [{ "code": "NOT_FOUND" }] }]));
    let found =
        world.data(own, &query(&format!("filter: {{ pathPrefix: \"{path}\" }}"))).await["transitionSubscriptions"]
            .take();
    let expected =
        json!([{ "applied": true, "subscription": { "id": ours, "tenantId": own.tenant }, "userErrors": [] }]);
    assert_eq!(found["results"], expected);
    let activated = format!("SELECT count(*) FROM noetl.event WHERE execution_id = {theirs}");
    assert_eq!(world.count(&activated).await, 1);
}

/// Claims rows of a tenant, and returns them as references to settle them.
async fn claim(world: &World, own: &Side, limit: usize) -> Vec<String> {
    let query = format!(
        "mutation {{ claimOutbox(input: {{ select: {{ all: true }}, limit: {limit}, leaseSeconds: 3600 }}) {{
            claims {{ entryId lease tenantId executionId }} userErrors {{ code }} }} }}"
    );
    let claims = world.data(own, &query).await["claimOutbox"]["claims"].take();
    assert!(texts(&claims, "tenantId").iter().all(|tenant| tenant == own.tenant), "{claims}");
    let ids = texts(&claims, "entryId").into_iter().zip(texts(&claims, "lease"));
    ids.map(|(id, lease)| format!("entryId: \"{id}\", lease: \"{lease}\"")).collect()
}

pub(super) async fn claim_outbox(world: &World, own: &Side, other: &Side) {
    let (ours, theirs) = (world.count(&pending(own.tenant)).await, world.count(&pending(other.tenant)).await);
    assert!(ours > 4);
    let claimed = claim(world, own, 1000).await;
    assert_eq!(i64::try_from(claimed.len()).unwrap(), ours);
    let left = (world.count(&pending(own.tenant)).await, world.count(&pending(other.tenant)).await);
    assert_eq!(left, (0, theirs));
    world.deployment.on_shard(0, RELEASE).await;
    world.deployment.on_shard(1, RELEASE).await;
}

/// Makes the rows in flight claimable again.
const RELEASE: &str = "UPDATE noetl.outbox SET status = 'PENDING', lease_until = NULL WHERE status = 'IN_FLIGHT'";

pub(super) async fn mark_outbox_published(world: &World, own: &Side, other: &Side) {
    let claims = claim(world, own, 3).await;
    assert_eq!(claims.len(), 3);
    let refs: Vec<String> = claims.iter().map(|claim| format!("{{ {claim} }}")).collect();
    let mark = format!(
        "mutation {{ markOutboxPublished(input: {{ claims: [{}] }}) {{ published results {{ userErrors {{ code }} }} }} }}",
        refs.join(", ")
    );
    let stale = world.data(other, &mark).await["markOutboxPublished"].take();
    let stale_results = Value::from(vec![json!({ "userErrors": [{ "code": "STALE_LEASE" }] }); 3]);
    assert_eq!((&stale["published"], &stale["results"]), (&json!(0), &stale_results));
    let done = json!({ "published": 3, "results": vec![json!({ "userErrors": [] }); 3] });
    assert_eq!(world.data(own, &mark).await["markOutboxPublished"], done);
    let again = world.data(other, &mark).await["markOutboxPublished"].take();
    assert_eq!((&again["published"], &again["results"]), (&json!(0), &stale_results));
}

/// Returns the code of the only result of a settlement.
async fn settled(world: &World, side: &Side, mutation: &str) -> String {
    let query = format!("mutation {{ payload: {mutation} {{ results {{ userErrors {{ code }} }} }} }}");
    let result = world.data(side, &query).await["payload"]["results"][0].take();
    result["userErrors"][0]["code"].as_str().unwrap_or("DONE").to_owned()
}

pub(super) async fn mark_outbox_failed(world: &World, own: &Side, other: &Side) {
    let claims = claim(world, own, 1).await;
    let mark = format!("markOutboxFailed(input: {{ failures: [{{ {}, error: \"refused\" }}] }})", claims[0]);
    assert_eq!(settled(world, other, &mark).await, "STALE_LEASE");
    assert_eq!(settled(world, own, &mark).await, "DONE");
}

pub(super) async fn renew_outbox_leases(world: &World, own: &Side, other: &Side) {
    let claims = claim(world, own, 1).await;
    let renew = format!("renewOutboxLeases(input: {{ claims: [{{ {} }}] }})", claims[0]);
    assert_eq!(settled(world, other, &renew).await, "STALE_LEASE");
    assert_eq!(settled(world, own, &renew).await, "DONE");
    world.deployment.on_shard(0, RELEASE).await;
    world.deployment.on_shard(1, RELEASE).await;
}

/// Writes a DEAD row of a tenant on each shard. NoETL's own server does not write the tenant to the column.
async fn bury(world: &World, side: &Side) {
    for shard in 0..2 {
        let rows = format!(
            "INSERT INTO noetl.outbox (execution_id, event_id, payload, status, available_at, attempts, tenant_id)
             VALUES (NULL, 1, '{{}}', 'FAILED', 'infinity', 9, '{tenant}'),
                    (NULL, 2, '{{\"tenant_id\": \"{tenant}\"}}', 'FAILED', 'infinity', 9, 'default')",
            tenant = side.tenant
        );
        world.deployment.on_shard(shard, &rows).await;
    }
}

fn dead(tenant: &str) -> String {
    format!(
        "SELECT count(*) FROM noetl.outbox WHERE status = 'FAILED' AND available_at = 'infinity'
           AND '{tenant}' IN (tenant_id, payload ->> 'tenant_id')"
    )
}

async fn change_dead_rows(world: &World, own: &Side, other: &Side, field: &str, changed: &str) {
    bury(world, own).await;
    bury(world, other).await;
    let theirs = world.count(&dead(other.tenant)).await;
    let query = |more: &str, dry_run: bool| {
        format!(
            "mutation {{ payload: {field}(input: {{ select: {{ filter: {{ statuses: [DEAD] {more} }} }}, dryRun: {dry_run} }}) {{
                matched changed: {changed} }} }}"
        )
    };
    let foreign = format!(", tenantId: \"{}\"", other.tenant);
    assert_eq!(world.data(own, &query(&foreign, false)).await["payload"], json!({ "matched": 0, "changed": 0 }));
    let expected = world.count(&dead(own.tenant)).await;
    assert_eq!(world.data(own, &query("", true)).await["payload"], json!({ "matched": expected, "changed": 0 }));
    let done = world.data(own, &query("", false)).await["payload"].take();
    assert_eq!(done, json!({ "matched": expected, "changed": expected }));
    assert_eq!((world.count(&dead(own.tenant)).await, world.count(&dead(other.tenant)).await), (0, theirs));
}

pub(super) async fn retry_outbox(world: &World, own: &Side, other: &Side) {
    change_dead_rows(world, own, other, "retryOutbox", "retried").await;
}

pub(super) async fn discard_outbox(world: &World, own: &Side, other: &Side) {
    change_dead_rows(world, own, other, "discardOutbox", "discarded").await;
}

/// Ids belong to no tenant.
pub(super) async fn reserve_event_ids(world: &World, own: &Side, _: &Side) {
    let query = "mutation { reserveEventIds(input: { count: 2 }) { eventIds userErrors { code } } }";
    let found = world.data(own, query).await["reserveEventIds"].take();
    assert_eq!((found["eventIds"].as_array().unwrap().len(), &found["userErrors"]), (2, &json!([])));
}
