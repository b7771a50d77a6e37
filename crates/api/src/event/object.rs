//! Fields of events.

use async_graphql::{Context, ID, Object, Result};

use super::types::Event;
use crate::access::READ;
use crate::catalog::types::CatalogEntry;
use crate::context::Services;
use crate::execution::types::LogOwner;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{JsonText, Time, show_id};
use noetl_domain::event::EventKey;
use noetl_domain::node_id::NodeId;

impl Plain for Event {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let event = &self.0;
        Some(match field {
            "id" => self.global_id().into(),
            "eventId" => event.event_id.into(),
            "executionId" => event.execution_id.into(),
            "parentEventId" => event.parent_event_id.into(),
            "parentExecutionId" => event.parent_execution_id.into(),
            "catalogId" => Some(event.catalog_id).filter(|id| id.get() != 0).into(),
            "type" => (&event.event_type).into(),
            "nodeId" => event.node_id.as_deref().into(),
            "nodeName" => event.node_name.as_deref().into(),
            "nodeType" => event.node_type.as_deref().into(),
            "status" => event.status.as_deref().into(),
            "durationSeconds" => event.duration.into(),
            "createdAt" => event.created_at.into(),
            "context" if reader.may_read => event.context.as_ref().into(),
            "result" if reader.may_read => event.result.as_ref().into(),
            "meta" if reader.may_read => event.meta.as_ref().into(),
            "error" if reader.may_read => event.error.as_deref().into(),
            "stackTrace" if reader.may_read => event.stack_trace.as_deref().into(),
            "tenantId" => (&event.tenant_id).into(),
            "organizationId" => (&event.organization_id).into(),
            "shard" => reader.shard_of(event.execution_id)?.into(),
            _ => return None,
        })
    }
}

impl Event {
    /// Returns the id that is unique over all types.
    fn global_id(&self) -> String {
        let (event_id, execution_id) = (self.0.event_id.get(), self.0.execution_id.get());
        NodeId::Event(EventKey { event_id, execution_id }).to_string()
    }
}

/// A committed event: an immutable row in the log of an execution or a source subscription.
#[Object]
impl Event {
    /// Id of the event, unique over all types: `event-<execution id>-<event id>`.
    pub async fn id(&self) -> ID {
        self.global_id().into()
    }

    /// Id of the event in its log, a decimal number.
    async fn event_id(&self) -> ID {
        show_id(self.0.event_id)
    }

    /// Id of the execution or source subscription that the log belongs to.
    async fn execution_id(&self) -> ID {
        show_id(self.0.execution_id)
    }

    /// Id of the event that caused this event.
    async fn parent_event_id(&self) -> Option<ID> {
        self.0.parent_event_id.map(show_id)
    }

    /// Id of the execution or source subscription that started this execution.
    async fn parent_execution_id(&self) -> Option<ID> {
        self.0.parent_execution_id.map(show_id)
    }

    /// Number of the catalog entry; null if unknown.
    async fn catalog_id(&self) -> Option<ID> {
        (self.0.catalog_id.get() != 0).then(|| show_id(self.0.catalog_id))
    }

    /// Execution or source subscription that the log belongs to; null if the log has no registered or started event yet.
    #[graphql(guard = "READ")]
    async fn owner(&self, ctx: &Context<'_>) -> Result<Option<LogOwner>> {
        LogOwner::load(ctx, self.0.execution_id, ctx.look_ahead().field("execution")).await
    }

    /// Catalog entry that the event names; null if it names none, or if the catalog does not have it.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        match self.0.catalog_id.get() {
            0 => Ok(None),
            _ => CatalogEntry::load(ctx, self.0.catalog_id).await,
        }
    }

    /// Type of the event, such as `playbook_started`.
    #[graphql(name = "type")]
    async fn event_type(&self) -> &str {
        &self.0.event_type
    }

    /// Id of the node that the event belongs to.
    async fn node_id(&self) -> Option<&str> {
        self.0.node_id.as_deref()
    }

    /// Name of the node.
    async fn node_name(&self) -> Option<&str> {
        self.0.node_name.as_deref()
    }

    /// Type of the node.
    async fn node_type(&self) -> Option<&str> {
        self.0.node_type.as_deref()
    }

    /// Status after the event.
    async fn status(&self) -> Option<&str> {
        self.0.status.as_deref()
    }

    /// Duration of the reported work, in seconds.
    async fn duration_seconds(&self) -> Option<f64> {
        self.0.duration
    }

    /// Time of the event, as reported by the worker; otherwise the time at which the event was written.
    async fn created_at(&self) -> Time {
        Time(self.0.created_at)
    }

    /// Input of the reported work. Unreadable JSON (nested more than 104 levels deep, or with a number outside the
    /// 64-bit float range) is replaced by `{"error": {"code": "UNREADABLE", "message": …}}`.
    #[graphql(guard = "READ")]
    async fn context(&self) -> Option<JsonText> {
        self.0.context.clone().map(JsonText)
    }

    /// Output of the reported work. Unreadable JSON is replaced as in `context`.
    #[graphql(guard = "READ")]
    async fn result(&self) -> Option<JsonText> {
        self.0.result.clone().map(JsonText)
    }

    /// Metadata of the event. If the server identifies callers, `actor` is the subject of the caller that caused the
    /// event. Unreadable JSON is replaced as in `context`.
    #[graphql(guard = "READ")]
    async fn meta(&self) -> Option<JsonText> {
        self.0.meta.clone().map(JsonText)
    }

    /// Error message.
    #[graphql(guard = "READ")]
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// Stack trace of the error.
    #[graphql(guard = "READ")]
    async fn stack_trace(&self) -> Option<&str> {
        self.0.stack_trace.as_deref()
    }

    /// Tenant of the event.
    async fn tenant_id(&self) -> &str {
        &self.0.tenant_id
    }

    /// Organization of the event.
    async fn organization_id(&self) -> &str {
        &self.0.organization_id
    }

    /// Index of the shard that stores the log.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.databases.index_of(self.0.execution_id))
    }
}
