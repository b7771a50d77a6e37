//! Inputs of the event queries and the live events.

use async_graphql::{ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use crate::feed::read::reader::{Since, Start};
use crate::feed::wire::cursor::StreamCursor;
use crate::graphql::filters::{check_list, check_owner, check_texts};
use crate::graphql::scalars::{parse_id, parse_ids};
use crate::service::error::Rejection;
use noetl_domain::event as domain;

/// Filter for events. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct EventFilter {
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

impl EventFilter {
    /// Converts the input to a filter of the domain and parses its ids.
    pub fn parse(self) -> Result<domain::EventFilter, Rejection> {
        let lists = [("types", &self.types), ("nodeNames", &self.node_names), ("statuses", &self.statuses)];
        for (field, list) in lists {
            list.as_ref().map_or(Ok(()), |list| check_texts(&format!("filter.{field}"), list))?;
        }
        let ids = self
            .execution_ids
            .map(|ids| check_list("filter.executionIds", &ids).and_then(|()| parse_ids("filter.executionIds", &ids)));
        let parent = self.parent_execution_id.map(|id| parse_id("filter.parentExecutionId", &id)).transpose()?;
        Ok(domain::EventFilter {
            execution_ids: ids.transpose()?,
            parent_execution_id: parent,
            types: self.types,
            node_names: self.node_names,
            statuses: self.statuses,
            tenant_id: check_owner("filter.tenantId", self.tenant_id)?,
            organization_id: check_owner("filter.organizationId", self.organization_id)?,
        })
    }
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
