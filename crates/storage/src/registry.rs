//! The subscription registry (cluster database): for each path, the only subscription that may be live.
//!
//! A subscription is made live only by the holder of its path's row, and only if the committed row names its id with an
//! intent. If the holder dies, or loses the lock with its connection, the intent remains and the next holder fulfils
//! it. So a path never has two live subscriptions.
//!
//! NoETL's server knows neither the registry nor its locks. A subscription that it registered is adopted: it becomes the
//! path's subscription, in place of one that has ended or does not exist yet.

use tokio::sync::SemaphorePermit;

use super::connections::Transaction;
use super::error::StorageError;
use super::pools::Database;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::tenant::{DEFAULT, Tenancy};

/// Registry entry of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryRow {
    /// Only subscription of the path that may be live.
    pub subscription_id: Id,
    /// Intent: the subscription is to become live by an event after this one, and the holder of the row appends that
    /// event. `None`: no intent is open.
    pub intent_after: Option<Id>,
    /// Caller that stored the intent; `None` if the caller was not identified.
    pub intent_actor: Option<Actor>,
    /// Tenant and organization of the subscription, if the intent registers it.
    pub intent_tenancy: Tenancy,
}

/// The locked row of a path.
#[derive(Debug)]
pub struct PathLock<'a> {
    cluster: &'a Database,
    tx: Transaction,
    path: &'a str,
    _permit: Option<SemaphorePermit<'a>>,
    /// The row, read under the lock.
    pub row: RegistryRow,
}

impl<'a> PathLock<'a> {
    /// Waits for the lock on the path's row and takes it. `Ok(None)`: the path has no row; [`reserve`] creates it.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.take", skip_all,
        fields(database = %cluster.name(), path)
    )]
    pub async fn take(cluster: &'a Database, path: &'a str) -> Result<Option<Self>, StorageError> {
        let work = async {
            let permit = cluster.may_hold().await;
            let mut tx = cluster.pool().begin().await?;
            let row = sqlx::query!(
                "SELECT subscription_id, intent_after, intent_actor, intent_tenant_id, intent_organization_id
                 FROM noetl.subscription_registry WHERE path = $1 FOR UPDATE",
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
                intent_tenancy: Tenancy::new(
                    row.intent_tenant_id.unwrap_or_else(|| DEFAULT.to_owned()),
                    row.intent_organization_id.unwrap_or_else(|| DEFAULT.to_owned()),
                ),
            };
            Self { cluster, tx, path, _permit: permit, row }
        }))
    }

    /// Makes a live subscription that another server registered the path's subscription, drops an open intent, and
    /// releases the row.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.adopt_locked", skip_all,
        fields(database = %self.cluster.name(), path = self.path, subscription = %live)
    )]
    pub async fn adopt(mut self, live: Id) -> Result<(), StorageError> {
        let update = sqlx::query!(
            "UPDATE noetl.subscription_registry
             SET subscription_id = $2, intent_after = NULL, intent_actor = NULL, updated_at = now() WHERE path = $1",
            self.path,
            live.get(),
        );
        tracing::info!(path = self.path, subscription = %live, "adopted a subscription of another server");
        self.cluster.run(update.execute(&mut *self.tx)).await?;
        self.cluster.run(self.tx.commit()).await
    }

    /// Stores an intent, commits it, and releases the row. An intent must be committed before it is fulfilled.
    #[tracing::instrument(
        level = "debug", name = "sql.registry.store_intent", skip_all,
        fields(database = %self.cluster.name(), path = self.path, subscription = %intent.subscription)
    )]
    pub async fn store_intent(mut self, intent: &Intent<'_>) -> Result<(), StorageError> {
        let Intent { subscription, after, tenancy, by } = intent;
        let update = sqlx::query!(
            "UPDATE noetl.subscription_registry
             SET subscription_id = $2, intent_after = $3, intent_actor = $4,
                 -- The tenant of a subscription stays known, in case that its log is lost.
                 intent_tenant_id = CASE subscription_id WHEN $2 THEN coalesce($5, intent_tenant_id) ELSE $5 END,
                 intent_organization_id =
                     CASE subscription_id WHEN $2 THEN coalesce($6, intent_organization_id) ELSE $6 END,
                 updated_at = now()
             WHERE path = $1",
            self.path,
            subscription.get(),
            after.get(),
            by.map(Actor::subject),
            tenancy.map(|tenancy| &*tenancy.tenant_id),
            tenancy.map(|tenancy| &*tenancy.organization_id),
        );
        self.cluster.run(update.execute(&mut *self.tx)).await?;
        self.cluster.run(self.tx.commit()).await
    }

    /// Marks the intent as fulfilled and releases the row.
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

/// Intent to make a subscription live.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The subscription.
    pub subscription: Id,
    /// Event after which an event makes it live.
    pub after: Id,
    /// Tenant and organization of a new subscription; `None`: the subscription exists.
    pub tenancy: Option<&'a Tenancy>,
    /// Caller that stores the intent; `None`: it is not identified.
    pub by: Option<&'a Actor>,
}

/// Creates the row of a path, with an intent. `Ok(false)`: the row exists.
#[tracing::instrument(
    level = "debug", name = "sql.registry.reserve", skip_all,
    fields(database = %cluster.name(), path, subscription = %intent.subscription)
)]
pub async fn reserve(cluster: &Database, path: &str, intent: &Intent<'_>) -> Result<bool, StorageError> {
    let Intent { subscription, after, tenancy, by } = intent;
    let insert = sqlx::query!(
        "INSERT INTO noetl.subscription_registry
             (path, subscription_id, intent_after, intent_actor, intent_tenant_id, intent_organization_id)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (path) DO NOTHING",
        path,
        subscription.get(),
        after.get(),
        by.map(Actor::subject),
        tenancy.map(|tenancy| &*tenancy.tenant_id),
        tenancy.map(|tenancy| &*tenancy.organization_id),
    );
    Ok(cluster.run(insert.execute(cluster.pool())).await?.rows_affected() == 1)
}

/// Returns the subscription in a path's row. `Ok(None)`: the path has no row.
#[tracing::instrument(
    level = "debug", name = "sql.registry.find", skip_all,
    fields(database = %cluster.name(), path)
)]
pub async fn find(cluster: &Database, path: &str) -> Result<Option<Id>, StorageError> {
    let row = sqlx::query_scalar!("SELECT subscription_id FROM noetl.subscription_registry WHERE path = $1", path);
    Ok(cluster.run(row.fetch_optional(cluster.pool())).await?.map(Id::new))
}

/// Returns up to `limit` paths after `after`, in order, whose intent is older than `age_seconds`.
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

/// A live subscription that another server registered.
#[derive(Debug, Clone)]
pub struct ForeignSubscription {
    /// Its id.
    pub id: i64,
    /// Path of its catalog entry.
    pub path: String,
}

/// Adds live subscriptions that another server registered, and returns the number added. A path that has a row keeps
/// it; of several subscriptions of a path, the one with the largest id is added.
#[tracing::instrument(
    level = "debug", name = "sql.registry.adopt", skip_all,
    fields(database = %cluster.name(), count = live.len())
)]
pub async fn adopt(cluster: &Database, live: Vec<ForeignSubscription>) -> Result<u64, StorageError> {
    let (paths, ids): (Vec<String>, Vec<i64>) = live.into_iter().map(|found| (found.path, found.id)).unzip();
    let insert = sqlx::query!(
        "INSERT INTO noetl.subscription_registry (path, subscription_id)
         SELECT path, max(id) FROM unnest($1::text[], $2::bigint[]) AS t (path, id) GROUP BY path
         ON CONFLICT DO NOTHING",
        &paths,
        &ids,
    );
    Ok(cluster.run(insert.execute(cluster.pool())).await?.rows_affected())
}
