//! Objects that a reader has received and that match its filter.

use std::collections::{HashMap, HashSet};

use async_graphql::{Error, ErrorExtensions, Result};

use crate::errors::error_with_code;
use noetl_domain::ids::Id;

/// Maximum number of objects in a list that one live subscription follows.
pub(super) const MAX_FOLLOWED: usize = 10_000;

/// The objects, by id, each with the last event that its shown state includes.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<Id, Id>);

impl Known {
    /// Returns the last event that the shown state of an object includes.
    pub(super) fn version(&self, id: Id) -> Option<Id> {
        self.0.get(&id).copied()
    }

    /// Adds an object, or its later state. Fails if the list has too many objects.
    pub(super) fn insert(&mut self, id: Id, version: Id) -> Result<()> {
        if self.0.len() >= MAX_FOLLOWED && !self.0.contains_key(&id) {
            return Err(too_many());
        }
        self.0.insert(id, version);
        Ok(())
    }

    /// Removes an object. Returns whether it was known.
    pub(super) fn remove(&mut self, id: Id) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_objects_is_bounded_and_the_error_names_the_limit() {
        let mut known = Known::default();
        let last = i64::try_from(MAX_FOLLOWED).unwrap();
        (1..=last).for_each(|id| known.insert(Id::new(id), Id::new(1)).unwrap());
        known.insert(Id::new(1), Id::new(2)).unwrap();
        assert_eq!(known.version(Id::new(1)), Some(Id::new(2)));
        let error = known.insert(Id::new(last + 1), Id::new(1)).unwrap_err();
        let extensions = error.extensions.unwrap();
        assert_eq!(extensions.get("code"), Some(&"LIMIT_EXCEEDED".into()));
        assert_eq!(extensions.get("allowed"), Some(&MAX_FOLLOWED.into()));
        assert!(known.remove(Id::new(7)) && !known.remove(Id::new(7)));
        known.insert(Id::new(last + 1), Id::new(1)).unwrap();
    }
}
