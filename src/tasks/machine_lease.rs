//! Keeps this replica's machine id. It is given back when everything else has ended: requests that are still under way
//! make ids.

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
}
