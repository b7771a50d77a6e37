//! The subscription registry (cluster database): per path, the only subscription that may be live.
//!
//! Whatever makes a subscription live does so while it holds the path's row, and only for the id that a committed row
//! names with an intent. If the holder dies, or loses the lock with its connection, the intent stands and the next
//! holder fulfils the same one: two subscriptions of a path can't both become live.

use tokio::sync::SemaphorePermit;

use super::connections::Transaction;
use super::error::StorageError;
use super::pools::Database;
use crate::domain::actor::Actor;
use crate::domain::ids::Id;

/// What the registry says of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRow {
    /// The only subscription of the path that may be live.
    pub subscription_id: Id,
    /// `Some`: it is to become live by an event after this one, and whoever reads this finishes that.
    pub intent_after: Option<Id>,
    /// Caller that left the intent; `None`: the caller was not identified.
    pub intent_actor: Option<Actor>,
}

/// A held path row.
#[derive(Debug)]
pub struct PathLock<'a> {
    cluster: &'a Database,
    tx: Transaction,
    path: &'a str,
    _permit: Option<SemaphorePermit<'a>>,
    /// As of the lock.
    pub row: RegistryRow,
}

impl<'a> PathLock<'a> {
    /// Waits for the path's row and takes it. `Ok(None)`: the path has none; [`reserve`] makes it.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.take", skip_all,
        fields(database = %cluster.name(), path)
    )]
    pub async fn take(cluster: &'a Database, path: &'a str) -> Result<Option<Self>, StorageError> {
        let work = async {
            let permit = cluster.may_hold().await;
            let mut tx = cluster.pool().begin().await?;
            let row = sqlx::query!(
                "SELECT subscription_id, intent_after, intent_actor FROM noetl.subscription_registry
                 WHERE path = $1 FOR UPDATE",
                path,
            )
            .fetch_optional(&mut *tx)
            .await?;
            Ok((permit, tx, row))
        };
        let (permit, tx, row) = cluster.run(work).await?;
        Ok(row.map(|row| {
            let row = RegistryRow {
                subscription_id: Id::new(row.subscription_id),
                intent_after: row.intent_after.map(Id::new),
                intent_actor: row.intent_actor.map(Actor::from),
            };
            Self { cluster, tx, path, _permit: permit, row }
        }))
    }

    /// Points the path at a subscription that is to become live by an event after `after`, and releases the row: the
    /// intent must be committed before anybody acts on it.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.intend", skip_all,
        fields(database = %self.cluster.name(), path = self.path, subscription = %subscription, after = %after)
    )]
    pub async fn intend(mut self, subscription: Id, after: Id, by: Option<&Actor>) -> Result<(), StorageError> {
        let update = sqlx::query!(
            "UPDATE noetl.subscription_registry
             SET subscription_id = $2, intent_after = $3, intent_actor = $4, updated_at = now()
             WHERE path = $1",
            self.path,
            subscription.get(),
            after.get(),
            by.map(Actor::subject),
        );
        self.cluster.run(update.execute(&mut *self.tx)).await?;
        self.cluster.run(self.tx.commit()).await
    }

    /// Notes that the intent is fulfilled and releases the row.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.settle", skip_all,
        fields(database = %self.cluster.name(), path = self.path)
    )]
    pub async fn settle(mut self) -> Result<(), StorageError> {
        let update = sqlx::query!(
            "UPDATE noetl.subscription_registry SET intent_after = NULL, updated_at = now() WHERE path = $1",
            self.path,
        );
        self.cluster.run(update.execute(&mut *self.tx)).await?;
        self.cluster.run(self.tx.commit()).await
    }
}

/// Makes the row of a path that has none: `subscription` is to become live by an event after `after`. `Ok(false)`:
/// somebody else made it.
#[tracing::instrument(
    level = "debug", name = "sql.registry.reserve", skip_all,
    fields(database = %cluster.name(), path, subscription = %subscription, after = %after)
)]
pub async fn reserve(
    cluster: &Database,
    path: &str,
    subscription: Id,
    after: Id,
    by: Option<&Actor>,
) -> Result<bool, StorageError> {
    let insert = sqlx::query!(
        "INSERT INTO noetl.subscription_registry (path, subscription_id, intent_after, intent_actor)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (path) DO NOTHING",
        path,
        subscription.get(),
        after.get(),
        by.map(Actor::subject),
    );
    Ok(cluster.run(insert.execute(cluster.pool())).await?.rows_affected() == 1)
}

/// The subscription that a path's row names.
#[tracing::instrument(
    level = "debug", name = "sql.registry.find", skip_all,
    fields(database = %cluster.name(), path)
)]
pub async fn find(cluster: &Database, path: &str) -> Result<Option<Id>, StorageError> {
    let row = sqlx::query_scalar!("SELECT subscription_id FROM noetl.subscription_registry WHERE path = $1", path);
    Ok(cluster.run(row.fetch_optional(cluster.pool())).await?.map(Id::new))
}

/// Paths behind `after`, in order, whose intent is older than `age_seconds`.
#[tracing::instrument(level = "debug", name = "sql.registry.stale", skip_all, fields(database = %cluster.name()))]
pub async fn stale(cluster: &Database, age_seconds: f64, after: &str, limit: i64) -> Result<Vec<String>, StorageError> {
    let rows = sqlx::query_scalar!(
        "SELECT path FROM noetl.subscription_registry
         WHERE intent_after IS NOT NULL AND updated_at < now() - make_interval(secs => $1) AND path > $2
         ORDER BY path LIMIT $3",
        age_seconds,
        after,
        limit,
    );
    cluster.run(rows.fetch_all(cluster.pool())).await
}

/// Adopts live subscriptions that another server registered, as (path, id); a path that has a row keeps it.
#[tracing::instrument(
    level = "debug", name = "sql.registry.adopt", skip_all,
    fields(database = %cluster.name(), count = live.len())
)]
pub async fn adopt(cluster: &Database, live: &[(String, i64)]) -> Result<u64, StorageError> {
    let (paths, ids): (Vec<String>, Vec<i64>) = live.iter().cloned().unzip();
    let insert = sqlx::query!(
        "INSERT INTO noetl.subscription_registry (path, subscription_id)
         SELECT path, max(id) FROM unnest($1::text[], $2::bigint[]) AS t (path, id) GROUP BY path
         ON CONFLICT DO NOTHING",
        &paths,
        &ids,
    );
    Ok(cluster.run(insert.execute(cluster.pool())).await?.rows_affected())
}
