//! Ids under leased machine ids: reserving them, and the leases.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::ServiceError;
use noetl_domain::ids::Id;
use noetl_storage::machines::Lease;

/// Ids under the leased machine id of this replica.
#[async_trait]
pub trait ReserveIds: Debug + Send + Sync {
    /// Returns the valid leases on machine ids, ordered by machine id: one for each running process of the deployment.
    async fn leases(&self) -> Result<Vec<Lease>, ServiceError>;

    /// Returns this many ids in increasing order.
    async fn reserve(&self, count: u32) -> Result<Vec<Id>, ServiceError>;

    /// Returns the machine id that the ids contain.
    #[must_use]
    fn machine_id(&self) -> u16;
}
