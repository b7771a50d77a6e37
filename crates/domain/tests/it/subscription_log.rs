//! The events of a subscription's log have the form that NoETL's servers read.

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use noetl_domain::actor::Actor;
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::lifecycle::{Action, State};
use noetl_domain::subscription_log::SubscriptionLog;
use noetl_domain::tenant::Tenancy;
use serde_json::{Value, json};

static TENANCY: LazyLock<Tenancy> = LazyLock::new(|| Tenancy::new("acme", "west"));

fn log() -> SubscriptionLog<'static> {
    SubscriptionLog { id: Id::new(7), path: "orders/in", catalog_id: Id::new(3), tenancy: &TENANCY, by: None }
}

fn at() -> DateTime<Utc> {
    "2026-11-21T02:00:00Z".parse().unwrap()
}

/// Returns an event of the log without context, meta and status.
fn event(event_id: i64, event_type: &str) -> Event {
    Event {
        node_id: Some("subscription".into()),
        node_name: Some("orders/in".into()),
        node_type: Some("subscription".into()),
        tenant_id: "acme".into(),
        organization_id: "west".into(),
        ..Event::bare(Id::new(7), Id::new(event_id), Id::new(3), event_type, at())
    }
}

fn lifecycle_meta() -> Value {
    json!({ "emitted_at": "2026-11-21T02:00:00.000000Z", "emitter": "control_plane", "subscription_lifecycle": true })
}

#[test]
fn a_registration_is_the_first_lifecycle_event() {
    let expected = Event {
        status: Some("REGISTERED".into()),
        context: Some(json!({ "subscription_id": "7", "path": "orders/in", "catalog_id": "3" })),
        meta: Some(lifecycle_meta()),
        ..event(10, "subscription.registered")
    };
    assert_eq!(log().registered(Id::new(10), &Labels::default(), at()), expected);

    let mut meta = lifecycle_meta();
    meta["labels"] = json!({ "team": "a" });
    let labels = Labels::read(&meta["labels"]);
    assert_eq!(log().registered(Id::new(10), &labels, at()), Event { meta: Some(meta), ..expected });
}

#[test]
fn a_transition_records_its_state_its_reason_and_its_caller() {
    let caller = Actor::new("ann");
    let log = SubscriptionLog { by: Some(&caller), ..log() };
    let mut meta = lifecycle_meta();
    meta["actor"] = "ann".into();
    let expected = Event {
        status: Some("PAUSED".into()),
        context: Some(json!({
            "subscription_id": "7", "path": "orders/in", "catalog_id": "3", "reason": "maintenance",
        })),
        meta: Some(meta),
        ..event(20, "subscription.paused")
    };
    assert_eq!(log.transitioned(Id::new(20), Action::Pause, State::Paused, Some("maintenance"), at()), expected);
}

#[test]
fn the_audit_event_of_a_duplicate_names_the_key_and_the_execution_and_is_no_lifecycle_event() {
    let expected = Event {
        status: Some("DUPLICATE".into()),
        context: Some(json!({
            "subscription_id": "7", "path": "orders/in", "catalog_id": "3", "dedup_key": "order-17", "execution_id": "99",
        })),
        meta: Some(json!({ "emitted_at": "2026-11-21T02:00:00.000000Z", "emitter": "control_plane" })),
        ..event(30, "subscription.message.deduplicated")
    };
    assert_eq!(log().deduplicated(Id::new(30), "order-17", Id::new(99), false, at()), expected);
    let mut changed = expected;
    changed.context.as_mut().unwrap()["differs"] = true.into();
    assert_eq!(log().deduplicated(Id::new(30), "order-17", Id::new(99), true, at()), changed);
}
