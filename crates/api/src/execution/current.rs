//! Executions in the state that their logs have now.
//!
//! The list of executions follows the logs after a moment. A reader of updates must not wait for it, because no later
//! event may come. So the end is read from the log, and if the list lacks the reader's event, the log is folded.

use std::collections::{BTreeMap, HashMap};

use async_graphql::Result;
use tokio::time::timeout;

use crate::context::Services;
use crate::errors::field_error;
use crate::updates::Found;
use crate::updates::list::{Changed, Row};
use noetl_domain::execution::Status;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_domain::workflow::End;
use noetl_runtime::causes::WithCauses;
use noetl_storage::executions::{CurrentRow, ExecutionRow};
use noetl_use_cases::error::ServiceError;

/// An execution in its current state.
#[derive(Debug, Clone)]
pub struct CurrentExecution {
    /// Its row in the list, with the status and the end time of its log.
    pub row: ExecutionRow,
    /// Its end, if the list does not show it yet.
    pub end: Option<End>,
    /// Last event that the state includes.
    version: Id,
}

impl CurrentExecution {
    /// Returns an execution as the list shows it.
    #[must_use]
    pub fn listed(row: ExecutionRow) -> Self {
        let version = Id::new(row.last_event_id.unwrap_or_default());
        Self { row, end: None, version }
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
        Self { row: ExecutionRow { status: status.as_str().to_owned(), end_time, ..self.row }, end, ..self }
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
        self.version
    }

    fn position(&self) -> ListPosition {
        self.row.position()
    }

    fn has_ended(&self) -> bool {
        self.status().is_terminal()
    }
}

/// Errors by shard.
type Failures = BTreeMap<ShardIndex, ServiceError>;

/// Returns the current states of executions in the scope, in the order of `changed`.
pub async fn read(services: &Services, changed: &[Changed], scope: &Scope) -> Result<Vec<Found<CurrentExecution>>> {
    let ids: Vec<Id> = changed.iter().map(|changed| changed.id).collect();
    let (rows, mut failed) = services.executions.by_ids(&ids, scope).await;
    let mut found: HashMap<Id, CurrentExecution> =
        rows.into_iter().map(|(id, current)| (id, CurrentExecution::of_row(current))).collect();
    read_reasons(services, &mut found, scope, &mut failed).await;
    let is_behind = |changed: &&Changed| {
        found
            .get(&changed.id)
            .is_some_and(|current| !current.has_ended() && changed.event.is_none_or(|event| current.version < event))
    };
    let behind: Vec<Id> = changed.iter().filter(is_behind).map(|changed| changed.id).collect();
    fold(services, &behind, &mut found, scope).await;
    let unreadable = |error: &ServiceError| error.unavailable().is_some() || error.timed_out().is_some();
    let down: Vec<ShardIndex> = failed.iter().filter(|(_, error)| unreadable(error)).map(|(shard, _)| *shard).collect();
    if let Some(error) = failed.into_values().find(|error| !unreadable(error)) {
        return Err(field_error(error));
    }
    let result = |changed: &Changed| match found.remove(&changed.id) {
        _ if down.contains(&services.databases.index_of(changed.id)) => Found::Unavailable,
        Some(current) => {
            let version = changed.event.map_or(current.version, |event| event.max(current.version));
            Found::Row(CurrentExecution { version, ..current })
        }
        None => Found::Missing,
    };
    Ok(changed.iter().map(result).collect())
}

/// Reads the reasons of the ends that the list does not show yet.
async fn read_reasons(
    services: &Services,
    found: &mut HashMap<Id, CurrentExecution>,
    scope: &Scope,
    failed: &mut Failures,
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

/// Folds the logs of executions whose list rows may lack an event. An execution whose log can't be folded in time is
/// shown as the list has it.
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
    for (shard, error) in failed {
        tracing::warn!(shard, error = %WithCauses(&error), "executions are shown as listed, because their logs can't be folded");
    }
    for (id, state) in states {
        let state = &state.projection.state;
        if let Some(current) = found.remove(&id) {
            found.insert(id, current.in_state(state.status(), state.end()));
        }
    }
}
