//! Keeps this replica's machine id, and gives it back at the end.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Turns;
use crate::service::ids::{Ids, LEASE};

/// Renews the lease until `stop`.
pub async fn run(ids: Arc<Ids>, stop: CancellationToken) {
    let mut turns = Turns::every(LEASE / 3, stop);
    while turns.next().await {
        if let Err(error) = ids.renew().await {
            tracing::warn!(%error, "the machine id's lease could not be renewed");
        }
    }
    if let Err(error) = ids.release().await {
        tracing::warn!(%error, "the machine id is free when its lease runs out");
    }
}
