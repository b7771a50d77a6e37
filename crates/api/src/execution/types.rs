//! Executions.

use std::borrow::Cow;
use std::sync::Arc;

use async_graphql::{Context, ID, Lookahead, Object, Result, SimpleObject};
use serde_json::{Map, Value};

use super::current::CurrentExecution;
use super::loaders::{ExecutionKey, ResultKey, StateKey, WorkloadKey};
use super::state::{ExecutionProgress, ProjectionSnapshot, StepConnection};
use super::status::ExecutionStatus;
use crate::access::READ;
use crate::catalog::types::CatalogEntry;
use crate::connection::PageArguments;
use crate::context::Services;
use crate::errors::field_error;
use crate::event::inputs::{EventFilter, EventOrder};
use crate::event::loaders::{EventLoadKey, HeadKey};
use crate::event::log::log;
use crate::event::types::EventConnection;
use crate::labels::Label;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::{BigInt, Json, JsonText, Time, seconds_between, show_id};
use crate::subscription::types::SourceSubscription;
use crate::trace::TraceContext;
use noetl_domain::actor::META_KEY;
use noetl_domain::event::EventKey;
use noetl_domain::execution::{Status, ended_by};
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::REGISTERED;
use noetl_domain::trace_context as domain;
use noetl_domain::workflow::End;
use noetl_storage::events::{FirstEvent, LargeColumns};
use noetl_storage::execution_lists::ExecutionFilter;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::snapshots::Projected;
use noetl_use_cases::error::ServiceError;
use plain_json::Text;

/// Fields that change with the log and that the list's row has too.
pub(super) const ROW_FIELDS: [&str; 5] = ["status", "statusText", "endedAt", "durationSeconds", "failedSteps"];
/// Fields that change with the log and that are read from the state.
pub(super) const STATE_FIELDS: [&str; 7] =
    ["cancelledBy", "result", "eventCount", "progress", "context", "snapshot", "steps"];

/// One run of a catalog entry. The fields that its log decides, such as `status`, `endedAt`, `error`, `result` and `steps`,
/// show one moment of the log. An execution that is read by its id shows its whole log.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub struct Execution {
    #[graphql(flatten)]
    pub(super) own: ExecutionFields,
}

/// Fields of an execution that are no lists of executions.
#[derive(Debug, Clone)]
pub(super) struct ExecutionFields {
    row: ExecutionRow,
    moment: Moment,
}

/// Moment of the log in which an execution is shown.
#[derive(Debug, Clone)]
enum Moment {
    /// None: no field that changes was read.
    Any,
    /// The one of the row.
    OfRow,
    /// The one of the row, whose end has this reason, if there is one.
    WithReason(Option<String>),
    /// The one of this state, which the row shows too.
    Of(Arc<Projected>),
    /// The one of the row, because the state can't be read.
    Unreadable(ServiceError),
}

impl Execution {
    /// Returns an execution of which no field that changes was read.
    #[must_use]
    pub const fn unread(row: ExecutionRow) -> Self {
        Self::new(row, Moment::Any)
    }

    /// Returns an execution whose row shows its moment: the request has created it, or it is one of a list and has ended.
    #[must_use]
    pub const fn of_row(row: ExecutionRow) -> Self {
        Self::new(row, Moment::OfRow)
    }

    /// Returns an execution in the state that was read with it.
    #[must_use]
    pub fn as_read(current: CurrentExecution) -> Self {
        let moment = current.state.map_or(Moment::OfRow, Moment::Of);
        Self::new(current.row, moment)
    }

    /// Returns the execution in a state.
    #[must_use]
    pub fn in_state(self, projected: Arc<Projected>) -> Self {
        Self::new(self.own.row.in_state(&projected), Moment::Of(projected))
    }

    /// Returns the execution with an end that was read with its reason.
    #[must_use]
    pub fn with_end(self, end: End) -> Self {
        let row = ExecutionRow { status: end.status().as_str().to_owned(), end_time: Some(end.at), ..self.own.row };
        Self::new(row, Moment::WithReason(end.error))
    }

    /// Returns an execution whose row shows its whole log, with the reason of its end, if there is one.
    pub(super) const fn with_reason(row: ExecutionRow, reason: Option<String>) -> Self {
        Self::new(row, Moment::WithReason(reason))
    }

    /// Returns the execution, or the error because of which its state is not known. Its row can be older.
    pub fn with_known_state(self) -> std::result::Result<Self, ServiceError> {
        if let Moment::Unreadable(error) = &self.own.moment {
            return Err(error.clone());
        }
        Ok(self)
    }

    /// Returns the execution in the state that a loader returned for it.
    pub(super) fn in_loaded(self, state: Option<std::result::Result<Arc<Projected>, ServiceError>>) -> Self {
        match state {
            Some(Ok(projected)) => self.in_state(projected),
            Some(Err(error)) => Self::new(self.own.row, Moment::Unreadable(error)),
            None => Self::new(self.own.row, Moment::OfRow),
        }
    }

    /// Returns the execution of this field through the batch loader.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        ctx.data::<BatchLoader>()?;
        Self::read(ctx, id, ctx.look_ahead()).await.map_err(field_error)
    }

    /// Returns the execution as [`Self::load`] does, without its state.
    pub async fn load_row(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let row = ctx.data::<BatchLoader>()?.load_one(ExecutionKey(id)).await.map_err(field_error)?;
        let row = row.transpose().map_err(field_error)?;
        Ok(row.map(Self::unread))
    }

    /// Returns the execution with this id through the batch loader, or the use case's error. If `selection`, the field of
    /// the execution, has fields that change, the execution has the state of its whole log.
    pub async fn read(
        ctx: &Context<'_>,
        id: Id,
        selection: Lookahead<'_>,
    ) -> std::result::Result<Option<Self>, ServiceError> {
        let loader = ctx.data_unchecked::<BatchLoader>();
        let row = async { loader.load_one(ExecutionKey(id)).await?.transpose() };
        if !ROW_FIELDS.iter().chain(&STATE_FIELDS).chain(&["error"]).any(|field| selection.field(field).exists()) {
            return Ok(row.await?.map(Self::unread));
        }
        let state = async { Ok(loader.load_one(StateKey(id)).await.unwrap_or_else(|error| Some(Err(error)))) };
        let (row, state) = futures::try_join!(row, state)?;
        Ok(row.map(|row| Self::unread(row).in_loaded(state)))
    }

    const fn new(row: ExecutionRow, moment: Moment) -> Self {
        Self { own: ExecutionFields { row, moment } }
    }

    /// Resolves the field `id` of the interface `Node`.
    pub fn id(&self, _: &Context<'_>) -> std::future::Ready<Result<ID>> {
        std::future::ready(Ok(show_id(self.key())))
    }

    /// Returns its row, with the status and the end of its moment.
    pub(super) const fn row(&self) -> &ExecutionRow {
        &self.own.row
    }

    pub(super) const fn key(&self) -> Id {
        self.own.key()
    }

    /// Returns whether its moment matches a filter. An error that was not read is the one that the list has compared.
    pub(super) fn matches(&self, filter: &ExecutionFilter) -> bool {
        let has_error = match &self.own.moment {
            Moment::WithReason(reason) => filter.matches_error(|| reason.clone()),
            Moment::Of(projected) => filter.matches_error(|| projected.projection.state.end()?.error),
            Moment::Any | Moment::OfRow | Moment::Unreadable(_) => true,
        };
        has_error && filter.matches(self.row())
    }
}

impl ExecutionFields {
    const fn key(&self) -> Id {
        Id::new(self.row.execution_id)
    }

    /// Returns the state in which the execution is shown; `None` if its log has none.
    async fn projected(&self, ctx: &Context<'_>) -> Result<Option<Arc<Projected>>> {
        match &self.moment {
            Moment::Of(projected) => Ok(Some(Arc::clone(projected))),
            Moment::Unreadable(error) => Err(field_error(error.clone())),
            Moment::Any | Moment::OfRow | Moment::WithReason(_) => {
                let state = ctx.data::<BatchLoader>()?.load_one(StateKey(self.key())).await.map_err(field_error)?;
                state.transpose().map_err(field_error)
            }
        }
    }

    /// Returns the row with the status and the end of the moment. If the state can't be read, the fields that need it
    /// report the error.
    async fn row_of_moment(&self, ctx: &Context<'_>) -> Cow<'_, ExecutionRow> {
        let state = match self.moment {
            Moment::Any => self.projected(ctx).await.ok().flatten(),
            Moment::OfRow | Moment::WithReason(_) | Moment::Of(_) | Moment::Unreadable(_) => None,
        };
        state.map_or(Cow::Borrowed(&self.row), |projected| Cow::Owned(self.row.clone().in_state(&projected)))
    }

    async fn head(&self, ctx: &Context<'_>) -> Result<Option<Arc<FirstEvent>>> {
        let head = ctx.data::<BatchLoader>()?.load_one(HeadKey(self.key())).await.map_err(field_error)?;
        head.transpose().map_err(field_error)
    }
}

/// Execution or source subscription: one of the fields is not null.
// Beside `Execution`, because the two contain each other.
#[derive(Debug, Clone, SimpleObject)]
pub struct LogOwner {
    /// The execution.
    pub execution: Option<Execution>,
    /// The source subscription.
    pub subscription: Option<SourceSubscription>,
}

impl LogOwner {
    /// Returns the owner of a log through the batch loaders; `None` if there is none that the caller may read. `selection`
    /// is the field that shows an execution.
    pub async fn load(ctx: &Context<'_>, id: Id, selection: Lookahead<'_>) -> Result<Option<Self>> {
        let head = ctx.data::<BatchLoader>()?.load_one(HeadKey(id)).await.map_err(field_error)?;
        let head = head.transpose().map_err(field_error)?;
        if head.is_some_and(|head| head.event_type == REGISTERED) {
            let subscription = SourceSubscription::load(ctx, id).await?;
            return Ok(subscription.map(|found| Self { execution: None, subscription: Some(found) }));
        }
        let execution = Execution::read(ctx, id, selection).await.map_err(field_error)?;
        Ok(execution.map(|found| Self { execution: Some(found), subscription: None }))
    }
}

impl Plain for Execution {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let ExecutionFields { row, moment } = &self.own;
        Some(match field {
            "id" => self.key().into(),
            "path" => row.path.as_deref()?.into(),
            "status" | "statusText" | "endedAt" | "durationSeconds" | "failedSteps"
                if matches!(moment, Moment::Any) =>
            {
                return None;
            }
            "status" => PlainValue::of_enum::<ExecutionStatus>(Status::from_stored(&row.status)),
            "statusText" => row.status.as_str().into(),
            "startedAt" => row.start_time.into(),
            "endedAt" => row.end_time.into(),
            "durationSeconds" => seconds_between(row.start_time, row.end_time).into(),
            "failedSteps" if reader.may_read => row.failed_steps.into(),
            "tenantId" => (&row.tenant_id).into(),
            "organizationId" => (&row.organization_id).into(),
            "shard" => reader.shard_of(self.key())?.into(),
            "catalogId" => Some(Id::new(row.catalog_id)).filter(|id| id.get() != 0).into(),
            _ => return None,
        })
    }
}

#[Object]
impl ExecutionFields {
    /// Id of the execution.
    async fn id(&self) -> ID {
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
    async fn status(&self, ctx: &Context<'_>) -> ExecutionStatus {
        Status::from_stored(&self.row_of_moment(ctx).await.status).into()
    }

    /// Name of the status as stored. Other servers may use other names than `status` does, and names that this server
    /// does not know.
    async fn status_text(&self, ctx: &Context<'_>) -> String {
        self.row_of_moment(ctx).await.into_owned().status
    }

    /// Start time.
    async fn started_at(&self) -> Option<Time> {
        self.row.start_time.map(Time)
    }

    /// End time; null until the execution ends.
    async fn ended_at(&self, ctx: &Context<'_>) -> Option<Time> {
        self.row_of_moment(ctx).await.end_time.map(Time)
    }

    /// Seconds from `startedAt` to `endedAt`; null until the execution ends.
    async fn duration_seconds(&self, ctx: &Context<'_>) -> Option<f64> {
        seconds_between(self.row.start_time, self.row_of_moment(ctx).await.end_time)
    }

    /// Number of steps that are FAILED. An execution with such steps can be COMPLETED, if the event that ended it says so.
    #[graphql(guard = "READ")]
    async fn failed_steps(&self, ctx: &Context<'_>) -> Option<i32> {
        self.row_of_moment(ctx).await.failed_steps
    }

    /// Error or reason that the event that ended the execution names. It can be null although the status is FAILED: with
    /// `NOETL_EXECUTION_STATUS_FROM_STEPS`, other events decide the status.
    #[graphql(guard = "READ")]
    pub(super) async fn error(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        if let Moment::WithReason(reason) = &self.moment {
            return Ok(reason.clone());
        }
        Ok(self.projected(ctx).await?.and_then(|projected| projected.projection.state.end()?.error))
    }

    /// Caller that cancelled the execution; null if it was not cancelled, or if the server did not identify the caller.
    /// `error` is the reason.
    #[graphql(guard = "READ")]
    async fn cancelled_by(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        let projected = self.projected(ctx).await?;
        let is_cancellation = |end: End| ended_by(&end.event_type) == Some(Status::Cancelled);
        let cancellation = projected.and_then(|projected| {
            let state = &projected.projection.state;
            state.ended_by().filter(|_| state.end().is_some_and(is_cancellation))
        });
        let Some(event) = cancellation else { return Ok(None) };
        let key = EventKey { event_id: event.get(), execution_id: self.key().get() };
        let key = EventLoadKey { key, columns: LargeColumns::wanted(|column| column == "meta") };
        let event = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
        let meta = event.transpose().map_err(field_error)?.and_then(|event| event.meta.as_ref().map(Text::read));
        Ok(meta.and_then(|meta| meta.get(META_KEY)?.as_str().map(str::to_owned)))
    }

    /// Result of the execution: the result of the event that ended it, as it was reported. Null until the execution ends,
    /// and if the event has none. Unreadable JSON is replaced by an error object, as in events.
    #[graphql(guard = "READ")]
    pub(super) async fn result(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        let projected = self.projected(ctx).await?;
        let Some(event) = projected.and_then(|projected| projected.projection.state.ended_by()) else {
            return Ok(None);
        };
        let key = ResultKey { id: self.key(), event };
        let result = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
        Ok(result.transpose().map_err(field_error)?.map(JsonText))
    }

    /// Number of events in the log.
    #[graphql(guard = "READ")]
    pub(super) async fn event_count(&self, ctx: &Context<'_>) -> Result<Option<BigInt>> {
        Ok(self.projected(ctx).await?.map(|projected| BigInt(projected.projection.applied_count)))
    }

    /// Progress of the execution: numbers of its steps.
    #[graphql(guard = "READ")]
    pub(super) async fn progress(&self, ctx: &Context<'_>) -> Result<Option<ExecutionProgress>> {
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

    /// Caller that started the execution, such as a user or a worker; null if the server did not identify it.
    #[graphql(guard = "READ")]
    async fn started_by(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.head(ctx).await?.and_then(|head| head.actor.clone()))
    }

    /// Pool of the workers that the request or the document of the source subscription named; null: the default pool.
    #[graphql(guard = "READ")]
    async fn execution_pool(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.head(ctx).await?.and_then(|head| head.execution_pool.clone()))
    }

    /// Labels of the execution, ordered by name. `ExecuteInput` says where they come from.
    #[graphql(guard = "READ")]
    async fn labels(&self) -> Option<Vec<Label>> {
        Some(Label::all(&self.row.labels()))
    }

    /// Catalog entry that the execution runs.
    #[graphql(guard = "READ")]
    async fn catalog_entry(&self, ctx: &Context<'_>) -> Result<Option<CatalogEntry>> {
        CatalogEntry::load(ctx, Id::new(self.row.catalog_id)).await
    }

    /// Execution that started this execution, or source subscription whose message it runs; null if there is none, or if
    /// it belongs to another tenant than the caller.
    #[graphql(guard = "READ")]
    async fn parent(&self, ctx: &Context<'_>) -> Result<Option<LogOwner>> {
        match self.row.parent_execution_id {
            Some(parent) => LogOwner::load(ctx, Id::new(parent), ctx.look_ahead().field("execution")).await,
            None => Ok(None),
        }
    }

    /// Execution of which this one is a rerun; null if it is not a rerun, or if that execution does not exist any more.
    #[graphql(guard = "READ")]
    async fn rerun_of(&self, ctx: &Context<'_>) -> Result<Option<Execution>> {
        match self.head(ctx).await?.and_then(|head| head.rerun_of) {
            Some(origin) => Execution::load(ctx, Id::new(origin)).await,
            None => Ok(None),
        }
    }

    /// Input of the execution: the catalog entry's workload, overlaid with the request's workload.
    #[graphql(guard = "READ")]
    async fn workload(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        let workload = ctx.data::<BatchLoader>()?.load_one(WorkloadKey(self.key())).await.map_err(field_error)?;
        Ok(workload.transpose().map_err(field_error)?.map(JsonText))
    }

    /// Durable variables by name; null if none is set.
    #[graphql(guard = "READ")]
    pub(super) async fn context(&self, ctx: &Context<'_>) -> Result<Option<Json>> {
        let projected = self.projected(ctx).await?;
        let variables = projected.iter().flat_map(|projected| projected.projection.state.ctx());
        let variables: Map<String, Value> = variables.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Ok((!variables.is_empty()).then(|| Json(variables.into())))
    }

    /// Current state of the steps, ordered by the first event of each step.
    #[graphql(guard = "READ")]
    pub(super) async fn steps(
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
