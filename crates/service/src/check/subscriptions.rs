//! Live source subscriptions according to the logs, compared with the registrations of their paths.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::Pages;
use noetl_storage::check::subscriptions;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

pub(super) struct LiveSubscriptions<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for LiveSubscriptions<'_> {
    type Key = i64;
    /// The path.
    type Detail = String;
    const NAME: &'static str = "source subscriptions";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&i64>) -> Result<Vec<i64>, ServiceError> {
        Ok(subscriptions::ids(pages, after.copied().unwrap_or(i64::MIN), LIMIT).await?)
    }

    async fn examine(&self, ids: &[i64]) -> Result<Differences<Self>, ServiceError> {
        let ids = self.reach.own(self.shard, ids.iter().copied());
        let own = subscriptions::live_by_ids(self.database(), &ids).await?;
        let paths: BTreeSet<String> = own.iter().map(|one| one.path.clone()).collect();
        let paths: Vec<String> = paths.into_iter().collect();
        let mut live: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for shard in self.reach.up() {
            for one in subscriptions::live_of_paths(self.reach.view(shard), &paths).await? {
                live.entry(one.path).or_default().push(one.id);
            }
        }
        let registered = subscriptions::registrations(self.reach.cluster(), &paths, 0.0).await?;
        let registered: BTreeMap<&str, i64> =
            registered.iter().map(|row| (row.path.as_str(), row.subscription_id)).collect();
        let mut found = Vec::new();
        for one in &own {
            let of_path = live.get(&one.path).map_or(&[][..], Vec::as_slice);
            let kind = match registered.get(one.path.as_str()) {
                // Another shard reports the same path for its own one.
                _ if of_path.len() > 1 && of_path.iter().max() == Some(&one.id) => Kind::SeveralLiveSubscriptions,
                _ if of_path.len() > 1 => continue,
                Some(registered) if *registered == one.id => continue,
                _ => Kind::LiveSubscriptionNotRegistered,
            };
            let ids: Vec<String> = of_path.iter().map(i64::to_string).collect();
            let description = format!("path {:?}: {}", one.path, ids.join(", "));
            found.push(Difference { kind, key: one.id, description, detail: one.path.clone() });
        }
        Ok(found)
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        let mut failed = None;
        for one in found {
            failed = failed.or(repairer.subscriptions.keep_latest(&one.detail).await.err());
        }
        failed.map_or(Ok(()), Err)
    }
}
