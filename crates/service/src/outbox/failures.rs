//! Failures of single shards. A failed shard does not hide the results of the other shards.

use noetl_domain::shard::ShardIndex;
use noetl_use_cases::error::ServiceError;

/// Failed shards with their errors.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(ShardIndex, ServiceError)>);

impl Failures {
    /// Adds a failed shard.
    pub(super) fn add(&mut self, shard: ShardIndex, error: impl Into<ServiceError>) {
        self.0.push((shard, error.into()));
    }

    /// Returns the shards that are missing from a response. If no shard `answered` and one had a fault, returns that
    /// fault, which may be a slow statement. An unreachable shard is not a fault.
    pub(super) fn shards(mut self, answered: bool) -> Result<Vec<ShardIndex>, ServiceError> {
        let faults = self.0.iter().position(|(_, error)| !is_unavailability(error)).filter(|_| !answered);
        if let Some(fault) = faults {
            return Err(self.0.swap_remove(fault).1);
        }
        for (shard, error) in self.0.iter().filter(|(_, error)| !is_unavailability(error)) {
            let error: &dyn std::error::Error = error;
            tracing::error!(shard, error, "a shard's outbox failed");
        }
        let mut shards: Vec<ShardIndex> = self.0.into_iter().map(|(shard, _)| shard).collect();
        shards.sort_unstable();
        Ok(shards)
    }

    /// Returns the error of the shard that was added last.
    pub(super) fn last(mut self) -> Option<ServiceError> {
        self.0.pop().map(|(_, error)| error)
    }
}

fn is_unavailability(error: &ServiceError) -> bool {
    error.unavailable().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_storage::error::{DatabaseName, StorageError};

    #[test]
    fn fault_is_returned_only_if_no_shard_answered() {
        let both = || {
            let mut failures = Failures::default();
            failures.add(2, StorageError::Unstorable { database: DatabaseName::Shard(2) });
            failures.add(1, StorageError::Unavailable { database: DatabaseName::Shard(1), reason: String::new() });
            failures
        };
        assert_eq!(both().shards(true).unwrap(), [1, 2]);
        assert!(both().shards(false).unwrap_err().is_rejection());
        let mut unreachable = both();
        unreachable.0.remove(0);
        assert_eq!(unreachable.shards(false).unwrap(), [1]);
    }
}
