//! Replicas of the deployment.

use async_graphql::SimpleObject;

use crate::context::Services;
use crate::scalars::Time;
use noetl_storage::machines::Lease;
use noetl_use_cases::error::ServiceError;

/// Running process of the deployment that generates ids: a replica, or a command that serves no requests.
#[derive(Debug, Clone, SimpleObject)]
pub struct DeploymentReplica {
    /// Machine id in the ids that it generates, unique while its lease is valid.
    pub machine_id: u16,
    /// Name, unique in the deployment; null for a command that serves no requests.
    pub replica: Option<String>,
    /// Version of its software.
    pub version: Option<String>,
    /// Time at which it started.
    pub started_at: Option<Time>,
    /// Time at which its lease expires if it is not renewed. A replica that was killed is listed until then.
    pub lease_expires_at: Time,
}

impl From<Lease> for DeploymentReplica {
    fn from(Lease { machine_id, expires_at, description, map: _ }: Lease) -> Self {
        let (started_at, named) = (description.as_ref().map(|of| Time(of.started_at)), description);
        let (replica, version) = named.map(|of| (of.replica, of.version)).unzip();
        Self { machine_id, replica, version, started_at, lease_expires_at: Time(expires_at) }
    }
}

/// Returns the replicas whose lease on a machine id is valid.
pub(super) async fn replicas(services: &Services) -> Result<Vec<DeploymentReplica>, ServiceError> {
    Ok(services.ids.leases().await?.into_iter().map(Into::into).collect())
}
