//! Events: immutable rows of `noetl.event`, the only source of truth.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::ids::Id;
use super::tenant::{DEFAULT, Scope};
use plain_json::Typed;

/// Position of an event in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct EventKey {
    /// Event id; it increases within a log.
    pub event_id: i64,
    /// Execution id of the log.
    pub execution_id: i64,
}

impl Typed for EventKey {}

/// An event. `J` is the type of its JSON columns: parsed values where code reads them, text where they are passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<J = Value> {
    /// Execution id of the log that the event belongs to.
    pub execution_id: Id,
    /// Event id; it increases within the log.
    pub event_id: Id,
    /// Catalog entry; 0 if unknown.
    pub catalog_id: Id,
    /// Event that caused this one.
    pub parent_event_id: Option<Id>,
    /// Execution or subscription that started this execution.
    pub parent_execution_id: Option<Id>,
    /// Time at which the event was written.
    pub created_at: DateTime<Utc>,
    /// Type, such as `playbook_started`.
    pub event_type: String,
    /// Id of the node at which the event happened.
    pub node_id: Option<String>,
    /// Name of the node.
    pub node_name: Option<String>,
    /// Kind of the node.
    pub node_type: Option<String>,
    /// Status after the event.
    pub status: Option<String>,
    /// Duration in seconds.
    pub duration: Option<f64>,
    /// Input of the node.
    pub context: Option<J>,
    /// Output of the node.
    pub result: Option<J>,
    /// Metadata of the event.
    pub meta: Option<J>,
    /// Error message.
    pub error: Option<String>,
    /// Stack trace of the error.
    pub stack_trace: Option<String>,
    /// Tenant; `default` unless set.
    pub tenant_id: String,
    /// Organization; `default` unless set.
    pub organization_id: String,
}

impl<J> Event<J> {
    /// Creates an event with only its ids, type and time.
    #[must_use]
    pub fn bare(execution_id: Id, event_id: Id, catalog_id: Id, event_type: &str, created_at: DateTime<Utc>) -> Self {
        Self {
            execution_id,
            event_id,
            catalog_id,
            parent_event_id: None,
            parent_execution_id: None,
            created_at,
            event_type: event_type.to_owned(),
            node_id: None,
            node_name: None,
            node_type: None,
            status: None,
            duration: None,
            context: None,
            result: None,
            meta: None,
            error: None,
            stack_trace: None,
            tenant_id: DEFAULT.to_owned(),
            organization_id: DEFAULT.to_owned(),
        }
    }
}

/// Filter of events. An absent condition matches every event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EventFilter {
    /// Execution ids of the logs.
    pub execution_ids: Option<Vec<Id>>,
    /// Parent execution or subscription of the logs.
    pub parent_execution_id: Option<Id>,
    /// Event types; a trailing `*` matches any rest.
    pub types: Option<Vec<String>>,
    /// Names of nodes.
    pub node_names: Option<Vec<String>>,
    /// Statuses.
    pub statuses: Option<Vec<String>>,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Organization.
    pub organization_id: Option<String>,
}

impl EventFilter {
    /// Returns whether the event is in a caller's scope and meets every condition.
    #[must_use]
    pub fn matches<J>(&self, event: &Event<J>, scope: &Scope) -> bool {
        let is = |wanted: &Option<String>, value: &String| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let wants = |listed: &Option<Vec<String>>, value: Option<&String>| {
            listed.as_ref().is_none_or(|listed| value.is_some_and(|value| listed.contains(value)))
        };
        scope.admits(&event.tenant_id)
            && is(&self.tenant_id, &event.tenant_id)
            && is(&self.organization_id, &event.organization_id)
            && self.execution_ids.as_ref().is_none_or(|ids| ids.contains(&event.execution_id))
            && self.parent_execution_id.is_none_or(|parent| event.parent_execution_id == Some(parent))
            && self
                .types
                .as_ref()
                .is_none_or(|types| types.iter().any(|wanted| type_matches(wanted, &event.event_type)))
            && wants(&self.node_names, event.node_name.as_ref())
            && wants(&self.statuses, event.status.as_ref())
    }

    /// Returns the types as SQL `LIKE` patterns with `\` as the escape character.
    #[must_use]
    pub fn type_patterns(&self) -> Option<Vec<String>> {
        let like = |wanted: &String| {
            let (stem, rest) = wanted.strip_suffix('*').map_or((wanted.as_str(), ""), |stem| (stem, "%"));
            stem.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_") + rest
        };
        self.types.as_ref().map(|types| types.iter().map(like).collect())
    }
}

fn type_matches(wanted: &str, event_type: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == event_type, |stem| event_type.starts_with(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trailing_star_is_a_wildcard() {
        assert!(type_matches("subscription.*", "subscription.paused"));
        assert!(type_matches("*", "anything"));
        assert!(!type_matches("subscription.*", "subscriptions"));
        assert!(!type_matches("call_done", "callXdone"));
        let filter = EventFilter { types: Some(vec!["a_b%.*".into()]), ..EventFilter::default() };
        assert_eq!(filter.type_patterns().unwrap(), [r"a\_b\%.%"]);
    }

    fn paused() -> Event {
        Event {
            parent_execution_id: Some(Id::new(1)),
            node_name: Some("orders/in".into()),
            status: Some("PAUSED".into()),
            tenant_id: "acme".into(),
            organization_id: "west".into(),
            ..Event::bare(Id::new(2), Id::new(3), Id::new(4), "subscription.paused", DateTime::UNIX_EPOCH)
        }
    }

    fn filter_of_paused() -> EventFilter {
        EventFilter {
            execution_ids: Some(vec![Id::new(8), Id::new(2)]),
            parent_execution_id: Some(Id::new(1)),
            types: Some(vec!["playbook_started".into(), "subscription.*".into()]),
            node_names: Some(vec!["other".into(), "orders/in".into()]),
            statuses: Some(vec!["ACTIVE".into(), "PAUSED".into()]),
            tenant_id: Some("acme".into()),
            organization_id: Some("west".into()),
        }
    }

    #[test]
    fn an_event_matches_if_it_meets_every_condition() {
        assert!(
            EventFilter::default().matches(&paused(), &Scope::Unrestricted),
            "a filter without conditions matches every event"
        );
        assert!(filter_of_paused().matches(&paused(), &Scope::Unrestricted));
        let others = [
            Event { execution_id: Id::new(9), ..paused() },
            Event { parent_execution_id: Some(Id::new(9)), ..paused() },
            Event { parent_execution_id: None, ..paused() },
            Event { event_type: "playbook_failed".into(), ..paused() },
            Event { node_name: Some("orders".into()), ..paused() },
            Event { node_name: None, ..paused() },
            Event { status: Some("DRAINING".into()), ..paused() },
            Event { status: None, ..paused() },
            Event { tenant_id: "globex".into(), ..paused() },
            Event { organization_id: "east".into(), ..paused() },
        ];
        for event in others {
            assert!(!filter_of_paused().matches(&event, &Scope::Unrestricted), "{event:?}");
        }
    }

    #[test]
    fn an_event_of_another_tenant_matches_no_filter() {
        let any = EventFilter::default();
        assert!(any.matches(&paused(), &Scope::Tenant("acme".into())));
        assert!(!any.matches(&paused(), &Scope::Tenant("globex".into())));
        assert!(!filter_of_paused().matches(&paused(), &Scope::Tenant("globex".into())));
    }

    #[test]
    fn an_empty_list_matches_no_event() {
        let none = EventFilter::default();
        for filter in [
            EventFilter { execution_ids: Some(vec![]), ..none.clone() },
            EventFilter { types: Some(vec![]), ..none.clone() },
            EventFilter { node_names: Some(vec![]), ..none.clone() },
            EventFilter { statuses: Some(vec![]), ..none },
        ] {
            assert!(!filter.matches(&paused(), &Scope::Unrestricted), "{filter:?}");
        }
    }
}
