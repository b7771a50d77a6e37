//! The caller of an operation.

use async_graphql::{Enum, SimpleObject};

use crate::scalars::Time;
use noetl_auth::principal::{self, Principal};

/// Caller of an operation.
#[derive(Debug, Clone, SimpleObject)]
pub struct Viewer {
    /// Name of the caller. The events that the caller causes contain it as `meta.actor`. Null if the server does not
    /// identify callers; then events contain no actor.
    pub subject: Option<String>,
    /// Roles in the caller's token.
    pub roles: Vec<Role>,
    /// Capabilities of the caller: those of all its roles.
    pub capabilities: Vec<Capability>,
    /// Tenant in the caller's token: the caller can use only the data of this tenant. Null: it can use the data of all
    /// tenants.
    pub tenant: Option<String>,
    /// Expiry time of the caller's token; null if it does not expire. Live connections are closed at this time.
    pub expires_at: Option<Time>,
}

/// Predefined set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Role")]
pub enum Role {
    /// Reads stored data and uses live subscriptions.
    Viewer,
    /// Runs executions, as a worker or as the runtime of a source subscription.
    Worker,
    /// Sends the events of executions that another program started.
    Importer,
    /// Reads data and controls source subscriptions, executions, the catalog and the outbox.
    Operator,
    /// Has every capability.
    Admin,
}

/// Permission to use one part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "principal::Capability")]
pub enum Capability {
    /// Queries of stored data, and fields that return payloads or other objects.
    Read,
    /// Live subscriptions.
    Live,
    /// `execute`, `executeBatch`, `rerunExecution` and `rerunExecutions`.
    Execute,
    /// Counting, claiming and settling outbox entries.
    Outbox,
    /// `projectEvents`, `projectEventDocuments` and `reserveEventIds`.
    Project,
    /// Events of executions that another program started, in `projectEvents` and `projectEventDocuments`.
    Import,
    /// `advanceProjections`.
    Advance,
    /// Registering source subscriptions, and changing the status of those that the same subject registered.
    OwnLifecycle,
    /// Registering source subscriptions, and changing the status of all of them.
    Lifecycle,
    /// `cancelExecution` and `cancelExecutions`.
    Cancel,
    /// `retryOutbox` and `discardOutbox`.
    Retry,
    /// `registerCatalogEntry`, `archiveCatalogEntry` and `restoreCatalogEntry`.
    Catalog,
    /// Introspection, if the server restricts it.
    Introspect,
    /// Documents that are not in the manifest, if the server enforces the manifest.
    AnyDocument,
}

/// Returns the description of a caller.
pub(super) fn viewer(caller: &Principal) -> Viewer {
    Viewer {
        subject: caller.authenticated.then(|| caller.subject.to_string()),
        roles: caller.roles.iter().copied().map(Into::into).collect(),
        capabilities: caller.capabilities.iter().map(Into::into).collect(),
        tenant: caller.tenant.as_deref().map(str::to_owned),
        expires_at: caller.expires_at.map(Time),
    }
}
