//! Source subscriptions.
//!
//! An execution names the source subscription that started it, and a source subscription lists the executions that it
//! started. So that the two folders do not depend on each other, the list is defined in
//! `execution::of_subscription`, as the complex part of [`SourceSubscription`].

use async_graphql::{Context, ID, Object, Result, SimpleObject};

use super::lifecycle::{SubscriptionAction, SubscriptionStatus};
use super::loaders::SubscriptionRowKey;
use super::spec::SubscriptionSpec;
use crate::access::READ;
use crate::catalog::types::CatalogEntry;
use crate::connection::{Countable, PageArguments, connection};
use crate::context::Services;
use crate::errors::field_error;
use crate::event::inputs::{EventFilter, EventOrder};
use crate::event::log::log;
use crate::event::types::EventConnection;
use crate::labels::Label;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{Time, show_id};
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::Total;
use noetl_domain::tenant::Scope;
use noetl_storage::subscriptions::{SubscriptionFilter, SubscriptionRow};
use noetl_use_cases::error::ServiceError;

/// A long-lived resource that receives messages and runs an execution for each message. Its status is the one of its
/// latest lifecycle event.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub struct SourceSubscription {
    #[graphql(flatten)]
    own: OwnFields,
}

impl SourceSubscription {
    /// Returns the subscription with this id through the batch loader.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let row = ctx.data::<BatchLoader>()?.load_one(SubscriptionRowKey(id)).await.map_err(field_error)?;
        Ok(row.transpose().map_err(field_error)?.map(Self::from))
    }

    /// Returns the id of the subscription.
    #[must_use]
    pub fn key(&self) -> Id {
        self.own.0.id
    }

    /// Resolves the field `id` of the interface `Node`.
    pub fn id(&self, _: &Context<'_>) -> std::future::Ready<Result<ID>> {
        std::future::ready(Ok(show_id(self.key())))
    }
}

impl SourceSubscription {
    /// Returns the position in lists.
    #[must_use]
    pub fn position(&self) -> ListPosition {
        self.own.0.position()
    }
}

impl From<SubscriptionRow> for SourceSubscription {
    fn from(row: SubscriptionRow) -> Self {
        Self { own: OwnFields(row) }
    }
}

impl Plain for SourceSubscription {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let row = &self.own.0;
        Some(match field {
            "id" => row.id.into(),
            "path" => (&row.path).into(),
            "status" => PlainValue::of_enum::<SubscriptionStatus>(row.state),
            "statusText" => (&row.state_text).into(),
            "lastEventId" => row.last_event_id.into(),
            "lastEventType" => (&row.last_event_type).into(),
            "registeredAt" => row.registered_at.into(),
            "updatedAt" => row.updated_at.into(),
            "tenantId" => (&row.tenancy.tenant_id).into(),
            "organizationId" => (&row.tenancy.organization_id).into(),
            "shard" => reader.shard_of(row.id)?.into(),
            "catalogId" => row.catalog_id.into(),
            _ => return None,
        })
    }
}

/// Fields of a source subscription that do not refer to executions.
#[derive(Debug, Clone)]
struct OwnFields(SubscriptionRow);

impl OwnFields {
    /// Returns the settings in the document of the catalog entry.
    async fn read_spec(&self, ctx: &Context<'_>) -> Result<Option<SubscriptionSpec>> {
        let entry = CatalogEntry::load_complete(ctx, self.0.catalog_id).await?;
        Ok(entry.as_ref().and_then(CatalogEntry::document).and_then(SubscriptionSpec::of))
    }
}

#[Object]
impl OwnFields {
    /// Id of the subscription. It is also the execution id of its log.
    async fn id(&self) -> ID {
        show_id(self.0.id)
    }

    /// Catalog path. A path has at most one subscription that is not deactivated.
    async fn path(&self) -> &str {
        &self.0.path
    }

    /// Current status.
    async fn status(&self) -> SubscriptionStatus {
        self.0.state.into()
    }

    /// Name of the status in the latest lifecycle event. It differs from `status` only if that is `UNKNOWN`.
    async fn status_text(&self) -> &str {
        &self.0.state_text
    }

    /// Actions that change the current status.
    async fn available_actions(&self) -> Vec<SubscriptionAction> {
        self.0.state.available_actions().into_iter().map(Into::into).collect()
    }

    /// Id of the latest lifecycle event: the version to pass as `expectedLastEventId`.
    async fn last_event_id(&self) -> ID {
        show_id(self.0.last_event_id)
    }

    /// Type of the latest lifecycle event.
    async fn last_event_type(&self) -> &str {
        &self.0.last_event_type
    }

    /// Time of registration.
    async fn registered_at(&self) -> Time {
        Time(self.0.registered_at)
    }

    /// Time of the latest lifecycle event.
    async fn updated_at(&self) -> Time {
        Time(self.0.updated_at)
    }

    /// Tenant of the subscription.
    async fn tenant_id(&self) -> &str {
        &self.0.tenancy.tenant_id
    }

    /// Organization of the subscription.
    async fn organization_id(&self) -> &str {
        &self.0.tenancy.organization_id
    }

    /// Index of the shard that stores the log.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.databases.index_of(self.0.id))
    }

    /// Id of the catalog entry that the subscription was registered with.
    async fn catalog_id(&self) -> ID {
        show_id(self.0.catalog_id)
    }

    /// Labels of the document (`metadata.labels`) that the subscription was registered with, ordered by name. A
    /// subscription that NoETL's server registered has none.
    #[graphql(guard = "READ")]
    async fn labels(&self) -> Option<Vec<Label>> {
        Some(Label::all(&self.0.labels))
    }

    /// Pool of the workers that run the executions of the subscription, from its document; null: the default pool. A
    /// request to start an execution can name another pool.
    #[graphql(guard = "READ")]
    async fn execution_pool(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.read_spec(ctx).await?.and_then(SubscriptionSpec::execution_pool))
    }

    /// Settings in the document of the catalog entry; null if the document can't be read.
    #[graphql(guard = "READ")]
    async fn spec(&self, ctx: &Context<'_>) -> Result<Option<SubscriptionSpec>> {
        self.read_spec(ctx).await
    }

    /// Catalog entry that the subscription was registered with.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        CatalogEntry::load(ctx, self.0.catalog_id).await
    }

    /// Log of the subscription, oldest event first: lifecycle events, and an audit event for each duplicate message.
    #[graphql(guard = "READ")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Order of the log (default: by id).")] order: Option<EventOrder>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<EventConnection>> {
        log(ctx, self.0.id, filter, order, &PageArguments { first, after, last, before }).await.map(Some)
    }
}

/// A list of source subscriptions.
#[derive(Debug)]
pub struct SubscriptionList {
    /// Conditions of the list.
    pub filter: SubscriptionFilter,
    /// Data that the caller may read.
    pub scope: Scope,
}

impl Countable for SubscriptionList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        ctx.data_unchecked::<Services>().subscriptions.total(&self.filter, limit, &self.scope).await
    }
}

connection!(SourceSubscriptionConnection, SourceSubscriptionEdge, SourceSubscription, SubscriptionList);
