//! Selecting the executions of a bulk operation by a filter.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::Executions;
use noetl_domain::execution::Status;
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::Id;
use noetl_domain::page::{MAX_PAGE, PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::execution_lists::ExecutionFilter;
use noetl_storage::executions::ExecutionRow;
use noetl_use_cases::error::{Rejection, ServiceError};
use noetl_use_cases::executions::{MAX_SELECTED, ReadExecutions, Select};
use noetl_use_cases::listing::Listing;

/// Maximum number of executions that are counted for the refusal of a selection.
const MAX_COUNTED: i64 = 100_000;

#[async_trait]
impl Select for Executions {
    async fn matching(
        &self,
        filter: &ExecutionFilter,
        only_open: bool,
        scope: &Scope,
    ) -> Result<(Vec<Id>, Vec<ShardIndex>), ServiceError> {
        let filter = &if only_open { open(filter) } else { filter.clone() };
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        let (mut matched, mut missing) = (Vec::new(), BTreeSet::new());
        loop {
            let listed = self.list(filter, ExecutionOrder::Newest, &request, scope).await;
            let Listing { page, unavailable } = listed.map_err(|error| error.within("select"))?;
            missing.extend(unavailable);
            matched.extend(page.items.iter().map(|row| Id::new(row.execution_id)));
            if matched.len() > MAX_SELECTED || (page.has_next && matched.len() == MAX_SELECTED) {
                let total = match self.total(filter, MAX_COUNTED, scope).await {
                    // They can't be counted, but are certainly too many.
                    Err(ServiceError::Rejected(_)) => {
                        Total { value: i64::try_from(MAX_SELECTED).unwrap_or(i64::MAX), capped: true }
                    }
                    counted => counted?,
                };
                return Err(too_many(total, only_open).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = page.items.last().map(ExecutionRow::position);
        }
    }
}

/// Returns the filter without the statuses of executions that have ended.
fn open(filter: &ExecutionFilter) -> ExecutionFilter {
    let mut statuses = filter.statuses.clone().unwrap_or_else(|| Status::ALL.to_vec());
    statuses.retain(|status| !status.is_terminal());
    ExecutionFilter { statuses: Some(statuses), ..filter.clone() }
}

fn too_many(total: Total, only_open: bool) -> Rejection {
    let (more, open) =
        (if total.capped { "more than " } else { "" }, if only_open { " that have not ended" } else { "" });
    let message = format!(
        "the selection has {more}{} executions{open}; at most {MAX_SELECTED} are allowed, so narrow it",
        total.value
    );
    Rejection::invalid("select", message)
}
