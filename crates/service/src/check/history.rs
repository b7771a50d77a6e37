//! The history of executions, compared with the executions.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::history::Interval;
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::Pages;
use noetl_storage::check::history;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

pub(super) struct HistoryHours<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for HistoryHours<'_> {
    /// Start of an hour.
    type Key = DateTime<Utc>;
    type Detail = ();
    const NAME: &'static str = "history";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(
        &self,
        pages: &mut Pages<'_>,
        after: Option<&DateTime<Utc>>,
    ) -> Result<Vec<DateTime<Utc>>, ServiceError> {
        Ok(history::hours(pages, &self.reach.view(self.shard), after.copied(), LIMIT).await?)
    }

    async fn examine(&self, keys: &[DateTime<Utc>]) -> Result<Differences<Self>, ServiceError> {
        let view = self.reach.view(self.shard);
        let describe = |(key, interval): (DateTime<Utc>, Interval)| {
            let rows = match interval {
                Interval::Minute => key.format("minutes of hour %Y-%m-%d %H:00 UTC"),
                Interval::Hour => key.format("hour %Y-%m-%d %H:00 UTC"),
                Interval::Day => key.format("day %Y-%m-%d"),
            };
            let description = format!("{rows} on shard {}", self.shard);
            Difference { kind: Kind::HistoryDiffers, key, description, detail: () }
        };
        Ok(history::differing(&view, keys).await?.into_iter().map(describe).collect())
    }

    /// Notes the hours. Reads are right at once, and the servers compute the rows again.
    async fn repair(&self, found: &Differences<Self>, _: &Repairer) -> Result<(), ServiceError> {
        let hours: BTreeSet<DateTime<Utc>> = found.iter().map(|one| one.key).collect();
        Ok(history::note(self.database(), &hours.into_iter().collect::<Vec<_>>()).await?)
    }
}
