//! Ids that are unique over all types (Relay, "GraphQL Global Object Identification").
//!
//! Executions and source subscriptions share one id space, so their id is the plain number. The ids of other objects have
//! a prefix, and those of events and outbox entries contain their log or shard.

use std::fmt;
use std::str::FromStr;

use super::event::EventKey;
use super::ids::Id;
use super::outbox::{OUTBOX_PREFIX, OutboxId};

/// Prefix of the id of a catalog entry.
const CATALOG_PREFIX: &str = "catalog-";
/// Prefix of the id of an event.
const EVENT_PREFIX: &str = "event-";

/// Id of an object over all types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeId {
    /// An execution or a source subscription.
    Log(Id),
    /// A catalog entry: `catalog-<number>`.
    CatalogEntry(Id),
    /// An event: `event-<execution id>-<event id>`.
    Event(EventKey),
    /// An outbox entry: `outbox-<shard>-<number>`.
    OutboxEntry(OutboxId),
}

/// A text that is not an id of any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an id: an id is a decimal number, catalog-<number>, event-<execution id>-<event id> or outbox-<shard>-<number>"
)]
pub struct MalformedNodeId;

/// A text that is not the id of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a catalog entry: it is a decimal number or catalog-<number>")]
pub struct NotCatalogEntryId;

/// A text that is not the id of an event in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotEventId {
    /// The text is not the id of any event.
    #[error("not the id of an event: it is a decimal number or event-<execution id>-<event id>")]
    Malformed,
    /// The event belongs to another log.
    #[error("the id of an event in the log of {of}, not of {expected}")]
    OtherLog {
        /// The execution or source subscription of the event.
        of: Id,
        /// The execution or source subscription whose event is expected.
        expected: Id,
    },
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(id) => id.fmt(f),
            Self::CatalogEntry(id) => write!(f, "{CATALOG_PREFIX}{id}"),
            Self::Event(key) => write!(f, "{EVENT_PREFIX}{}-{}", key.execution_id, key.event_id),
            Self::OutboxEntry(id) => write!(f, "{OUTBOX_PREFIX}{id}"),
        }
    }
}

impl FromStr for NodeId {
    type Err = MalformedNodeId;

    fn from_str(text: &str) -> Result<Self, MalformedNodeId> {
        let id = |text: &str| text.parse::<Id>().map_err(|_| MalformedNodeId);
        if let Some(number) = text.strip_prefix(CATALOG_PREFIX) {
            return id(number).map(Self::CatalogEntry);
        }
        if let Some(key) = text.strip_prefix(EVENT_PREFIX) {
            let (execution, event) = key.split_once('-').ok_or(MalformedNodeId)?;
            let (execution_id, event_id) = (id(execution)?.get(), id(event)?.get());
            return Ok(Self::Event(EventKey { event_id, execution_id }));
        }
        if text.starts_with(OUTBOX_PREFIX) {
            return text.parse().map(Self::OutboxEntry).map_err(|_| MalformedNodeId);
        }
        id(text).map(Self::Log)
    }
}

impl NodeId {
    /// Parses the id of a catalog entry in either form: with the prefix, or its number alone.
    pub fn catalog_entry(text: &str) -> Result<Id, NotCatalogEntryId> {
        match text.parse() {
            Ok(Self::CatalogEntry(id) | Self::Log(id)) => Ok(id),
            Ok(Self::Event(_) | Self::OutboxEntry(_)) | Err(MalformedNodeId) => Err(NotCatalogEntryId),
        }
    }

    /// Parses the id of an event in either form: with the prefix and its execution, or its number alone. With
    /// `execution`, an event of another execution is refused.
    pub fn event(text: &str, execution: Option<Id>) -> Result<Id, NotEventId> {
        match text.parse() {
            Ok(Self::Event(key)) => match execution {
                Some(expected) if expected.get() != key.execution_id => {
                    Err(NotEventId::OtherLog { of: Id::new(key.execution_id), expected })
                }
                _ => Ok(Id::new(key.event_id)),
            },
            Ok(Self::Log(id)) => Ok(id),
            Ok(Self::CatalogEntry(_) | Self::OutboxEntry(_)) | Err(MalformedNodeId) => Err(NotEventId::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_all_types_round_trip_and_differ() {
        let key = EventKey { execution_id: 7, event_id: i64::MAX };
        let ids = [
            (NodeId::Log(Id::new(7)), "7"),
            (NodeId::CatalogEntry(Id::new(7)), "catalog-7"),
            (NodeId::Event(key), "event-7-9223372036854775807"),
            (NodeId::OutboxEntry(OutboxId { shard: 0, number: 7 }), "outbox-0-7"),
        ];
        for (id, text) in ids {
            assert_eq!((id.to_string(), text.parse()), (text.to_owned(), Ok(id)));
        }
        for text in
            ["", "x", "-7", "07", "catalog-", "catalog-x", "event-7", "event-7-8-9", "event--8", "outbox-7", "0-7"]
        {
            assert_eq!(text.parse::<NodeId>(), Err(MalformedNodeId), "{text}");
        }
    }

    #[test]
    fn inputs_accept_both_forms_of_an_id() {
        assert_eq!((NodeId::catalog_entry("7"), NodeId::catalog_entry("catalog-7")), (Ok(Id::new(7)), Ok(Id::new(7))));
        for text in ["event-7-8", "outbox-0-7", "x"] {
            assert_eq!(NodeId::catalog_entry(text), Err(NotCatalogEntryId), "{text}");
        }
        let of = |text| NodeId::event(text, Some(Id::new(7)));
        assert_eq!((of("8"), of("event-7-8")), (Ok(Id::new(8)), Ok(Id::new(8))));
        let other = NotEventId::OtherLog { of: Id::new(6), expected: Id::new(7) };
        assert_eq!((of("event-6-8"), of("event-7")), (Err(other), Err(NotEventId::Malformed)));
        assert_eq!(NodeId::event("event-6-8", None), Ok(Id::new(8)));
        assert_eq!(NodeId::event("catalog-8", None), Err(NotEventId::Malformed));
        let entry = OutboxId { shard: 0, number: 7 };
        assert_eq!(("0-7".parse(), "outbox-0-7".parse()), (Ok(entry), Ok(entry)));
    }
}
