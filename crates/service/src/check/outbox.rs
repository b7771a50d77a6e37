//! Outbox rows, compared with their events.

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::Pages;
use noetl_storage::check::outbox;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

pub(super) struct OutboxRows<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for OutboxRows<'_> {
    type Key = i64;
    type Detail = ();
    const NAME: &'static str = "outbox rows";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&i64>) -> Result<Vec<i64>, ServiceError> {
        Ok(outbox::ids(pages, after.copied().unwrap_or(i64::MIN), LIMIT).await?)
    }

    async fn examine(&self, keys: &[i64]) -> Result<Differences<Self>, ServiceError> {
        let orphans = outbox::orphans(self.database(), keys).await?.into_iter();
        let dropped = |id: i64| self.reach.may_be_dropped(id) || self.reach.is_moved(self.shard, id);
        let difference = orphans.filter(|row| !dropped(row.execution_id)).map(|row| Difference {
            kind: Kind::OutboxRowWithoutEvent,
            key: row.outbox_id,
            description: format!("row {}-{} of execution {}", self.shard, row.outbox_id, row.execution_id),
            detail: (),
        });
        Ok(difference.collect())
    }

    async fn repair(&self, found: &Differences<Self>, _: &Repairer) -> Result<(), ServiceError> {
        let ids: Vec<i64> = found.iter().map(|one| one.key).collect();
        outbox::delete_orphans(self.database(), &ids).await?;
        Ok(())
    }
}
