//! Claims of dedup keys.

use async_graphql::{Context, ID, Object, Result};

use super::types::Execution;
use crate::access::READ;
use crate::scalars::{Time, show_id, to_graphql_int};
use noetl_domain::ids::Id;
use noetl_storage::dedup::ClaimRow;

/// Claim of a dedup key: the execution that belongs to the key.
#[derive(Debug, Clone)]
pub struct DedupClaim(pub ClaimRow);

/// Claim of a dedup key: the execution that belongs to the key until the window expires.
#[Object]
impl DedupClaim {
    /// Id of the execution that belongs to the key.
    async fn execution_id(&self) -> ID {
        show_id(Id::new(self.0.execution_id))
    }

    /// Execution that belongs to the key. Null until it is created; if its server died, another one creates it within
    /// seconds. Also null after the retention has deleted the execution.
    #[graphql(guard = "READ")]
    async fn execution(&self, ctx: &Context<'_>) -> Result<Option<Execution>> {
        Execution::load(ctx, Id::new(self.0.execution_id)).await
    }

    /// Time of the first request with the key.
    async fn first_seen_at(&self) -> Time {
        Time(self.0.first_seen_at)
    }

    /// Time from which the key counts as new. Null if NoETL's own server stored the claim: then the window of each
    /// request is compared with `firstSeenAt`.
    async fn expires_at(&self) -> Option<Time> {
        self.0.expires_at.map(Time)
    }

    /// Number of later requests with the key, rejected ones included. Requests to NoETL's own server are not counted.
    async fn duplicates(&self) -> i32 {
        to_graphql_int(self.0.duplicates)
    }
}
