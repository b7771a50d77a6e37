//! Executions in the state that their logs have now.
//!
//! The list of executions follows the logs after a moment. A reader of updates must not wait for it, because no later
//! event may come. So the logs are folded. The last event of the list's row does not show whether the row includes the
//! reader's event: an event can get a smaller id than events that were committed before it.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::Result;
use tokio::time::timeout;

use crate::context::Services;
use crate::updates::Found;
use crate::updates::list::Row;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::snapshots::Projected;

/// An execution in its current state.
#[derive(Debug, Clone)]
pub struct CurrentExecution {
    /// Its row in the list, with the status and the end time of its log.
    pub row: ExecutionRow,
    /// State of its log; `None`: the execution is shown as the list has it.
    pub state: Option<Arc<Projected>>,
}

impl CurrentExecution {
    /// Returns the execution in a state of its log.
    fn in_state(self, state: Arc<Projected>) -> Self {
        Self { row: self.row.in_state(&state), state: Some(state) }
    }
}

impl Row for CurrentExecution {
    fn id(&self) -> Id {
        Id::new(self.row.execution_id)
    }

    fn version(&self) -> Id {
        Id::new(self.row.last_event_id.unwrap_or_default())
    }

    fn position(&self) -> ListPosition {
        self.row.position()
    }

    fn has_ended(&self) -> bool {
        Status::from_stored(&self.row.status).is_terminal()
    }
}

/// Returns the current states of executions in the scope, in the order of `ids`.
pub async fn read(services: &Services, ids: &[Id], scope: &Scope) -> Result<Vec<Found<CurrentExecution>>> {
    let (rows, failed) = services.executions.by_ids(ids, scope).await;
    let mut found: HashMap<Id, CurrentExecution> =
        rows.into_iter().map(|(id, row)| (id, CurrentExecution { row, state: None })).collect();
    let known: Vec<Id> = found.keys().copied().collect();
    fold(services, &known, &mut found, scope).await;
    Found::all(ids, found, failed)
}

/// Returns executions of the list. Those whose status can change, and whose rows lack events, get the states of their logs.
pub async fn of_list(services: &Services, rows: Vec<ExecutionRow>, scope: &Scope) -> Vec<CurrentExecution> {
    let ids: Vec<Id> = rows.iter().map(|row| Id::new(row.execution_id)).collect();
    let after_end = services.statuses_change_after_end();
    let can_change = |row: &&ExecutionRow| after_end || !Status::from_stored(&row.status).is_terminal();
    let changing: Vec<&ExecutionRow> = rows.iter().filter(can_change).collect();
    let (outdated, unknown) = services.projections.outdated(&changing).await;
    let outdated: Vec<Id> = outdated.into_iter().chain(unknown.into_keys()).collect();
    let listed = |row: ExecutionRow| (Id::new(row.execution_id), CurrentExecution { row, state: None });
    let mut found: HashMap<Id, CurrentExecution> = rows.into_iter().map(listed).collect();
    fold(services, &outdated, &mut found, scope).await;
    ids.iter().filter_map(|id| found.remove(id)).collect()
}

/// Folds the logs of executions, because their list rows may lack events. An execution whose log can't be folded in
/// time is shown as the list has it.
async fn fold(services: &Services, ids: &[Id], found: &mut HashMap<Id, CurrentExecution>, scope: &Scope) {
    if ids.is_empty() {
        return;
    }
    let limit = services.replica.limits.deadline / 2;
    let Ok((states, failed)) = timeout(limit, services.projections.read(ids, scope)).await else {
        tracing::debug!(
            count = ids.len(),
            "executions are shown as listed, because their logs were not folded in time"
        );
        return;
    };
    if let Some(error) = failed.values().next() {
        let message = "executions are shown as listed, because their logs can't be folded";
        tracing::warn!(count = failed.len(), error = %WithCauses(error), "{message}");
    }
    for (id, state) in states {
        if let Some(current) = found.remove(&id) {
            found.insert(id, current.in_state(Arc::new(state)));
        }
    }
}
