//! Inputs of the event queries and the live events.

use async_graphql::{Enum, ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use crate::filters::{check_texts, checked_ids, checked_text, time_bound};
use crate::scalars::parse_id;
use noetl_domain::event as domain;
use noetl_domain::event_list::LogFilter;
use noetl_feed::read::reader::{Since, Start};
use noetl_feed::wire::cursor::StreamCursor;
use noetl_use_cases::bounds::check_text;
use noetl_use_cases::error::Rejection;

/// Filter for live events. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct LiveEventFilter {
    /// Only events in the logs of these executions and source subscriptions (at most 1000 ids).
    execution_ids: Option<Vec<ID>>,
    /// Only events of executions that this execution or source subscription started.
    parent_execution_id: Option<ID>,
    /// Only events of these types (at most 1000). A trailing `*` matches any ending, as in `subscription.*`.
    types: Option<Vec<String>>,
    /// Only events of nodes with these names (at most 1000).
    node_names: Option<Vec<String>>,
    /// Only events with one of these statuses (at most 1000).
    statuses: Option<Vec<String>>,
    /// Only events of this tenant.
    tenant_id: Option<String>,
    /// Only events of this organization.
    organization_id: Option<String>,
}

impl LiveEventFilter {
    /// Converts the input to a filter of the domain and parses its ids.
    pub fn parse(self) -> Result<domain::EventFilter, Rejection> {
        let lists = [("types", &self.types), ("nodeNames", &self.node_names), ("statuses", &self.statuses)];
        for (field, list) in lists {
            list.as_ref().map_or(Ok(()), |list| check_texts(&format!("filter.{field}"), list))?;
        }
        let ids = self.execution_ids.map(|ids| checked_ids("filter.executionIds", &ids));
        let parent = self.parent_execution_id.map(|id| parse_id("filter.parentExecutionId", &id)).transpose()?;
        Ok(domain::EventFilter {
            execution_ids: ids.transpose()?,
            parent_execution_id: parent,
            types: self.types,
            node_names: self.node_names,
            statuses: self.statuses,
            tenant_id: checked_text("filter.tenantId", self.tenant_id)?,
            organization_id: checked_text("filter.organizationId", self.organization_id)?,
        })
    }
}

/// Filter for stored events. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct EventFilter {
    #[graphql(flatten)]
    conditions: LiveEventFilter,
    /// Only events with this time or a later one.
    created_after: Option<DateTime<Utc>>,
    /// Only events before this time.
    created_before: Option<DateTime<Utc>>,
    /// Only events that contain this text (1 to 200 characters, in any case of letters) in the type, the node, the
    /// status, the error, the stack trace, or the JSON text of context, result and meta. It is searched for within one
    /// log, in at most 10000 events between `createdAfter` and `createdBefore`; a log with more is refused.
    text: Option<String>,
}

/// Maximum number of characters of a text that is searched for.
const MAX_TEXT: usize = 200;

impl EventFilter {
    /// Converts the input to a filter of the domain and parses its ids.
    pub fn parse(self) -> Result<LogFilter, Rejection> {
        if let Some(text) = &self.text {
            check_text("filter.text", text)?;
            if text.is_empty() || text.chars().count() > MAX_TEXT {
                return Err(Rejection::invalid("filter.text", format!("text must have 1 to {MAX_TEXT} characters")));
            }
        }
        Ok(LogFilter {
            event: self.conditions.parse()?,
            created_after: self.created_after.map(time_bound),
            created_before: self.created_before.map(time_bound),
            text: self.text,
        })
    }
}

/// Order of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Enum)]
pub enum EventOrder {
    /// By event id.
    #[default]
    Id,
    /// By arrival. A reader that continues from a cursor gets all events that were committed since then, also those with
    /// smaller ids, and gets each event once. Events that one read finds are ordered by their transactions and then by
    /// id. Such a log is read forwards, with `first` and `after`. A cursor is no longer valid after the shard was moved
    /// to another database server, promoted or restored.
    Arrival,
}

/// Start position of the live events.
#[derive(Debug, OneofObject)]
pub enum EventStart {
    /// Starts with the oldest event in the stream. The value must be true.
    Beginning(bool),
    /// Starts with the events that are published from now on. The value must be true.
    Latest(bool),
    /// Starts after a cursor that this subscription returned on any replica.
    After(String),
    /// Starts with the events that were published at or after this time. A future time counts as now.
    Since(DateTime<Utc>),
}

impl EventStart {
    /// Converts the input to a start position in a deployment with this many shards.
    pub fn parse(self, shards: usize, now: DateTime<Utc>) -> Result<Start, Rejection> {
        match self {
            Self::Beginning(true) => Ok(Start::Beginning),
            Self::Latest(true) => Ok(Start::Latest),
            Self::Beginning(false) => Err(Rejection::invalid("start.beginning", "beginning must be true or omitted")),
            Self::Latest(false) => Err(Rejection::invalid("start.latest", "latest must be true or omitted")),
            Self::After(cursor) => {
                let parsed = StreamCursor::parse(&cursor, shards);
                parsed.map(Start::After).map_err(|bad| Rejection::invalid("start.after", bad.to_string()))
            }
            Self::Since(time) => {
                // The broker accepts years up to 9999.
                let last = DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(now);
                Ok(Start::Since(Since { time: time.clamp(DateTime::UNIX_EPOCH, last), now }))
            }
        }
    }
}
