//! Numbers of outbox entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_graphql::SimpleObject;

use crate::context::Services;
use crate::scalars::to_graphql_int;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::outbox::SubjectCounts;
use noetl_use_cases::error::ServiceError;

/// Numbers of outbox entries on the shards that can be reached. Up to 100,000 entries of each kind are counted per shard.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxStats {
    #[graphql(flatten)]
    counts: Counts,
    /// The same numbers for each shard.
    by_shard: Vec<OutboxShardStats>,
    /// Shards that could not be reached. Their entries are not counted.
    unavailable_shards: Vec<ShardIndex>,
}

impl OutboxStats {
    /// Counts the entries in the scope on every shard.
    pub async fn read(services: &Services, scope: &Scope) -> Result<Self, ServiceError> {
        let stats = services.outbox.stats(scope).await?;
        let (mut counts, mut by_shard) = (Counts::default(), Vec::new());
        for (shard, (backlog, statuses)) in stats.shards {
            let of_shard = Counts {
                pending: to_graphql_int(backlog.pending),
                in_flight: to_graphql_int(statuses.in_flight),
                failed: to_graphql_int(statuses.failed),
                dead: to_graphql_int(statuses.dead),
                oldest_pending_age_seconds: backlog.oldest_seconds,
            };
            counts.include(&of_shard);
            by_shard.push(OutboxShardStats { shard, counts: of_shard });
        }
        Ok(Self { counts, by_shard, unavailable_shards: stats.unavailable })
    }
}

/// Numbers of outbox entries on one shard. Up to 100,000 entries of each kind are counted.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxShardStats {
    /// Index of the shard.
    shard: ShardIndex,
    #[graphql(flatten)]
    counts: Counts,
}

/// Numbers of outbox entries with subjects of one form. Up to 100,000 entries of each status are counted on each shard.
#[derive(Debug, Clone, SimpleObject)]
pub struct OutboxSubjectStats {
    /// NATS subject, with `*` for each number in it, such as the id of an execution; null for entries without a subject.
    subject: Option<String>,
    #[graphql(flatten)]
    counts: Counts,
}

/// Numbers of outbox entries, as several objects contain them.
#[derive(Debug, Clone, Default, SimpleObject)]
struct Counts {
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

impl Counts {
    /// Adds the numbers of other entries; a sum beyond GraphQL's `Int` becomes the maximum.
    fn include(&mut self, other: &Self) {
        let ages = self.oldest_pending_age_seconds.into_iter().chain(other.oldest_pending_age_seconds);
        *self = Self {
            pending: self.pending.saturating_add(other.pending),
            in_flight: self.in_flight.saturating_add(other.in_flight),
            failed: self.failed.saturating_add(other.failed),
            dead: self.dead.saturating_add(other.dead),
            oldest_pending_age_seconds: ages.reduce(f64::max),
        };
    }

    fn total(&self) -> i64 {
        [self.pending, self.in_flight, self.failed, self.dead].into_iter().map(i64::from).sum()
    }
}

impl From<&SubjectCounts> for Counts {
    fn from(counts: &SubjectCounts) -> Self {
        Self {
            pending: to_graphql_int(counts.pending),
            in_flight: to_graphql_int(counts.in_flight),
            failed: to_graphql_int(counts.failed),
            dead: to_graphql_int(counts.dead),
            oldest_pending_age_seconds: counts.oldest_seconds,
        }
    }
}

/// Adds the numbers of each subject over the shards; the subject with most entries is first.
pub(super) fn by_subject(counts: impl Iterator<Item = SubjectCounts>) -> Vec<OutboxSubjectStats> {
    let mut subjects = BTreeMap::<Option<String>, Counts>::new();
    for of_shard in counts {
        let counts = Counts::from(&of_shard);
        subjects.entry(of_shard.subject).or_default().include(&counts);
    }
    let mut subjects: Vec<_> = subjects.into_iter().collect();
    subjects.sort_by_key(|(_, counts)| Reverse(counts.total()));
    subjects.into_iter().map(|(subject, counts)| OutboxSubjectStats { subject, counts }).collect()
}
