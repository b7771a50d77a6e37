//! Audit events of duplicates. They are written in the background, so that no request waits for them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::timeout;

use crate::ids::Ids;
use crate::moves::repeated;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::coalesce::SharedWork;
use noetl_runtime::wake::WakeUps;
use noetl_storage::log::LockedLog;
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Maximum time for writing the audit events of one subscription.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Duplicate of a message of a source subscription.
#[derive(Debug, Clone)]
pub(super) struct AuditedDuplicate {
    /// Dedup key of the message.
    pub(super) key: String,
    /// Execution that the first request with the key started.
    pub(super) execution_id: Id,
    /// Whether the request differs from the first one.
    pub(super) differs: bool,
    /// Caller of the request; `None`: it was not identified.
    pub(super) actor: Option<Actor>,
    /// Time of the request.
    pub(super) at: DateTime<Utc>,
}

/// Writes an audit event for each duplicate to its subscription's log. The duplicates of one subscription share a
/// transaction. This is best effort: events that can't be written are counted and dropped.
pub(super) struct AuditBatches {
    pub(super) databases: Databases,
    pub(super) ids: Arc<Ids>,
    pub(super) wake_ups: WakeUps,
}

impl SharedWork for AuditBatches {
    /// Each subscription has its turn.
    type Caller = Id;
    type Kind = Id;
    type Item = AuditedDuplicate;
    type Output = ();
    type Error = ServiceError;

    async fn carry_out(
        &self,
        subscription: &Id,
        duplicates: Vec<AuditedDuplicate>,
        _: bool,
    ) -> Result<Vec<()>, ServiceError> {
        let write = repeated(&self.databases, || self.write(*subscription, &duplicates));
        let audit = timeout(AUDIT_TIMEOUT, write).await;
        let failure = match audit {
            Ok(written) => written.err().map(|error| WithCauses(&error).to_string()),
            Err(_) => Some(format!("it took longer than {AUDIT_TIMEOUT:?}")),
        };
        if let Some(error) = failure {
            lost(duplicates.len());
            tracing::warn!(%subscription, count = duplicates.len(), error, "could not write audit events of duplicates");
        }
        Ok(vec![(); duplicates.len()])
    }

    fn may_be_caused_by_one_call(_: &ServiceError) -> bool {
        false
    }
}

/// Counts audit events that are dropped.
pub(super) fn lost(count: usize) {
    metrics::counter!("noetl_duplicate_audits_lost_total").increment(count as u64);
}

impl AuditBatches {
    async fn write(&self, subscription: Id, duplicates: &[AuditedDuplicate]) -> Result<(), ServiceError> {
        let mut log = LockedLog::lock(self.databases.shard_of(subscription), subscription).await?;
        // The scope of each caller was checked when its request named the subscription.
        let Some(row) = log.subscription(&Scope::Unrestricted).await? else {
            return Ok(());
        };
        let mut last = log.last_event_id().await?.unwrap_or(row.last_event_id);
        let mut events = Vec::new();
        for AuditedDuplicate { key, execution_id, differs, actor, at } in duplicates {
            last = self.ids.next_after(last).await?;
            events.push(row.log(actor.as_ref()).deduplicated(last, key, *execution_id, *differs, *at));
        }
        log.append(&events).await?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(subscription));
        Ok(())
    }
}
