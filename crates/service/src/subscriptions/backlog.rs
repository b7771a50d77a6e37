//! Backlog of the active source subscriptions, for an autoscaler.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};

use super::Subscriptions;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::State;
use noetl_domain::list_position::PositionRange;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_runtime::causes::WithCauses;
use noetl_storage::error::StorageError;
use noetl_storage::executions::{self, OpenChildren};
use noetl_storage::subscriptions::{self, SubscriptionFilter, SubscriptionRow};
use noetl_storage::view::View;
use noetl_use_cases::error::ServiceError;

/// Maximum number of active subscriptions of one shard.
const MAX_ACTIVE: i64 = 1000;

/// An active subscription and its backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSubscription {
    /// Id of the subscription.
    pub id: Id,
    /// Catalog path.
    pub path: String,
    /// Number of executions that it started and that have not ended.
    pub open_executions: i64,
}

/// The active subscriptions of the shards that could be read.
#[derive(Debug, Default)]
pub struct ActiveSubscriptions {
    /// Subscriptions, ordered by path.
    pub subscriptions: Vec<ActiveSubscription>,
    /// Shards that could not be read.
    pub unavailable: Vec<ShardIndex>,
}

impl Subscriptions {
    /// Returns the active subscriptions of all tenants, up to 1000 per shard, with the number of their executions that
    /// have not ended. A subscription and its executions may be in different shards. Fails only if no shard could be
    /// read.
    #[tracing::instrument(level = "debug", name = "subscriptions.backlog", skip_all)]
    pub async fn backlog(&self) -> Result<ActiveSubscriptions, ServiceError> {
        let read = join_all(self.databases.views().into_iter().map(backlog_of)).await;
        let (mut active, mut open) = (Vec::new(), BTreeMap::<i64, i64>::new());
        let (mut unavailable, mut failure) = (BTreeSet::new(), None);
        for (index, backlog) in (0..).zip(read) {
            match backlog {
                Ok((found, children)) => {
                    active.extend(found);
                    for one in children {
                        *open.entry(one.parent).or_default() += one.open;
                    }
                }
                Err(error) => {
                    tracing::warn!(shard = index, error = %WithCauses(&error), "could not read the backlog of subscriptions");
                    unavailable.insert(index);
                    failure = Some(error);
                }
            }
        }
        if let Some(error) = failure
            && unavailable.len() == self.databases.shards().len()
        {
            return Err(error.into());
        }
        let with_backlog = |row: SubscriptionRow| {
            let open_executions = open.get(&row.id.get()).copied().unwrap_or_default();
            ActiveSubscription { id: row.id, path: row.path, open_executions }
        };
        let mut subscriptions: Vec<_> = active.into_iter().map(with_backlog).collect();
        subscriptions.sort_unstable_by(|one, other| one.path.cmp(&other.path).then(one.id.cmp(&other.id)));
        Ok(ActiveSubscriptions { subscriptions, unavailable: unavailable.into_iter().collect() })
    }
}

/// Returns the active subscriptions and the open executions of one shard.
async fn backlog_of(shard: View<'_>) -> Result<(Vec<SubscriptionRow>, Vec<OpenChildren>), StorageError> {
    let filter = SubscriptionFilter { states: Some(vec![State::Active]), ..SubscriptionFilter::default() };
    let (newest, all) = (PositionRange::newest(MAX_ACTIVE), Scope::Unrestricted);
    let (active, open) =
        join(subscriptions::list(shard.clone(), &all, &filter, newest), executions::open_by_parent(shard)).await;
    Ok((active?, open?))
}
