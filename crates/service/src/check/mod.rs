//! Comparison of the cluster database with the shards, and its repairs.
//!
//! No transaction spans two databases, so databases that were restored to different times contradict each other. Each
//! [`Subject`] is a table, which is read in pages of keys. A key that shows a difference is examined again after a pause,
//! and the difference counts only if it is still there. So the work of running servers is no difference.
//!
//! A repair is idempotent and checks its difference in the statement that changes the row. It can be repeated, and
//! interrupted at any point, and servers may run.

mod claims;
mod executions;
pub mod findings;
mod history;
mod ids;
pub mod kinds;
mod logs;
mod outbox;
mod reach;
mod registrations;
mod snapshots;
mod subscriptions;

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::executions::Executions;
use super::projections::Projections;
use super::subscriptions::Subscriptions;
use findings::Findings;
use kinds::Kind;
use noetl_runtime::causes::WithCauses;
use noetl_storage::check::Pages;
use noetl_storage::pools::{Database, Databases};
use noetl_use_cases::error::ServiceError;
use reach::Reach;

/// Number of keys in a page.
const PAGE: usize = 500;
/// [`PAGE`] as an argument of statements.
const LIMIT: i64 = 500;
/// Number of suspected keys in memory.
const MAX_SUSPECTS: usize = 10_000;
/// Pause before a second look at a suspected key.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(2);

/// Use cases that repair differences.
#[derive(Debug, Clone)]
pub struct Repairer {
    /// Executions, with their dedup claims.
    pub executions: Executions,
    /// Source subscriptions, with their registrations.
    pub subscriptions: Subscriptions,
    /// Snapshots and rows of the executions' list.
    pub projections: Projections,
}

/// A difference.
#[derive(Debug)]
struct Difference<Key, Detail> {
    kind: Kind,
    key: Key,
    description: String,
    detail: Detail,
}

type Differences<S> = Vec<Difference<<S as Subject>::Key, <S as Subject>::Detail>>;

/// A table that is compared with other tables.
trait Subject {
    /// Key of a row.
    type Key: Clone + PartialEq;
    /// Data that a repair needs.
    type Detail;
    /// Name of the rows.
    const NAME: &'static str;

    /// Returns the database of the rows.
    fn database(&self) -> &Database;

    /// Returns the next page of keys; empty at the end.
    async fn page(&self, pages: &mut Pages<'_>, after: Option<&Self::Key>) -> Result<Vec<Self::Key>, ServiceError>;

    /// Returns the differences of these rows.
    async fn examine(&self, keys: &[Self::Key]) -> Result<Differences<Self>, ServiceError>;

    /// Repairs differences, as far as that is possible.
    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError>;
}

/// A check of all databases.
#[derive(Debug)]
pub struct Check {
    reach: Reach,
    findings: Findings,
}

impl Check {
    /// Begins a check. Shards that can't be reached are left out, and reported.
    pub async fn begin(databases: Databases) -> Self {
        let mut findings = Findings::default();
        let reach = Reach::of(databases, &mut findings).await;
        Self { reach, findings }
    }

    /// Compares the ids in the logs with the leases on machine ids. A repair must precede the first lease of a machine
    /// id, because an id could be issued again.
    pub async fn ids(&mut self, repair: bool) {
        if let Err(error) = ids::compare(&self.reach, repair, &mut self.findings).await {
            self.findings.could_not_check("ids", WithCauses(&error).to_string());
        }
    }

    /// Compares everything else in the databases. Repairs the differences if there is a repairer.
    pub async fn rows(&mut self, repairer: Option<&Repairer>) {
        let Self { reach, findings } = self;
        let reach: &Reach = reach;
        // Parents and dedup scopes come first, because later parts rely on them.
        look(&registrations::Registrations { reach }, reach, repairer, findings).await;
        // A repair that was killed may have left an intent. Its subscription is the parent of executions.
        if let Some(repairer) = repairer
            && let Err(error) = repairer.subscriptions.finish_open().await
        {
            findings.could_not_check("open registrations", WithCauses(&error).to_string());
        }
        for shard in reach.up() {
            look(&subscriptions::LiveSubscriptions { reach, shard }, reach, repairer, findings).await;
        }
        look(&claims::Claims { reach }, reach, repairer, findings).await;
        for shard in reach.up() {
            look(&executions::ListRows { reach, shard }, reach, repairer, findings).await;
            look(&logs::Logs { reach, shard }, reach, repairer, findings).await;
            look(&snapshots::Snapshots { reach, shard }, reach, repairer, findings).await;
            look(&outbox::OutboxRows { reach, shard }, reach, repairer, findings).await;
            // Last, because the repairs of executions change them.
            look(&history::HistoryHours { reach, shard }, reach, repairer, findings).await;
        }
    }

    /// Returns the shards that can be reached, with their databases.
    pub fn shards(&self) -> impl Iterator<Item = (u16, &Database)> {
        self.reach.up().map(|shard| (shard, self.reach.shard(shard)))
    }

    /// Returns the result, to which other parts may be added.
    #[must_use]
    pub fn end(self) -> Findings {
        self.findings
    }
}

/// Compares a table, and adds its differences to the findings.
async fn look<S: Subject>(subject: &S, reach: &Reach, repairer: Option<&Repairer>, findings: &mut Findings) {
    if let Err(error) = compare(subject, reach, repairer, findings).await {
        findings
            .could_not_check(format!("{} of {}", S::NAME, subject.database().name()), WithCauses(&error).to_string());
    }
}

async fn compare<S: Subject>(
    subject: &S,
    reach: &Reach,
    repairer: Option<&Repairer>,
    findings: &mut Findings,
) -> Result<(), ServiceError> {
    let (mut after, mut suspects) = (None, Vec::new());
    let mut pages = Pages::of(subject.database()).await?;
    loop {
        let keys = subject.page(&mut pages, after.as_ref()).await?;
        let Some(last) = keys.last().cloned() else { break };
        suspects.extend(subject.examine(&keys).await?.into_iter().map(|found| found.key));
        // A row with several differences is looked at once.
        suspects.dedup();
        after = Some(last);
        if suspects.len() >= MAX_SUSPECTS {
            settle(subject, reach, std::mem::take(&mut suspects), repairer, findings).await?;
        }
    }
    settle(subject, reach, suspects, repairer, findings).await
}

/// Looks at suspected keys again, repairs what is still there, and adds it to the findings.
async fn settle<S: Subject>(
    subject: &S,
    reach: &Reach,
    suspects: Vec<S::Key>,
    repairer: Option<&Repairer>,
    findings: &mut Findings,
) -> Result<(), ServiceError> {
    if suspects.is_empty() {
        return Ok(());
    }
    sleep_until(Instant::now() + SECOND_LOOK_AFTER).await;
    // A bucket may have moved since the first look. By an outdated map, its new executions would be missing.
    reach.read_map().await?;
    for keys in suspects.chunks(PAGE) {
        let found = subject.examine(keys).await?;
        let mut left = found.iter().map(|one| (one.kind, one.description.clone())).collect::<Vec<_>>();
        if let Some(repairer) = repairer
            && !found.is_empty()
        {
            if let Err(error) = subject.repair(&found, repairer).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(part = S::NAME, database = %subject.database().name(), error, "a repair failed");
            }
            left = subject.examine(keys).await?.into_iter().map(|one| (one.kind, one.description)).collect();
        }
        for one in found {
            let is_gone = !left.contains(&(one.kind, one.description.clone()));
            if is_gone {
                tracing::info!(kind = one.kind.name(), difference = one.description, "repaired a difference");
            }
            left.retain(|(kind, description)| (*kind, description) != (one.kind, &one.description));
            findings.add(one.kind, one.description, is_gone);
        }
        // A repair that was not completed may leave another difference.
        for (kind, description) in left {
            findings.add(kind, description, false);
        }
    }
    Ok(())
}
