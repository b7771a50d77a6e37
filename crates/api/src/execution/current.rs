//! Executions in the state that their logs have now.
//!
//! The list of executions follows the logs after a moment. A reader of updates must not wait for it, because no later
//! event may come. So the end is read from the log, and the log of an execution that has not ended is folded. The last
//! event of the list's row does not show whether the row includes the reader's event: an event can get a smaller id than
//! events that were committed before it.

use std::collections::{BTreeSet, HashMap};

use async_graphql::Result;
use tokio::time::timeout;

use crate::context::Services;
use crate::errors::field_error;
use crate::updates::Found;
use crate::updates::list::Row;
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::tenant::Scope;
use noetl_domain::workflow::End;
use noetl_runtime::causes::WithCauses;
use noetl_storage::executions::{CurrentRow, ExecutionRow};
use noetl_use_cases::error::{ReadFailures, ServiceError};

/// An execution in its current state.
#[derive(Debug, Clone)]
pub struct CurrentExecution {
    /// Its row in the list, with the status and the end time of its log.
    pub row: ExecutionRow,
    /// Its end, if the list does not show it yet.
    pub end: Option<End>,
}

impl CurrentExecution {
    /// Returns an execution as the list shows it.
    #[must_use]
    pub fn listed(row: ExecutionRow) -> Self {
        Self { row, end: None }
    }

    /// Returns an execution that was read with its end.
    fn of_row(CurrentRow { row, end }: CurrentRow) -> Self {
        let listed = Self::listed(row);
        match end {
            Some(end) => listed.in_state(end.status(), Some(end)),
            None => listed,
        }
    }

    /// Returns the execution in a state of its log.
    fn in_state(self, status: Status, end: Option<End>) -> Self {
        let end_time = end.as_ref().map_or(self.row.end_time, |end| Some(end.at));
        Self { row: ExecutionRow { status: status.as_str().to_owned(), end_time, ..self.row }, end }
    }

    fn status(&self) -> Status {
        Status::from_stored(&self.row.status)
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
        self.status().is_terminal()
    }
}

/// Returns the current states of executions in the scope, in the order of `ids`.
pub async fn read(services: &Services, ids: &[Id], scope: &Scope) -> Result<Vec<Found<CurrentExecution>>> {
    let (rows, mut failed) = services.executions.by_ids(ids, scope).await;
    let mut found: HashMap<Id, CurrentExecution> =
        rows.into_iter().map(|(id, current)| (id, CurrentExecution::of_row(current))).collect();
    read_reasons(services, &mut found, scope, &mut failed).await;
    let running: Vec<Id> = found.iter().filter(|(_, current)| !current.has_ended()).map(|(id, _)| *id).collect();
    fold(services, &running, &mut found, scope).await;
    let unreadable = |error: &ServiceError| error.unavailable().is_some() || error.timed_out().is_some();
    let down: BTreeSet<Id> = failed.iter().filter(|(_, error)| unreadable(error)).map(|(id, _)| *id).collect();
    if let Some(error) = failed.into_values().find(|error| !unreadable(error)) {
        return Err(field_error(error));
    }
    let result = |id: &Id| match found.remove(id) {
        _ if down.contains(id) => Found::Unavailable,
        Some(current) => Found::Row(current),
        None => Found::Missing,
    };
    Ok(ids.iter().map(result).collect())
}

/// Reads the reasons of the ends that the list does not show yet.
async fn read_reasons(
    services: &Services,
    found: &mut HashMap<Id, CurrentExecution>,
    scope: &Scope,
    failed: &mut ReadFailures,
) {
    let ended: Vec<Id> = found.iter().filter(|(_, current)| current.end.is_some()).map(|(id, _)| *id).collect();
    if ended.is_empty() {
        return;
    }
    let (ends, failures) = services.projections.ends(&ended, true, scope).await;
    failed.extend(failures);
    for (id, end) in ends {
        if let Some(current) = found.remove(&id) {
            found.insert(id, current.in_state(end.status(), Some(end)));
        }
    }
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
        let state = &state.projection.state;
        if let Some(current) = found.remove(&id) {
            found.insert(id, current.in_state(state.status(), state.end()));
        }
    }
}
