//! Failures of single shards. A failed shard does not hide the results of the other shards.

use noetl_domain::shard::ShardIndex;
use noetl_domain::shard_failures::missing;
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
    pub(super) fn shards(self, answered: bool) -> Result<Vec<ShardIndex>, ServiceError> {
        let missing = missing(self.0, answered, |error| !is_unavailability(error))?;
        for (shard, error) in missing.iter().filter(|(_, error)| !is_unavailability(error)) {
            let error: &dyn std::error::Error = error;
            tracing::error!(shard, error, "a shard's outbox failed");
        }
        Ok(missing.into_iter().map(|(shard, _)| shard).collect())
    }

    /// Returns the error of the shard that was added last.
    pub(super) fn last(mut self) -> Option<ServiceError> {
        self.0.pop().map(|(_, error)| error)
    }
}

fn is_unavailability(error: &ServiceError) -> bool {
    error.unavailable().is_some()
}
