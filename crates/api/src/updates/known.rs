//! Objects that a reader has received and that match its filter.

use std::collections::{HashMap, HashSet};

use async_graphql::{Error, ErrorExtensions, Result};

use crate::errors::error_with_code;
use noetl_domain::ids::Id;

/// Maximum number of objects in a list that one live subscription follows.
pub const MAX_FOLLOWED: usize = 10_000;

/// The objects, by id, each with the last event that its shown state includes.
#[derive(Debug, Default)]
pub struct Known(HashMap<Id, Id>);

impl Known {
    /// Returns the last event that the shown state of an object includes.
    #[must_use]
    pub fn version(&self, id: Id) -> Option<Id> {
        self.0.get(&id).copied()
    }

    /// Adds an object, or its later state. Fails if the list has too many objects.
    pub fn insert(&mut self, id: Id, version: Id) -> Result<()> {
        if self.0.len() >= MAX_FOLLOWED && !self.0.contains_key(&id) {
            return Err(too_many());
        }
        self.0.insert(id, version);
        Ok(())
    }

    /// Removes an object. Returns whether it was known.
    pub fn remove(&mut self, id: Id) -> bool {
        self.0.remove(&id).is_some()
    }

    /// Removes all objects.
    pub(super) fn clear(&mut self) {
        self.0 = HashMap::new();
    }

    /// Returns the objects whose ids meet a condition.
    pub(super) fn which(&self, condition: impl Fn(Id) -> bool) -> HashSet<Id> {
        self.0.keys().copied().filter(|id| condition(*id)).collect()
    }
}

/// Returns the error of a list with too many objects.
pub(super) fn too_many() -> Error {
    let message = format!(
        "more than {MAX_FOLLOWED} objects match the filter; one live subscription follows at most {MAX_FOLLOWED}; use a \
         narrower filter"
    );
    error_with_code("LIMIT_EXCEEDED", message).extend_with(|_, extensions| {
        extensions.set("limit", "followed_objects");
        extensions.set("allowed", MAX_FOLLOWED);
        extensions.set("actual", MAX_FOLLOWED + 1);
    })
}
