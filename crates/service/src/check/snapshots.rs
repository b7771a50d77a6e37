//! Stored snapshots, compared with their logs.

use super::executions::build_again;
use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::Pages;
use noetl_storage::check::snapshots::{self, SnapshotKey};
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

pub(super) struct Snapshots<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for Snapshots<'_> {
    type Key = SnapshotKey;
    type Detail = ();
    const NAME: &'static str = "snapshots";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&SnapshotKey>) -> Result<Vec<SnapshotKey>, ServiceError> {
        Ok(snapshots::keys(pages, after.unwrap_or(&SnapshotKey::default()), LIMIT).await?)
    }

    async fn examine(&self, keys: &[SnapshotKey]) -> Result<Differences<Self>, ServiceError> {
        let later = snapshots::later(self.database(), keys).await?.into_iter();
        let gone = |id: i64| self.reach.may_be_dropped(id) || self.reach.is_moved(self.shard, id);
        let dropped = |key: &SnapshotKey| key.aggregate_id.parse().is_ok_and(gone);
        let difference = later.filter(|key| !dropped(key)).map(|key| Difference {
            kind: Kind::SnapshotAfterLog,
            description: format!("execution {} on shard {}", key.aggregate_id, self.shard),
            key,
            detail: (),
        });
        Ok(difference.collect())
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        let keys: Vec<SnapshotKey> = found.iter().map(|one| one.key.clone()).collect();
        snapshots::delete_later(self.database(), &keys).await?;
        let ids: Vec<i64> = keys.iter().filter_map(|key| key.aggregate_id.parse().ok()).collect();
        build_again(self.database(), &ids, repairer).await
    }
}
