//! Events.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};

use crate::domain::event as domain;
use crate::graphql::access::READ;
use crate::graphql::scalars::{JsonText, show_id};
use crate::graphql::schema::Services;
use noetl_json::Text;

/// A committed event.
#[derive(Debug, Clone)]
pub struct Event(pub Arc<domain::Event<Text>>);

/// A committed event: an immutable row of an execution's or a subscription's log.
#[Object]
impl Event {
    /// The event's id; ids grow along a log.
    async fn id(&self) -> ID {
        show_id(self.0.event_id)
    }

    /// The execution or subscription whose log it belongs to.
    async fn execution_id(&self) -> ID {
        show_id(self.0.execution_id)
    }

    /// The event that caused it.
    async fn parent_event_id(&self) -> Option<ID> {
        self.0.parent_event_id.map(show_id)
    }

    /// The execution or subscription that started this one.
    async fn parent_execution_id(&self) -> Option<ID> {
        self.0.parent_execution_id.map(show_id)
    }

    /// The catalog entry, 0 when unknown.
    async fn catalog_id(&self) -> ID {
        show_id(self.0.catalog_id)
    }

    /// What happened, such as `playbook_started`.
    #[graphql(name = "type")]
    async fn event_type(&self) -> &str {
        &self.0.event_type
    }

    /// The node that it happened at.
    async fn node_id(&self) -> Option<&str> {
        self.0.node_id.as_deref()
    }

    /// The node's name.
    async fn node_name(&self) -> Option<&str> {
        self.0.node_name.as_deref()
    }

    /// The node's kind.
    async fn node_type(&self) -> Option<&str> {
        self.0.node_type.as_deref()
    }

    /// The state after it.
    async fn status(&self) -> Option<&str> {
        self.0.status.as_deref()
    }

    /// How long it took, in seconds.
    async fn duration(&self) -> Option<f64> {
        self.0.duration
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.created_at
    }

    /// Input of what happened. JSON that parsers can't read (more than 104 levels, a number beyond 64-bit floats) is
    /// replaced by `{"error": {"code": "UNREADABLE", "message": …}}`.
    #[graphql(guard = "READ")]
    async fn context(&self) -> Option<JsonText> {
        self.0.context.clone().map(JsonText)
    }

    /// Output of what happened. JSON that parsers can't read is replaced as in `context`.
    #[graphql(guard = "READ")]
    async fn result(&self) -> Option<JsonText> {
        self.0.result.clone().map(JsonText)
    }

    /// About the event itself. `actor` is the subject of the caller that caused it, where callers are
    /// identified. JSON that parsers can't read is replaced as in `context`.
    #[graphql(guard = "READ")]
    async fn meta(&self) -> Option<JsonText> {
        self.0.meta.clone().map(JsonText)
    }

    /// What went wrong.
    #[graphql(guard = "READ")]
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// Where it went wrong.
    #[graphql(guard = "READ")]
    async fn stack_trace(&self) -> Option<&str> {
        self.0.stack_trace.as_deref()
    }

    /// The shard that holds its log.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.executions.databases().index_of(self.0.execution_id))
    }
}
