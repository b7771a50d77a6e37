//! Registrations of paths, compared with the logs of their subscriptions.

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use crate::subscriptions::STALE_INTENT_SECONDS;
use noetl_domain::ids::Id;
use noetl_storage::check::Pages;
use noetl_storage::check::subscriptions;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

/// Age in seconds from which an open intent is unfinished.
const OLD_INTENT_SECONDS: f64 = 15.0;
const _: () =
    assert!(OLD_INTENT_SECONDS > 2.0 * STALE_INTENT_SECONDS, "servers finish an abandoned intent long before");

pub(super) struct Registrations<'a> {
    pub(super) reach: &'a Reach,
}

impl Subject for Registrations<'_> {
    type Key = String;
    /// The registered subscription.
    type Detail = i64;
    const NAME: &'static str = "registrations";

    fn database(&self) -> &Database {
        self.reach.cluster()
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&String>) -> Result<Vec<String>, ServiceError> {
        Ok(subscriptions::paths(pages, after.map_or("", String::as_str), LIMIT).await?)
    }

    async fn examine(&self, paths: &[String]) -> Result<Differences<Self>, ServiceError> {
        let rows = subscriptions::registrations(self.database(), paths, OLD_INTENT_SECONDS).await?;
        let settled = rows.iter().filter(|row| !row.intended).map(|row| row.subscription_id);
        let absent = self.reach.absent(settled).await?;
        let difference = rows.into_iter().filter_map(|row| {
            let kind = match (row.intended, row.old) {
                (true, true) => Kind::UnfinishedRegistration,
                (false, _) if absent.contains(&row.subscription_id) => Kind::RegistrationWithoutLog,
                _ => return None,
            };
            let description = format!("path {:?}: subscription {}", row.path, row.subscription_id);
            Some(Difference { kind, key: row.path, description, detail: row.subscription_id })
        });
        Ok(difference.collect())
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        if found.iter().any(|one| one.kind == Kind::UnfinishedRegistration) {
            repairer.subscriptions.sweep().await?;
        }
        let mut failed = None;
        for one in found.iter().filter(|one| one.kind == Kind::RegistrationWithoutLog) {
            // One that fails, for example because the catalog lacks its entry, does not stop the others.
            let outcome = repairer.subscriptions.register_again(&one.key, Id::new(one.detail)).await;
            failed = failed.or(outcome.err());
        }
        failed.map_or(Ok(()), Err)
    }
}
