//! A caller with a tenant reads and writes only the data of that tenant. A table has a check for each root field; each
//! check runs for two tenants whose data are on two shards. The other files have the rules of defaults, filters,
//! claims, snapshots and existing databases.

mod defaults;
mod existing;
mod live;
mod mutations;
mod queries;
mod snapshots;
mod world;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use noetl_testkit::http_client;

use world::{Side, World};

/// Check of a root field, for a caller of the first tenant.
type Check = for<'a> fn(&'a World, &'a Side, &'a Side) -> LocalBoxFuture<'a, ()>;

macro_rules! check {
    ($check:path) => {
        |world, own, other| $check(world, own, other).boxed_local()
    };
}

/// Every root field with its check. The checks run in this order, on one deployment.
const ROOT_FIELDS: &[(&str, &[&str], Check)] = &[
    ("Query", &["catalogEntry", "catalogEntries", "validateCatalogEntry"], check!(queries::catalog)),
    ("Query", &["server", "replicas", "shards", "eventStream", "viewer"], check!(queries::server)),
    ("Query", &["dedupClaim"], check!(queries::dedup_claim)),
    ("Query", &["event"], check!(queries::event)),
    ("Query", &["events"], check!(queries::events)),
    ("Query", &["node", "nodes"], check!(queries::nodes)),
    ("Query", &["execution", "executionState"], check!(queries::execution)),
    ("Query", &["executions"], check!(queries::executions)),
    ("Query", &["executionStats"], check!(queries::execution_stats)),
    ("Query", &["executionHistory"], check!(queries::execution_history)),
    ("Query", &["outbox"], check!(queries::outbox)),
    ("Query", &["subscription"], check!(queries::subscription)),
    ("Query", &["subscriptions"], check!(queries::subscriptions)),
    ("Subscription", &["executionUpdates"], check!(live::execution_updates)),
    ("Subscription", &["executionListUpdates"], check!(live::execution_list_updates)),
    ("Subscription", &["subscriptionUpdates"], check!(live::subscription_updates)),
    ("Subscription", &["systemStatus"], check!(live::system_status)),
    ("Mutation", &["registerCatalogEntry"], check!(mutations::register_catalog_entry)),
    ("Mutation", &["archiveCatalogEntry", "restoreCatalogEntry"], check!(mutations::archive_catalog_entry)),
    ("Mutation", &["execute"], check!(mutations::execute)),
    ("Mutation", &["executeBatch"], check!(mutations::execute_batch)),
    ("Mutation", &["rerunExecution", "rerunExecutions"], check!(mutations::rerun_execution)),
    ("Mutation", &["cancelExecution", "cancelExecutions"], check!(mutations::cancel_execution)),
    ("Mutation", &["advanceProjections"], check!(mutations::advance_projections)),
    ("Mutation", &["projectEvents"], check!(mutations::project_events)),
    ("Mutation", &["projectEventDocuments"], check!(mutations::project_event_documents)),
    ("Mutation", &["reserveEventIds"], check!(mutations::reserve_event_ids)),
    ("Mutation", &["registerSubscription"], check!(mutations::register_subscription)),
    ("Mutation", &["activateSubscription"], check!(mutations::activate)),
    ("Mutation", &["pauseSubscription"], check!(mutations::pause)),
    ("Mutation", &["resumeSubscription"], check!(mutations::resume)),
    ("Mutation", &["drainSubscription"], check!(mutations::drain)),
    ("Mutation", &["deactivateSubscription"], check!(mutations::deactivate)),
    ("Mutation", &["transitionSubscriptions"], check!(mutations::transition_subscriptions)),
    ("Mutation", &["claimOutbox"], check!(mutations::claim_outbox)),
    ("Mutation", &["markOutboxPublished"], check!(mutations::mark_outbox_published)),
    ("Mutation", &["renewOutboxLeases"], check!(mutations::renew_outbox_leases)),
    ("Mutation", &["markOutboxFailed"], check!(mutations::mark_outbox_failed)),
    ("Mutation", &["retryOutbox"], check!(mutations::retry_outbox)),
    ("Mutation", &["discardOutbox"], check!(mutations::discard_outbox)),
    ("Subscription", &["events"], check!(live::events)),
    // It writes executions that the other checks would count.
    ("Query", &["stepStats"], check!(queries::step_stats)),
];

#[test]
fn every_root_field_has_a_check() {
    let mut fields = BTreeSet::new();
    for definition in parse_schema(include_str!("../../../schema.graphql")).unwrap().definitions {
        let TypeSystemDefinition::Type(definition) = definition else { continue };
        let (name, kind) = (definition.node.name.node.to_string(), &definition.node.kind);
        if let ("Query" | "Mutation" | "Subscription", TypeKind::Object(object)) = (name.as_str(), kind) {
            fields.extend(object.fields.iter().map(|field| (name.clone(), field.node.name.node.to_string())));
        }
    }
    let checked = ROOT_FIELDS
        .iter()
        .flat_map(|(of, fields, _)| fields.iter().map(|field| ((*of).to_owned(), (*field).to_owned())));
    let checked: BTreeSet<_> = checked.collect();
    let missing: Vec<_> = fields.difference(&checked).collect();
    assert!(missing.is_empty(), "add a check of what a caller with a tenant can do with these fields: {missing:?}");
    assert!(checked.is_subset(&fields), "the schema does not have all checked fields");
}

#[tokio::test]
async fn each_root_field_and_route_shows_and_changes_only_the_data_of_the_callers_tenant() {
    let (world, mut failed) = (World::start().await, Vec::new());
    a_token_with_a_tenant_gets_no_metrics_and_no_backlog(&world).await;
    for (of, fields, check) in ROOT_FIELDS {
        for (own, other) in [(&world.acme, &world.globex), (&world.globex, &world.acme)] {
            // A check that fails does not hide the others.
            if AssertUnwindSafe(check(&world, own, other)).catch_unwind().await.is_err() {
                failed.push(format!("{of} {} for {}", fields.join(", "), own.tenant));
            }
        }
    }
    assert!(failed.is_empty(), "the messages above say what is wrong with these fields: {failed:#?}");
}

/// These routes are about the whole deployment.
async fn a_token_with_a_tenant_gets_no_metrics_and_no_backlog(world: &World) {
    let status = async |token: &str, path: &str| {
        let request = http_client().get(format!("{}{path}", world.server.url)).bearer_auth(token);
        request.send().await.unwrap().status().as_u16()
    };
    for path in ["/metrics", "/scaler/outbox", "/scaler/subscriptions"] {
        assert_eq!((status(&world.viewer, path).await, status(&world.acme.token, path).await), (200, 403), "{path}");
    }
}
