//! Background tasks of this process that make no progress, with the reasons. Such a replica is not ready.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Reasons by task. Cheap to clone; all clones share the reasons.
#[derive(Debug, Clone, Default)]
pub struct Stalls(Arc<Mutex<BTreeMap<String, String>>>);

impl Stalls {
    /// Records why a task makes no progress. Returns true if the task was not recorded before.
    #[must_use]
    pub fn begin(&self, task: &str, reason: String) -> bool {
        self.lock().insert(task.to_owned(), reason).is_none()
    }

    /// Removes the record of a task. Returns true if there was one.
    #[must_use]
    pub fn end(&self, task: &str) -> bool {
        self.lock().remove(task).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a line for each recorded task.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lock().iter().map(|(task, reason)| format!("{task}: {reason}")).collect()
    }
}
