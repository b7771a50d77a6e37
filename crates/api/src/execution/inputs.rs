//! Inputs of executions.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, OneofObject};
use chrono::{DateTime, Utc};

use super::status::ExecutionStatus;
use crate::access::scope;
use crate::context::Services;
use crate::filters::{checked_text, time_bound};
use crate::guards::WrittenInput;
use crate::labels::{LabelFilter, LabelInput};
use crate::scalars::{GivenItem, Json, parse_catalog_id, parse_event_id, parse_id, parse_ids};
use crate::selector::{Selected, selector};
use crate::trace::TraceContextInput;
use noetl_domain::ids::Id;
use noetl_domain::labels::{Label, Labels};
use noetl_domain::projection::Moment;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{NamedTenancy, Scope};
use noetl_storage::execution_lists;
use noetl_use_cases::bounds::{check_count, check_text};
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::executions::{Dedup, EntryKey, ExecuteRequest};
use noetl_use_cases::projections::MAX_ADVANCE;

/// Maximum number of paths or pools of a filter. Each is searched in an index.
const MAX_NAMED: usize = 100;

/// Filter for executions. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct ExecutionFilter {
    /// Only executions with one of these statuses.
    statuses: Option<Vec<ExecutionStatus>>,
    /// Only executions of this catalog path.
    path: Option<String>,
    /// Only executions of one of these catalog paths (at most 100).
    paths: Option<Vec<String>>,
    /// Only executions of this version of the path (1 to 32767). It needs `path`.
    version: Option<i64>,
    /// Only executions whose catalog path begins with this text. A page is first looked for among the 1000 executions after
    /// its cursor. If they do not fill it, and for numbers and live lists, each combination of a path and a status that
    /// begins with this text is searched. A text with more than 4000 of them in a shard is refused.
    path_prefix: Option<String>,
    /// Only executions whose id begins with these digits (1 to 19). If more than 5000 executions of a shard have them,
    /// they are refused.
    id_prefix: Option<String>,
    /// Only the execution that belongs to this dedup key, while the claim of the key is stored (see `dedupClaim`). The
    /// key belongs to `parentExecutionId`, or to the requests without a parent if that is omitted.
    dedup_key: Option<String>,
    /// Only executions that this execution or source subscription started.
    parent_execution_id: Option<ID>,
    /// Whether only executions without a parent match (default false). Neither an execution nor a source subscription
    /// started them.
    roots_only: Option<bool>,
    /// Only reruns of this execution.
    rerun_of: Option<ID>,
    /// Whether only reruns match (true), or only executions that are none (false). Among reruns, the conditions other
    /// than status, tenant and start time are compared one by one.
    is_rerun: Option<bool>,
    /// Whether only executions with failed steps match (true), or only those without (false). Rows of other programs have
    /// none until the projector reads their logs.
    has_failed_steps: Option<bool>,
    /// Only FAILED executions whose error contains this text (3 to 200 bytes, in any case of letters) in its first 10000
    /// characters. Of each shard, the newest 5000 failed executions that the caller may read, or those of `tenantId`, are
    /// searched before the other conditions are compared. Older ones are not found. A live list begins with these
    /// executions, and then compares each one that changes.
    error_contains: Option<String>,
    /// Only executions that name one of these pools (at most 100). Executions of the default pool name none.
    execution_pools: Option<Vec<String>>,
    /// Only executions whose labels meet all these conditions (1 to 5). A page is read along the labels of the condition
    /// that the fewest executions meet, and the other conditions are compared one by one.
    labels: Option<Vec<LabelFilter>>,
    /// Only executions that started at this time or later.
    started_after: Option<DateTime<Utc>>,
    /// Only executions that started before this time.
    started_before: Option<DateTime<Utc>>,
    /// Only executions that ended at this time or later.
    ended_after: Option<DateTime<Utc>>,
    /// Only executions that ended before this time.
    ended_before: Option<DateTime<Utc>>,
    /// Only executions of this tenant.
    tenant_id: Option<String>,
    /// Only executions of this organization.
    organization_id: Option<String>,
}

impl ExecutionFilter {
    /// Converts the input to the storage layer's filter and parses its ids. The version and the dedup key are looked up.
    /// `at` is the path of the filter in the field's arguments.
    pub async fn resolve(self, ctx: &Context<'_>, at: &str) -> Result<execution_lists::ExecutionFilter, ServiceError> {
        let (path, version, dedup_key) = (self.path.clone(), self.version, self.dedup_key.clone());
        let mut filter = self.parse(at)?;
        if let Some(version) = version {
            let field = format!("{at}.version");
            let path = path.ok_or_else(|| Rejection::invalid(&field, "version needs path"))?;
            let in_range = i16::try_from(version).ok().filter(|version| *version > 0);
            let version = in_range.ok_or_else(|| Rejection::invalid(&field, "version must be 1 to 32767"))?;
            match ctx.data_unchecked::<Services>().catalog.find(&path, Some(version)).await? {
                Some(entry) => filter.catalog_id = Some(Id::new(entry.catalog_id)),
                None => filter.ids = Some(Vec::new()),
            }
        }
        if let Some(key) = dedup_key {
            let field = format!("{at}.dedupKey");
            let unknown = |_| Rejection::invalid(&field, "the caller is unknown");
            let scope = scope(ctx).map_err(unknown)?;
            let executions = &ctx.data_unchecked::<Services>().executions;
            let claim = executions.dedup_claim(&field, filter.parent_execution_id, &key, &scope).await?;
            let found = claim.into_iter().map(|claim| Id::new(claim.execution_id));
            filter.ids = Some(found.filter(|_| filter.ids.is_none()).collect());
        }
        if let Some(digits) = &filter.id_prefix {
            let executions = &ctx.data_unchecked::<Services>().executions;
            executions.check_id_prefix(&format!("{at}.idPrefix"), digits).await?;
        }
        Ok(filter)
    }

    fn parse(self, at: &str) -> Result<execution_lists::ExecutionFilter, Rejection> {
        let field = |name: &str| format!("{at}.{name}");
        let parent = self.parent_execution_id.map(|id| parse_id(&field("parentExecutionId"), &id)).transpose()?;
        let rerun_of = self.rerun_of.map(|id| parse_id(&field("rerunOf"), &id)).transpose()?;
        let texts = |name: &str, list: Option<Vec<String>>| check_named(&field(name), list);
        let path = checked_text(&field("path"), self.path)?;
        Ok(execution_lists::ExecutionFilter {
            statuses: self.statuses.map(|statuses| statuses.into_iter().map(Into::into).collect()),
            paths: one_of(path, texts("paths", self.paths)?),
            path_prefix: checked_text(&field("pathPrefix"), self.path_prefix)?,
            catalog_id: None,
            parent_execution_id: parent,
            roots_only: self.roots_only.unwrap_or_default(),
            rerun_of,
            is_rerun: self.is_rerun,
            has_failed_steps: self.has_failed_steps,
            error_contains: self
                .error_contains
                .map(|text| check_error_text(&field("errorContains"), text))
                .transpose()?,
            execution_pools: texts("executionPools", self.execution_pools)?,
            labels: LabelFilter::parse_all(&field("labels"), self.labels)?,
            ids: None,
            id_prefix: self.id_prefix.map(|prefix| check_id_prefix(&field("idPrefix"), prefix)).transpose()?,
            started_after: self.started_after.map(time_bound),
            started_before: self.started_before.map(time_bound),
            ended_after: self.ended_after.map(time_bound),
            ended_before: self.ended_before.map(time_bound),
            tenant_id: checked_text(&field("tenantId"), self.tenant_id)?,
            organization_id: checked_text(&field("organizationId"), self.organization_id)?,
        })
    }
}

/// Refuses a list that is too long or has a malformed text.
pub(super) fn check_named(field: &str, list: Option<Vec<String>>) -> Result<Option<Vec<String>>, Rejection> {
    let Some(list) = list else { return Ok(None) };
    if list.len() > MAX_NAMED {
        let message = format!("a list of paths or pools has at most {MAX_NAMED} values, not {}", list.len());
        return Err(Rejection::invalid(field, message));
    }
    list.iter().try_for_each(|text| check_text(field, text))?;
    Ok(Some(list))
}

/// Returns the paths that meet both conditions.
fn one_of(path: Option<String>, paths: Option<Vec<String>>) -> Option<Vec<String>> {
    match (path, paths) {
        (Some(path), Some(paths)) => Some(if paths.contains(&path) { vec![path] } else { Vec::new() }),
        (path, paths) => paths.or_else(|| path.map(|path| vec![path])),
    }
}

fn check_id_prefix(field: &str, prefix: String) -> Result<String, Rejection> {
    if (1..=19).contains(&prefix.len()) && prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(prefix);
    }
    Err(Rejection::invalid(field, "idPrefix must have 1 to 19 digits"))
}

/// Refuses a malformed text, and one that is too short or too long to be searched for in errors.
fn check_error_text(field: &str, text: String) -> Result<String, Rejection> {
    check_text(field, &text)?;
    if (3..=200).contains(&text.len()) {
        return Ok(text);
    }
    Err(Rejection::invalid(field, format!("errorContains must have 3 to 200 bytes, not {}", text.len())))
}

selector! {
    /// Executions that a bulk operation selects. Exactly one field is given.
    #[expect(clippy::large_enum_variant, reason = "a request has one value")]
    ExecutionSelector, ExecutionFilter
}

impl ExecutionSelector {
    /// Returns the ids of the selected executions, newest first unless the caller listed them, and the shards that could
    /// not be read. With `only_open`, executions that have ended are selected only by id. Refuses a selector that could
    /// select more than the caller wrote.
    pub async fn select(
        self,
        ctx: &Context<'_>,
        only_open: bool,
        scope: &Scope,
    ) -> Result<SelectedExecutions, ServiceError> {
        let filter = match self.check(ctx)? {
            Selected::Ids(ids) => {
                let ids = parse_ids("select.ids", &ids)?;
                return Ok(SelectedExecutions { ids, by_id: true, unavailable: Vec::new() });
            }
            Selected::Filter(filter) => filter.resolve(ctx, "select.filter").await?,
            Selected::All => execution_lists::ExecutionFilter::default(),
        };
        let executions = &ctx.data_unchecked::<Services>().executions;
        let (ids, unavailable) = executions.matching(&filter, only_open, scope).await?;
        Ok(SelectedExecutions { ids, by_id: false, unavailable })
    }
}

/// Executions that a selector selects.
#[derive(Debug)]
pub struct SelectedExecutions {
    /// Their ids.
    pub ids: Vec<Id>,
    /// Whether the caller listed the ids. A repeated id is kept.
    pub by_id: bool,
    /// Shards whose executions were not selected.
    pub unavailable: Vec<ShardIndex>,
}

/// Cancellation of several executions.
#[derive(Debug, InputObject)]
pub struct CancelExecutionsInput {
    /// Executions to cancel, at most 1000. `filter` and `all` select only executions that have not ended: of the statuses
    /// that a filter names, those that are not final. Only `ids` selects executions that have ended.
    pub select: ExecutionSelector,
    /// Reason, written to the logs (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether the executions that they started, and those that these started, are cancelled too (default false). A
    /// selected execution that has ended is then not refused.
    #[graphql(default = false)]
    pub cascade: bool,
    /// Whether to change nothing and only return the result that is expected (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}

/// Moment in the log of an execution.
#[derive(Debug, OneofObject)]
pub enum ExecutionMoment {
    /// After the event with this id and all events of the execution with smaller ids.
    EventId(ID),
    /// After all events of the execution whose time is not later than this time.
    Time(DateTime<Utc>),
}

impl ExecutionMoment {
    /// Converts the input for an execution and parses its id.
    pub fn parse(self, execution: Id) -> Result<Moment, Rejection> {
        match self {
            Self::EventId(id) => Ok(Moment::Event(parse_event_id("at.eventId", &id, execution)?)),
            Self::Time(time) => Ok(Moment::Time(time)),
        }
    }
}

/// Executions whose projections are advanced.
#[derive(Debug, InputObject)]
pub struct AdvanceProjectionsInput {
    /// Ids of the executions (1 to 1000). Result i belongs to id i.
    pub execution_ids: Vec<ID>,
}

impl AdvanceProjectionsInput {
    /// Parses 1 to 1000 ids.
    pub fn parse(self) -> Result<Vec<GivenItem<Id>>, Rejection> {
        check_count("executionIds", self.execution_ids.len(), MAX_ADVANCE)?;
        let parse = |(index, id): (usize, ID)| {
            let item = parse_id(&format!("executionIds.{index}"), &id);
            GivenItem { id, item }
        };
        Ok(self.execution_ids.into_iter().enumerate().map(parse).collect())
    }
}

/// Key of a catalog entry to run.
#[derive(Debug, OneofObject)]
pub enum ExecuteEntryKey {
    /// Catalog path whose newest version that is not retired is run.
    Path(String),
    /// Id of the catalog entry, which may be retired.
    CatalogId(ID),
}

impl ExecuteEntryKey {
    /// Converts the input to a key of the service and parses its id.
    fn parse(self) -> Result<EntryKey, Rejection> {
        match self {
            Self::Path(path) => Ok(EntryKey::Path(path)),
            Self::CatalogId(id) => Ok(EntryKey::CatalogId(parse_catalog_id("entry.catalogId", &id)?)),
        }
    }
}

/// Execution to start.
#[derive(Debug, InputObject)]
pub struct ExecuteInput {
    /// Catalog entry to run.
    entry: ExecuteEntryKey,
    /// Map that overlays the catalog entry's workload, key by key (at most 4 MiB as JSON).
    workload: Option<Json>,
    /// Id of the source subscription or execution that starts this execution.
    parent_execution_id: Option<ID>,
    /// Pool of workers that runs the execution (1 to 64 letters, digits, `-` and `_`; default `shared`).
    execution_pool: Option<String>,
    /// Trace context (default: the parent's, else that of this request).
    trace: Option<TraceContextInput>,
    /// Labels of the execution (at most 20). It also has those that the document of the entry takes from the workload
    /// (`metadata.searchable`), those of the source subscription that starts it (`spec.dispatch.labels`), and those of
    /// the entry's document (`metadata.labels`). Of labels with the same name, the first one in this order counts;
    /// beyond 20, the last ones are left out.
    labels: Option<Vec<LabelInput>>,
    /// Whether the execution also has the labels of its parent (default false). They come last. It needs
    /// `parentExecutionId`.
    inherit_labels: Option<bool>,
    /// Dedup window. If the field is left out, every request starts an execution; null, and a variable without a value,
    /// is refused.
    dedup: MaybeUndefined<DedupInput>,
    /// Tenant of the execution (1 to 256 bytes; default: the tenant of the parent, else that of the caller, else
    /// `default`). A caller with a tenant can't name another one, and an execution has the tenant of its parent.
    tenant_id: Option<String>,
    /// Organization of the execution (1 to 256 bytes; default: the organization of the parent, else `default`).
    organization_id: Option<String>,
}

/// Dedup window. The first request with a key starts an execution. Later requests with the same key return that
/// execution until the window expires, even if their content differs.
#[derive(Debug, InputObject)]
pub struct DedupInput {
    /// Key that identifies a message among the requests with the same parent (1 to 1024 bytes). Requests without a
    /// parent are those of one tenant.
    key: String,
    /// Length of the window in seconds (1 to 2592000; default: `dedup.window_secs` of the parent's catalog entry, else
    /// 300).
    // 64-bit, so that a number beyond GraphQL's `Int` is refused with an error that names this field.
    window_seconds: Option<i64>,
    /// Whether this request is rejected with `IDEMPOTENCY_MISMATCH` if it differs from the request that started the
    /// execution of the key (default false: it returns `DUPLICATE` with `differs: true`). Compared are the path or the
    /// catalog id, the workload, the pool, the labels of the request, and `inheritLabels`.
    #[graphql(default = false)]
    reject_different: bool,
}

impl ExecuteInput {
    /// Returns the path or the catalog id, as the caller gave it.
    #[must_use]
    pub fn target_name(&self) -> &str {
        match &self.entry {
            ExecuteEntryKey::Path(path) => path,
            ExecuteEntryKey::CatalogId(id) => id,
        }
    }

    /// Converts the input to a request of the use case and parses its ids.
    pub fn parse(self, written: &WrittenInput<'_>) -> Result<ExecuteRequest, Rejection> {
        Ok(ExecuteRequest {
            entry: self.entry.parse()?,
            workload: self.workload.map(|workload| workload.0),
            parent_execution_id: self.parent_execution_id.map(|id| parse_id("parentExecutionId", &id)).transpose()?,
            execution_pool: self.execution_pool,
            trace: self.trace.map(TraceContextInput::parse).transpose()?,
            dedup: checked_dedup(self.dedup, written)?,
            rerun_of: None,
            labels: parse_labels(self.labels).unwrap_or_default(),
            inherit_labels: self.inherit_labels.unwrap_or_default(),
            labels_of_origin: Labels::default(),
            changes_workload: false,
            tenancy: NamedTenancy { tenant_id: self.tenant_id, organization_id: self.organization_id },
        })
    }
}

/// Converts the labels of an input. The use case checks them.
pub(super) fn parse_labels(labels: Option<Vec<LabelInput>>) -> Option<Vec<Label>> {
    labels.map(|labels| labels.into_iter().map(Label::from).collect())
}

/// Returns the dedup window of an input. It and its `rejectDifferent` are guards.
pub(super) fn checked_dedup(
    dedup: MaybeUndefined<DedupInput>,
    written: &WrittenInput<'_>,
) -> Result<Option<Dedup>, Rejection> {
    let dedup = written.guard("dedup", dedup)?;
    if dedup.is_some() {
        written.check("dedup.rejectDifferent")?;
    }
    Ok(dedup.map(|DedupInput { key, window_seconds, reject_different }| Dedup {
        key,
        window_seconds,
        reject_different,
    }))
}

/// Executions to start. Each request succeeds or fails independently.
#[derive(Debug, InputObject)]
pub struct ExecuteBatchInput {
    /// Requests (1 to 1000). Result i belongs to request i.
    pub requests: Vec<ExecuteInput>,
}

/// Execution to cancel.
#[derive(Debug, InputObject)]
pub struct CancelExecutionInput {
    /// Id of the execution.
    pub execution_id: ID,
    /// Reason, written to the log (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether the executions that it started, and those that these started, are cancelled too (default false). An
    /// execution that has ended is then not refused.
    #[graphql(default = false)]
    pub cascade: bool,
}
