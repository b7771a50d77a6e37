//! Numbers of outbox entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use async_graphql::SimpleObject;

use crate::context::Services;
use crate::scalars::to_graphql_int;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::outbox::{Backlog, StatusCounts, SubjectCounts};
use noetl_use_cases::error::ServiceError;

/// Numbers of outbox entries on the shards that can be reached. Up to 100,000 entries of each kind are counted per shard.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxStats {
    /// Number of entries that are claimable now, including entries in flight whose lease has expired.
    pending: i32,
    /// Number of entries that are claimed and not settled, including entries whose lease has expired.
    in_flight: i32,
    /// Number of entries whose last delivery attempt failed and that are tried again, including entries that are due.
    failed: i32,
    /// Number of entries that are no longer tried.
    dead: i32,
    /// Age in seconds of the oldest claimable entry that was counted; null if there is none.
    oldest_pending_age_seconds: Option<f64>,
    /// The same numbers for each shard.
    by_shard: Vec<OutboxShardStats>,
    /// Shards that could not be reached. Their entries are not counted.
    unavailable_shards: Vec<ShardIndex>,
}

impl OutboxStats {
    /// Counts the entries in the scope on every shard.
    pub async fn read(services: &Services, scope: &Scope) -> Result<Self, ServiceError> {
        let stats = services.outbox.stats(scope).await?;
        let by_shard = stats
            .shards
            .into_iter()
            .map(|(shard, (backlog, counts))| OutboxShardStats::new(shard, &backlog, &counts))
            .collect();
        Ok(Self::new(by_shard, stats.unavailable))
    }

    fn new(by_shard: Vec<OutboxShardStats>, unavailable_shards: Vec<ShardIndex>) -> Self {
        let sum = |of: fn(&OutboxShardStats) -> i32| total(by_shard.iter().map(of));
        let ages = by_shard.iter().filter_map(|shard| shard.oldest_pending_age_seconds);
        Self {
            pending: sum(|shard| shard.pending),
            in_flight: sum(|shard| shard.in_flight),
            failed: sum(|shard| shard.failed),
            dead: sum(|shard| shard.dead),
            oldest_pending_age_seconds: ages.reduce(f64::max),
            by_shard,
            unavailable_shards,
        }
    }
}

/// Numbers of outbox entries on one shard. Up to 100,000 entries of each kind are counted.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxShardStats {
    /// Index of the shard.
    shard: ShardIndex,
    /// Number of entries that are claimable now, including entries in flight whose lease has expired.
    pending: i32,
    /// Number of entries that are claimed and not settled, including entries whose lease has expired.
    in_flight: i32,
    /// Number of entries whose last delivery attempt failed and that are tried again, including entries that are due.
    failed: i32,
    /// Number of entries that are no longer tried.
    dead: i32,
    /// Age in seconds of the oldest claimable entry that was counted; null if there is none.
    oldest_pending_age_seconds: Option<f64>,
}

impl OutboxShardStats {
    fn new(shard: ShardIndex, backlog: &Backlog, counts: &StatusCounts) -> Self {
        Self {
            shard,
            pending: to_graphql_int(backlog.pending),
            in_flight: to_graphql_int(counts.in_flight),
            failed: to_graphql_int(counts.failed),
            dead: to_graphql_int(counts.dead),
            oldest_pending_age_seconds: backlog.oldest_seconds,
        }
    }
}

/// Numbers of outbox entries with subjects of one form. Up to 100,000 entries of each status are counted on each shard.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxSubjectStats {
    /// NATS subject, with `*` for each number in it, such as the id of an execution; null for entries without a subject.
    subject: Option<String>,
    /// Number of entries that are claimable now, including entries in flight whose lease has expired.
    pending: i32,
    /// Number of entries that are claimed and not settled, including entries whose lease has expired.
    in_flight: i32,
    /// Number of entries whose last delivery attempt failed and that are tried again, including entries that are due.
    failed: i32,
    /// Number of entries that are no longer tried.
    dead: i32,
    /// Age in seconds of the oldest claimable entry that was counted; null if there is none.
    oldest_pending_age_seconds: Option<f64>,
}

/// Adds the numbers of each subject over the shards; the subject with most entries is first.
pub(super) fn by_subject(counts: impl Iterator<Item = SubjectCounts>) -> Vec<OutboxSubjectStats> {
    let mut subjects = BTreeMap::<Option<String>, SubjectCounts>::new();
    for of_shard in counts {
        match subjects.entry(of_shard.subject.clone()) {
            Entry::Vacant(first) => {
                first.insert(of_shard);
            }
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.pending += of_shard.pending;
                sum.in_flight += of_shard.in_flight;
                sum.failed += of_shard.failed;
                sum.dead += of_shard.dead;
                sum.oldest_seconds = sum.oldest_seconds.into_iter().chain(of_shard.oldest_seconds).reduce(f64::max);
            }
        }
    }
    let mut subjects: Vec<_> = subjects.into_values().collect();
    subjects.sort_by_key(|of| Reverse(of.pending + of.in_flight + of.failed + of.dead));
    subjects.into_iter().map(OutboxSubjectStats::from).collect()
}

impl From<SubjectCounts> for OutboxSubjectStats {
    fn from(counts: SubjectCounts) -> Self {
        Self {
            subject: counts.subject,
            pending: to_graphql_int(counts.pending),
            in_flight: to_graphql_int(counts.in_flight),
            failed: to_graphql_int(counts.failed),
            dead: to_graphql_int(counts.dead),
            oldest_pending_age_seconds: counts.oldest_seconds,
        }
    }
}

/// Returns the sum of the numbers; a sum beyond GraphQL's `Int` becomes the maximum.
pub(super) fn total(counts: impl Iterator<Item = i32>) -> i32 {
    counts.fold(0, i32::saturating_add)
}
