//! Renews the lease on this replica's machine id. The lease is released only after all tasks have ended, because
//! requests in progress generate ids.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Turns;
use noetl_runtime::causes::WithCauses;
use noetl_service::ids::{Ids, LEASE};

/// Renews the lease until `stop`.
pub async fn run(ids: Arc<Ids>, stop: CancellationToken) {
    let mut turns = Turns::every(LEASE / 3, stop);
    while turns.next().await {
        if let Err(error) = ids.renew().await {
            tracing::warn!(error = %WithCauses(&error), "the lease on the machine id could not be renewed");
        }
    }
}
