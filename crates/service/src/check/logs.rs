//! Logs, compared with the executions' list and with the bucket map.

use super::executions::build_again;
use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::Pages;
use noetl_storage::check::logs;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

pub(super) struct Logs<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for Logs<'_> {
    type Key = i64;
    type Detail = ();
    const NAME: &'static str = "logs";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&i64>) -> Result<Vec<i64>, ServiceError> {
        Ok(logs::ids(pages, after.copied().unwrap_or(i64::MIN), LIMIT).await?)
    }

    async fn examine(&self, keys: &[i64]) -> Result<Differences<Self>, ServiceError> {
        let keys = self.reach.own(self.shard, keys.iter().copied());
        let (own, misplaced): (Vec<i64>, Vec<i64>) =
            keys.iter().partition(|log| self.reach.owner_of(**log) == self.shard);
        let unlisted = logs::unlisted(self.database(), &own).await?.into_iter().map(|log| Difference {
            kind: Kind::LogWithoutListRow,
            key: log,
            description: format!("execution {log} on shard {}", self.shard),
            detail: (),
        });
        // A log that was moved may have been deleted here since the page was read.
        let misplaced = logs::existing(self.database(), &misplaced).await?.into_iter().map(|log| Difference {
            kind: Kind::LogOnOtherShard,
            key: log,
            description: format!("log {log} on shard {} belongs to shard {}", self.shard, self.reach.owner_of(log)),
            detail: (),
        });
        Ok(unlisted.chain(misplaced).collect())
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        let unlisted = found.iter().filter(|one| one.kind == Kind::LogWithoutListRow);
        let unlisted: Vec<i64> = unlisted.map(|one| one.key).collect();
        build_again(self.database(), &unlisted, repairer).await
    }
}
