//! An event: the immutable row of `noetl.event`, the only truth.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::ids::Id;
use noetl_json::Typed;

/// An event's place among those of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct EventKey {
    /// Grows along a log.
    pub event_id: i64,
    /// The log.
    pub execution_id: i64,
}

impl Typed for EventKey {}

/// A committed event. Its JSON is values where something looks inside, and text where it is passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<J = Value> {
    /// The log that the event belongs to.
    pub execution_id: Id,
    /// Grows along the log.
    pub event_id: Id,
    /// The catalog entry, 0 when unknown.
    pub catalog_id: Id,
    /// The event that caused this one.
    pub parent_event_id: Option<Id>,
    /// The execution or subscription that started this one.
    pub parent_execution_id: Option<Id>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
    /// What happened, such as `playbook_started`.
    pub event_type: String,
    /// The node that it happened at.
    pub node_id: Option<String>,
    /// The node's name.
    pub node_name: Option<String>,
    /// The node's kind.
    pub node_type: Option<String>,
    /// The state after it.
    pub status: Option<String>,
    /// Seconds.
    pub duration: Option<f64>,
    /// What it was given.
    pub context: Option<J>,
    /// What it gave.
    pub result: Option<J>,
    /// About the event itself.
    pub meta: Option<J>,
    /// What went wrong.
    pub error: Option<String>,
    /// Where it went wrong.
    pub stack_trace: Option<String>,
    /// `default` unless said otherwise.
    pub tenant_id: String,
    /// `default` unless said otherwise.
    pub organization_id: String,
}

impl<J> Event<J> {
    /// An event that says nothing but what happened, where and when.
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
            tenant_id: "default".to_owned(),
            organization_id: "default".to_owned(),
        }
    }
}

/// Which events a reader wants; an absent condition holds for every event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EventFilter {
    /// Only these logs.
    pub execution_ids: Option<Vec<Id>>,
    /// Only logs started by this one.
    pub parent_execution_id: Option<Id>,
    /// Only these types; a trailing `*` stands for any rest.
    pub types: Option<Vec<String>>,
    /// Only these nodes.
    pub node_names: Option<Vec<String>>,
    /// Only these states.
    pub statuses: Option<Vec<String>>,
}

impl EventFilter {
    /// Whether the event fulfils every condition.
    #[must_use]
    pub fn matches<J>(&self, event: &Event<J>) -> bool {
        let wants = |listed: &Option<Vec<String>>, value: Option<&String>| {
            listed.as_ref().is_none_or(|listed| value.is_some_and(|value| listed.contains(value)))
        };
        self.execution_ids.as_ref().is_none_or(|ids| ids.contains(&event.execution_id))
            && self.parent_execution_id.is_none_or(|parent| event.parent_execution_id == Some(parent))
            && self
                .types
                .as_ref()
                .is_none_or(|types| types.iter().any(|wanted| type_matches(wanted, &event.event_type)))
            && wants(&self.node_names, event.node_name.as_ref())
            && wants(&self.statuses, event.status.as_ref())
    }

    /// The types as `LIKE` patterns of SQL, with `\` as the escape.
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
    fn a_trailing_star_matches_any_rest_and_nothing_else_is_special() {
        assert!(type_matches("subscription.*", "subscription.paused"));
        assert!(type_matches("*", "anything"));
        assert!(!type_matches("subscription.*", "subscriptions"));
        assert!(!type_matches("call_done", "callXdone"));
        let filter = EventFilter { types: Some(vec!["a_b%.*".into()]), ..EventFilter::default() };
        assert_eq!(filter.type_patterns().unwrap(), [r"a\_b\%.%"]);
    }
}
