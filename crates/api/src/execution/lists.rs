//! Lists of executions.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use async_graphql::dataloader::Loader;
use async_graphql::{ComplexObject, Context, Result};

use super::inputs::ExecutionFilter;
use super::loaders::{
    ChildrenKey, ChildrenTotalKey, EndKey, ExecutionsPage, OutdatedKey, OwnedKey, OwnedTotalKey, Owner, StateKey,
};
use super::types::{Execution, ROW_FIELDS, STATE_FIELDS};
use crate::access::{READ, scope};
use crate::connection::{Countable, PageArguments, connection, selects_item_field, time_cursor};
use crate::context::Services;
use crate::errors::field_error;
use crate::loaders::{BatchLoader, Loaders};
use noetl_domain::cursor::CursorKind;
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::execution_lists::{self, OwnerKind};
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::error::ServiceError;

#[ComplexObject]
impl Execution {
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

    /// Reruns of this execution, newest first: ordered by `startedAt`, then by id. A rerun of a rerun is not one of them.
    #[graphql(guard = "READ")]
    async fn reruns(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        owned(ctx, Owner { kind: OwnerKind::Origin, id: self.key().get() }, &page).await.map(Some)
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
    let list = ExecutionList::newest(ExecutionsOf::Parent(parent), filter.clone(), scope(ctx)?);
    let key = ChildrenKey { parent, filter, request };
    let found = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
    let ExecutionsPage { page, unavailable } = found.unwrap_or_default();
    Ok(executions(ctx, list, Arc::unwrap_or_clone(page), unavailable).await)
}

/// Returns a page of the executions of an owner.
pub async fn owned(ctx: &Context<'_>, owner: Owner, page: &PageArguments) -> Result<ExecutionConnection> {
    let request = page.by_time(CursorKind::Execution).map_err(field_error)?;
    let found = ctx.data::<BatchLoader>()?.load_one(OwnedKey { owner, request }).await;
    let ExecutionsPage { page, unavailable } = found.map_err(field_error)?.unwrap_or_default();
    let filter = execution_lists::ExecutionFilter::default();
    let list = ExecutionList::newest(ExecutionsOf::Owner(owner), filter, scope(ctx)?);
    Ok(executions(ctx, list, Arc::unwrap_or_clone(page), unavailable).await)
}

/// Returns the connection for a page of executions. Executions that do not match the filter any more are left out.
pub async fn executions(
    ctx: &Context<'_>,
    list: ExecutionList,
    page: Page<ExecutionRow>,
    unavailable: Vec<ShardIndex>,
) -> ExecutionConnection {
    let order = list.order;
    let cursor = move |position: ListPosition| time_cursor(order.cursor_kind(), position);
    let listed = page.items.iter().map(|row| (row.execution_id, row.position_in(order)));
    // An execution can have another end in its moment than the one that gives it its place in the list.
    let positions: HashMap<i64, ListPosition> = listed.collect();
    let bounds = page.items.first().zip(page.items.last());
    let bounds = bounds.map(|(first, last)| (cursor(first.position_in(order)), cursor(last.position_in(order))));
    let items = in_their_moments(ctx, page.items, list.filter.has_failed_steps.is_some()).await;
    let may_have_left = list.filter.can_stop_matching();
    let items = items.into_iter().filter(|one| !may_have_left || one.matches(&list.filter)).collect();
    let page = Page { items, has_next: page.has_next, has_previous: page.has_previous };
    let item_cursor = move |execution: &Execution| {
        let row = execution.row();
        cursor(positions.get(&row.execution_id).copied().unwrap_or_else(|| row.position_in(order)))
    };
    let connection = ExecutionConnection::new(list, page, unavailable, |execution| execution, item_cursor);
    connection.between(bounds)
}

/// Returns executions of a list in the moments that their selected fields need. The list follows the logs after a moment,
/// so a row of an execution that has not ended is compared with its log, and the state is read if the row lacks events. The
/// row of one that has ended is its state, unless other fields of the state are selected. It is compared too if an event
/// after the end can change what is shown: the failed steps, or the status if the steps decide it.
async fn in_their_moments(ctx: &Context<'_>, rows: Vec<ExecutionRow>, by_failed_steps: bool) -> Vec<Execution> {
    let selects = |fields: &[&str]| fields.iter().any(|field| selects_item_field(ctx, field));
    let (of_state, reason) = (selects(&STATE_FIELDS), selects(&["error"]));
    let of_failed_steps = by_failed_steps || selects(&["failedSteps"]);
    let Some(loader) = ctx.data_opt::<BatchLoader>().filter(|_| of_state || reason || selects(&ROW_FIELDS)) else {
        return rows.into_iter().map(Execution::unread).collect();
    };
    let from_steps = ctx.data_opt::<Services>().is_some_and(Services::statuses_change_after_end);
    let has_ended = |row: &ExecutionRow| Status::from_stored(&row.status).is_terminal();
    let (mut ends, mut outdated) = (HashMap::new(), HashMap::new());
    if !of_state {
        let ended = rows.iter().filter(|row| reason && has_ended(row)).map(|row| EndKey(Id::new(row.execution_id)));
        let can_change = |row: &&ExecutionRow| from_steps || of_failed_steps || !has_ended(row);
        let changing = rows.iter().filter(can_change).map(|row| OutdatedKey(Arc::new(row.clone())));
        let (read, compared) = (each(loader, ended.collect()), each(loader, changing.collect()));
        let (read, compared) = if from_steps {
            // A row that lacks no events after its reason was read has the end with this reason.
            let read = read.await;
            (read, compared.await)
        } else {
            tokio::join!(read, compared)
        };
        ends = read.into_iter().map(|(key, end)| (key.0, end)).collect();
        // A row that could not be compared is taken for outdated; the read of its state reports the error.
        outdated = compared
            .into_iter()
            .map(|(key, outdated)| (Id::new(key.0.execution_id), outdated.unwrap_or(true)))
            .collect();
    }
    let needs_state = |row: &ExecutionRow| {
        let id = Id::new(row.execution_id);
        let is_unknown = of_failed_steps && row.failed_steps.is_none();
        match outdated.get(&id) {
            Some(true) => true,
            Some(false) if !has_ended(row) => is_unknown,
            // The end of an execution is not in its log if its only step has failed.
            _ => of_state || is_unknown || (reason && !ends.contains_key(&id)),
        }
    };
    let ids = rows.iter().filter(|row| needs_state(row)).map(|row| StateKey(Id::new(row.execution_id)));
    let mut states = each(loader, ids.collect()).await;
    let in_moment = |row: ExecutionRow| {
        let id = Id::new(row.execution_id);
        match (states.remove(&StateKey(id)), ends.get(&id)) {
            (state @ Some(_), _) => Execution::unread(row).in_loaded(state),
            (None, Some(Ok(end))) if from_steps => Execution::with_reason(row, end.error.clone()),
            (None, Some(Ok(end))) => Execution::unread(row).with_end(end.clone()),
            (None, Some(Err(error))) => Execution::unread(row).in_loaded(Some(Err(error.clone()))),
            (None, None) if outdated.get(&id) == Some(&false) && !has_ended(&row) => Execution::with_reason(row, None),
            (None, None) => Execution::unread(row).in_loaded(None),
        }
    };
    rows.into_iter().map(in_moment).collect()
}

/// Loads values, each with its own error. Fields report the errors.
async fn each<K, V>(loader: &BatchLoader, keys: Vec<K>) -> HashMap<K, std::result::Result<V, ServiceError>>
where
    K: Send + Sync + Hash + Eq + Clone + 'static,
    V: Send + Sync + Clone + 'static,
    Loaders: Loader<K, Value = std::result::Result<V, ServiceError>, Error = ServiceError>,
{
    if keys.is_empty() {
        return HashMap::new();
    }
    match loader.load_many(keys.clone()).await {
        Ok(found) => found,
        Err(error) => keys.into_iter().map(|key| (key, Err(error.clone()))).collect(),
    }
}

/// Owner of the executions of a list.
#[derive(Debug, Clone, Copy)]
pub enum ExecutionsOf {
    /// The list has all executions.
    All,
    /// The list has the executions that a source subscription or execution started.
    Parent(Id),
    /// The list has the executions of a catalog entry, or the reruns of an execution.
    Owner(Owner),
}

/// A list of executions.
#[derive(Debug)]
pub struct ExecutionList {
    /// Owner of the executions.
    pub of: ExecutionsOf,
    /// Conditions of the list.
    pub filter: execution_lists::ExecutionFilter,
    /// Order of the list.
    pub order: ExecutionOrder,
    /// Data that the caller may read.
    pub scope: Scope,
}

impl ExecutionList {
    /// Creates a list with the newest execution first.
    #[must_use]
    pub fn newest(of: ExecutionsOf, filter: execution_lists::ExecutionFilter, scope: Scope) -> Self {
        Self { of, filter, order: ExecutionOrder::Newest, scope }
    }
}

impl Countable for ExecutionList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        match self.of {
            ExecutionsOf::Parent(parent) => {
                let key = ChildrenTotalKey { parent, filter: self.filter.clone(), limit };
                Ok(ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Total::of(0, limit)))
            }
            ExecutionsOf::Owner(owner) => {
                let key = OwnedTotalKey { owner, limit };
                Ok(ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Total::of(0, limit)))
            }
            ExecutionsOf::All => {
                ctx.data_unchecked::<Services>().executions.total(&self.filter, limit, &self.scope).await
            }
        }
    }
}

connection!(ExecutionConnection, ExecutionEdge, Execution, ExecutionList);
