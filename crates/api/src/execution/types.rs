//! Executions, and lists of them.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result, Union};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::current::CurrentExecution;
use super::inputs::ExecutionFilter;
use super::loaders::{
    ChildrenKey, ChildrenTotalKey, EndKey, EntryTotalKey, ErrorKey, ExecutionKey, ExecutionsPage, ResultKey, StateKey,
    WorkloadKey,
};
use super::state::{ExecutionProgress, ProjectionSnapshot, StepConnection};
use super::status::ExecutionStatus;
use crate::access::{READ, scope};
use crate::catalog::types::CatalogEntry;
use crate::connection::{Countable, PageArguments, connection, selects_item_field, time_cursor};
use crate::context::Services;
use crate::errors::field_error;
use crate::event::inputs::{EventFilter, EventOrder};
use crate::event::loaders::HeadKey;
use crate::event::log::log;
use crate::event::types::EventConnection;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{BigInt, Json, JsonText, show_id};
use crate::subscription::types::SourceSubscription;
use crate::trace::TraceContext;
use noetl_domain::cursor::CursorKind;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::page::{Page, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_domain::trace_context as domain;
use noetl_domain::workflow::End;
use noetl_storage::events::FirstEvent;
use noetl_storage::execution_lists;
use noetl_storage::executions::{CurrentRow, ExecutionRow};
use noetl_storage::snapshots::Projected;
use noetl_use_cases::error::ServiceError;

/// Fields that the list row shows and that change.
const ROW_FIELDS: [&str; 3] = ["status", "statusText", "endedAt"];
/// Fields that are read from the state.
const STATE_FIELDS: [&str; 5] = ["eventCount", "progress", "context", "snapshot", "steps"];

/// Parent of an execution: the object that started it.
#[derive(Debug, Clone, Union)]
pub enum ExecutionParent {
    /// Another execution.
    Execution(Execution),
    /// A source subscription; the execution runs one of its messages.
    SourceSubscription(SourceSubscription),
}

/// One run of a catalog entry.
#[derive(Debug, Clone)]
pub struct Execution {
    row: ExecutionRow,
    moment: Moment,
}

/// Moment in which an execution is shown.
#[derive(Debug, Clone)]
enum Moment {
    /// The current one.
    Now,
    /// The one in which its row was read; the end was read too, if the row did not show it.
    AsRead(Option<End>),
    /// The same, but the end has no reason.
    AsReadWithoutReason(Option<End>),
    /// The one of this state: a moment in the past, or the one in which a field of the state was read.
    Of(Arc<Projected>),
}

/// The end of an execution has to be read from its log.
struct NotRead;

impl Execution {
    /// Returns an execution that was read with the end that its row does not show yet.
    #[must_use]
    pub fn of_row(current: CurrentRow) -> Self {
        Self { row: current.row, moment: Moment::AsReadWithoutReason(current.end) }
    }

    /// Returns an execution in its current state.
    #[must_use]
    pub const fn current(row: ExecutionRow) -> Self {
        Self { row, moment: Moment::Now }
    }

    /// Returns an execution that the request has created. It has not ended.
    #[must_use]
    pub const fn created(row: ExecutionRow) -> Self {
        Self { row, moment: Moment::AsRead(None) }
    }

    /// Returns an execution whose end was read together with its row.
    #[must_use]
    pub fn as_read(current: CurrentExecution) -> Self {
        Self { row: current.row, moment: Moment::AsRead(current.end) }
    }

    /// Returns an execution of a list. `end` is its end, if the row does not show it.
    const fn listed(row: ExecutionRow, end: Option<End>) -> Self {
        Self { row, moment: Moment::AsRead(end) }
    }

    /// Returns the execution in a state.
    #[must_use]
    pub fn in_state(self, projected: Arc<Projected>) -> Self {
        let state = &projected.projection.state;
        let (status, end_time) = (state.status().as_str().to_owned(), state.end().map(|end| end.at));
        Self { row: ExecutionRow { status, end_time, ..self.row }, moment: Moment::Of(projected) }
    }

    /// Returns the execution with this id through the batch loader.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        ctx.data::<BatchLoader>()?;
        Self::read(ctx, id).await.map_err(field_error)
    }

    /// Returns the execution as [`Self::load`] does, without its state.
    pub async fn load_row(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        ctx.data::<BatchLoader>()?;
        Self::read_row(ctx, id).await.map_err(field_error)
    }

    /// Returns the execution with this id through the batch loader, or the use case's error.
    pub async fn read(ctx: &Context<'_>, id: Id) -> std::result::Result<Option<Self>, ServiceError> {
        let Some(execution) = Self::read_row(ctx, id).await? else { return Ok(None) };
        if !selects_one_version(|field| ctx.look_ahead().field(field).exists()) {
            return Ok(Some(execution));
        }
        // A field of the state reports the error.
        let state = ctx.data_unchecked::<BatchLoader>().load_one(StateKey(id)).await.ok().flatten();
        Ok(Some(match state {
            Some(Ok(projected)) => execution.in_state(projected),
            Some(Err(_)) | None => execution,
        }))
    }

    async fn read_row(ctx: &Context<'_>, id: Id) -> std::result::Result<Option<Self>, ServiceError> {
        let row = ctx.data_unchecked::<BatchLoader>().load_one(ExecutionKey(id)).await?;
        Ok(row.transpose()?.map(Self::of_row))
    }

    fn key(&self) -> Id {
        Id::new(self.row.execution_id)
    }

    /// Returns the state, which is the current one unless the execution is shown in the past.
    async fn projected(&self, ctx: &Context<'_>) -> Result<Option<Arc<Projected>>> {
        if let Moment::Of(projected) = &self.moment {
            return Ok(Some(Arc::clone(projected)));
        }
        let state = ctx.data::<BatchLoader>()?.load_one(StateKey(self.key())).await.map_err(field_error)?;
        state.transpose().map_err(field_error)
    }

    /// Returns the end of an execution whose list row does not show it, if that is known.
    fn known_end(&self) -> std::result::Result<Option<&End>, NotRead> {
        match &self.moment {
            Moment::Of(_) => Ok(None),
            Moment::AsRead(end) | Moment::AsReadWithoutReason(end) => Ok(end.as_ref()),
            Moment::Now if Status::from_stored(&self.row.status).is_terminal() => Ok(None),
            Moment::Now => Err(NotRead),
        }
    }

    /// Returns the end of an execution whose list row does not show it yet. With `reason`, it includes the error.
    async fn end_not_in_list(&self, ctx: &Context<'_>, reason: bool) -> Result<Option<End>> {
        let lacks_reason = reason && matches!(self.moment, Moment::AsReadWithoutReason(Some(_)));
        if let (Ok(end), false) = (self.known_end(), lacks_reason) {
            return Ok(end.cloned());
        }
        let end = ctx.data::<BatchLoader>()?.load_one(EndKey { id: self.key(), reason }).await.map_err(field_error)?;
        end.transpose().map_err(field_error)
    }

    async fn head(&self, ctx: &Context<'_>) -> Result<Option<Arc<FirstEvent>>> {
        let head = ctx.data::<BatchLoader>()?.load_one(HeadKey(self.key())).await.map_err(field_error)?;
        head.transpose().map_err(field_error)
    }
}

impl Plain for Execution {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let row = &self.row;
        Some(match field {
            "id" => self.key().into(),
            "path" => row.path.as_deref()?.into(),
            "status" => {
                let status = self.known_end().ok()?.map_or_else(|| Status::from_stored(&row.status), End::status);
                PlainValue::of_enum::<ExecutionStatus>(status)
            }
            "statusText" => self.known_end().ok()?.map_or(row.status.as_str(), |end| end.status().as_str()).into(),
            "startedAt" => row.start_time.into(),
            "endedAt" => self.known_end().ok()?.map_or(row.end_time, |end| Some(end.at)).into(),
            "tenantId" => (&row.tenant_id).into(),
            "organizationId" => (&row.organization_id).into(),
            "shard" => reader.shard_of(self.key())?.into(),
            "catalogId" => Some(Id::new(row.catalog_id)).filter(|id| id.get() != 0).into(),
            _ => return None,
        })
    }
}

/// One run of a catalog entry.
#[Object]
impl Execution {
    /// Id of the execution.
    pub async fn id(&self) -> ID {
        show_id(self.key())
    }

    /// Catalog path of the entry that the execution runs.
    async fn path(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        if self.row.path.is_some() {
            return Ok(self.row.path.clone());
        }
        let entry = CatalogEntry::load(ctx, Id::new(self.row.catalog_id)).await?;
        Ok(entry.map(|entry| entry.row().path.clone()))
    }

    /// Current status.
    async fn status(&self, ctx: &Context<'_>) -> Result<ExecutionStatus> {
        let listed = Status::from_stored(&self.row.status);
        Ok(self.end_not_in_list(ctx, false).await?.map_or(listed, |end| end.status()).into())
    }

    /// Name of the status as stored. Other servers may use other names than `status` does, and names that this server
    /// does not know.
    async fn status_text(&self, ctx: &Context<'_>) -> Result<String> {
        let end = self.end_not_in_list(ctx, false).await?;
        Ok(end.map_or_else(|| self.row.status.clone(), |end| end.status().as_str().to_owned()))
    }

    /// Start time.
    async fn started_at(&self) -> Option<DateTime<Utc>> {
        self.row.start_time
    }

    /// End time; null until the execution ends.
    async fn ended_at(&self, ctx: &Context<'_>) -> Result<Option<DateTime<Utc>>> {
        Ok(self.end_not_in_list(ctx, false).await?.map_or(self.row.end_time, |end| Some(end.at)))
    }

    /// Reason for the failure or the cancellation.
    #[graphql(guard = "READ")]
    async fn error(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        if let Some(end) = self.end_not_in_list(ctx, true).await? {
            return Ok(end.error);
        }
        if let Moment::Of(projected) = &self.moment {
            return Ok(projected.projection.state.end().and_then(|end| end.error));
        }
        let error = ctx.data::<BatchLoader>()?.load_one(ErrorKey(self.key())).await.map_err(field_error)?;
        Ok(error.transpose().map_err(field_error)?.flatten())
    }

    /// Result of the execution: the result of the event that ended it, as it was reported. Null until the execution ends,
    /// and if the event has none. Unreadable JSON is replaced by an error object, as in events.
    #[graphql(guard = "READ")]
    async fn result(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        let result = ctx.data::<BatchLoader>()?.load_one(ResultKey(self.key())).await.map_err(field_error)?;
        Ok(result.transpose().map_err(field_error)?.map(JsonText))
    }

    /// Number of events in the log.
    #[graphql(guard = "READ")]
    async fn event_count(&self, ctx: &Context<'_>) -> Result<Option<BigInt>> {
        Ok(self.projected(ctx).await?.map(|projected| BigInt(projected.projection.applied_count)))
    }

    /// Progress of the execution: numbers of its steps.
    #[graphql(guard = "READ")]
    async fn progress(&self, ctx: &Context<'_>) -> Result<Option<ExecutionProgress>> {
        Ok(self.projected(ctx).await?.map(|projected| ExecutionProgress::of(&projected.projection.state)))
    }

    /// Tenant of the execution.
    async fn tenant_id(&self) -> &str {
        &self.row.tenant_id
    }

    /// Organization of the execution.
    async fn organization_id(&self) -> &str {
        &self.row.organization_id
    }

    /// Index of the shard that stores the execution.
    async fn shard(&self, ctx: &Context<'_>) -> Result<u16> {
        Ok(ctx.data::<Services>()?.databases.index_of(self.key()))
    }

    /// Id of the catalog entry that the execution runs; null if the log does not name it.
    async fn catalog_id(&self) -> Option<ID> {
        (self.row.catalog_id != 0).then(|| show_id(Id::new(self.row.catalog_id)))
    }

    /// Pool of the workers that the request or the document of the source subscription named; null: the default pool.
    #[graphql(guard = "READ")]
    async fn execution_pool(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.head(ctx).await?.and_then(|head| head.execution_pool.clone()))
    }

    /// Catalog entry that the execution runs.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        CatalogEntry::load(ctx, Id::new(self.row.catalog_id)).await
    }

    /// Execution or source subscription that started this execution; null if there is none, or if it belongs to another
    /// tenant than the caller.
    #[graphql(guard = "READ")]
    async fn parent(&self, ctx: &Context<'_>) -> Result<Option<ExecutionParent>> {
        let Some(parent) = self.row.parent_execution_id.map(Id::new) else {
            return Ok(None);
        };
        let head = ctx.data::<BatchLoader>()?.load_one(HeadKey(parent)).await.map_err(field_error)?;
        let head = head.transpose().map_err(field_error)?;
        if head.is_some_and(|head| head.event_type == REGISTERED) {
            return Ok(SourceSubscription::load(ctx, parent).await?.map(ExecutionParent::SourceSubscription));
        }
        Ok(Execution::load(ctx, parent).await?.map(ExecutionParent::Execution))
    }

    /// Execution of which this one is a rerun; null if it is not a rerun, or if that execution does not exist any more.
    #[graphql(guard = "READ")]
    async fn rerun_of(&self, ctx: &Context<'_>) -> Result<Option<Self>> {
        match self.head(ctx).await?.and_then(|head| head.rerun_of) {
            Some(origin) => Self::load(ctx, Id::new(origin)).await,
            None => Ok(None),
        }
    }

    /// Executions that this execution started, newest first: ordered by `startedAt`, then by id. Executions without
    /// `startedAt` are last.
    #[graphql(guard = "READ")]
    async fn children(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        children(ctx, self.key(), None, &page).await.map(Some)
    }

    /// Input of the execution: the catalog entry's workload, overlaid with the request's workload.
    #[graphql(guard = "READ")]
    async fn workload(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        let workload = ctx.data::<BatchLoader>()?.load_one(WorkloadKey(self.key())).await.map_err(field_error)?;
        Ok(workload.transpose().map_err(field_error)?.map(JsonText))
    }

    /// Durable variables by name; null if none is set.
    #[graphql(guard = "READ")]
    async fn context(&self, ctx: &Context<'_>) -> Result<Option<Json>> {
        let projected = self.projected(ctx).await?;
        let variables = projected.iter().flat_map(|projected| projected.projection.state.ctx());
        let variables: Map<String, Value> = variables.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Ok((!variables.is_empty()).then(|| Json(variables.into())))
    }

    /// Current state of the steps, ordered by the first event of each step.
    #[graphql(guard = "READ")]
    async fn steps(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<StepConnection>> {
        let page = PageArguments { first, after, last, before };
        let projected = self.projected(ctx).await?;
        StepConnection::page(projected.as_ref(), page).map(Some).map_err(field_error)
    }

    /// Stored snapshot that a read of the state starts from; null if there is no usable snapshot.
    #[graphql(guard = "READ")]
    async fn snapshot(&self, ctx: &Context<'_>) -> Result<Option<ProjectionSnapshot>> {
        Ok(self.projected(ctx).await?.and_then(|projected| ProjectionSnapshot::of(&projected)))
    }

    /// Trace context of the execution; null if the log has none, or one that does not have the form of the standard.
    #[graphql(guard = "READ")]
    async fn trace(&self, ctx: &Context<'_>) -> Result<Option<TraceContext>> {
        let head = self.head(ctx).await?;
        let stored = head.as_ref().and_then(|head| head.trace.as_ref());
        Ok(stored.and_then(|trace| domain::TraceContext::of_stored(&trace.read())).map(TraceContext::from))
    }

    /// Log of the execution, oldest event first, or in the order of arrival.
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
        let page = PageArguments { first, after, last, before };
        log(ctx, self.key(), filter, order, &page).await.map(Some)
    }
}

/// Returns a page of the executions that a source subscription or execution started.
pub async fn children(
    ctx: &Context<'_>,
    parent: Id,
    filter: Option<ExecutionFilter>,
    page: &PageArguments,
) -> Result<ExecutionConnection> {
    let request = page.by_time(CursorKind::Execution).map_err(field_error)?;
    let filter = filter.unwrap_or_default().resolve(ctx, "filter").await.map_err(field_error)?;
    let list = ExecutionList { of: ExecutionsOf::Parent(parent), filter: filter.clone(), scope: scope(ctx)? };
    let key = ChildrenKey { parent, filter, request };
    let found = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
    let ExecutionsPage { page, unavailable } = found.unwrap_or_default();
    Ok(executions(ctx, list, Arc::unwrap_or_clone(page), unavailable).await)
}

/// Returns the connection for a page of executions.
pub async fn executions(
    ctx: &Context<'_>,
    list: ExecutionList,
    page: Page<ExecutionRow>,
    unavailable: Vec<ShardIndex>,
) -> ExecutionConnection {
    let cursor = |execution: &Execution| time_cursor(CursorKind::Execution, execution.row.position());
    if selects_one_version(|field| selects_item_field(ctx, field)) {
        let keys = page.items.iter().map(|row| StateKey(Id::new(row.execution_id)));
        // A field of the state reports the error.
        let states = match ctx.data_opt::<BatchLoader>() {
            Some(loader) => loader.load_many(keys).await.unwrap_or_default(),
            None => HashMap::new(),
        };
        let node = |row: ExecutionRow| {
            let state = states.get(&StateKey(Id::new(row.execution_id)));
            let execution = Execution::current(row);
            match state {
                Some(Ok(projected)) => execution.in_state(Arc::clone(projected)),
                Some(Err(_)) | None => execution,
            }
        };
        return ExecutionConnection::new(list, page, unavailable, node, cursor);
    }
    let ends = ends_not_in_list(ctx, &page.items).await;
    let node = |row: ExecutionRow| match ends.as_ref().map(|ends| ends.get(&row.execution_id)) {
        Some(Some(Ok(end))) => Execution::listed(row, Some(end.clone())),
        Some(None) => Execution::listed(row, None),
        // A field that needs the end reports the error.
        None | Some(Some(Err(_))) => Execution::current(row),
    };
    ExecutionConnection::new(list, page, unavailable, node, cursor)
}

/// Returns whether fields of the list row and fields of the state are selected. The row may be older, so both are taken from
/// the state.
fn selects_one_version(selects: impl Fn(&str) -> bool) -> bool {
    let [of_row, of_state] = [&ROW_FIELDS[..], &STATE_FIELDS[..]];
    of_row.iter().any(|field| selects(field)) && of_state.iter().any(|field| selects(field))
}

/// Reads the ends of the executions of a page whose rows do not show them, by id; `None` if no selected field needs them,
/// or if they can't be read.
async fn ends_not_in_list(
    ctx: &Context<'_>,
    rows: &[ExecutionRow],
) -> Option<HashMap<i64, std::result::Result<End, ServiceError>>> {
    let reason = selects_item_field(ctx, "error");
    if !reason && !ROW_FIELDS.into_iter().any(|field| selects_item_field(ctx, field)) {
        return None;
    }
    let open = rows.iter().filter(|row| !Status::from_stored(&row.status).is_terminal());
    let keys: Vec<EndKey> = open.map(|row| EndKey { id: Id::new(row.execution_id), reason }).collect();
    if keys.is_empty() {
        return Some(HashMap::new());
    }
    let ends = ctx.data_opt::<BatchLoader>()?.load_many(keys).await.ok()?;
    Some(ends.into_iter().map(|(key, end)| (key.id.get(), end)).collect())
}

/// Owner of the executions of a list.
#[derive(Debug, Clone, Copy)]
pub enum ExecutionsOf {
    /// The list has all executions.
    All,
    /// The list has the executions that a source subscription or execution started.
    Parent(Id),
    /// The list has the executions of a catalog entry.
    Entry(Id),
}

/// A list of executions.
#[derive(Debug)]
pub struct ExecutionList {
    /// Owner of the executions.
    pub of: ExecutionsOf,
    /// Conditions of the list.
    pub filter: execution_lists::ExecutionFilter,
    /// Data that the caller may read.
    pub scope: Scope,
}

impl Countable for ExecutionList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        match self.of {
            ExecutionsOf::Parent(parent) => {
                let key = ChildrenTotalKey { parent, filter: self.filter.clone(), limit };
                Ok(ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Total::of(0, limit)))
            }
            ExecutionsOf::Entry(entry) => {
                let key = EntryTotalKey { entry: entry.get(), limit };
                Ok(ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Total::of(0, limit)))
            }
            ExecutionsOf::All => {
                ctx.data_unchecked::<Services>().executions.total(&self.filter, limit, &self.scope).await
            }
        }
    }
}

connection!(ExecutionConnection, ExecutionEdge, Execution, ExecutionList);
