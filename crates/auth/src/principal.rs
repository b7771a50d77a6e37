//! Identified callers and their capabilities.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

/// Permission to use one part of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Read all stored data, including payloads.
    Read,
    /// Open live subscriptions.
    Live,
    /// Start executions.
    Execute,
    /// Count, claim and settle outbox rows.
    Outbox,
    /// Send workers' events.
    Project,
    /// Send events of executions that another program started.
    Import,
    /// Store the states of executions.
    Advance,
    /// Register source subscriptions, and change the state of those that the same subject registered.
    OwnLifecycle,
    /// Register source subscriptions, and change the state of all of them.
    Lifecycle,
    /// Cancel executions.
    Cancel,
    /// Make failed and DEAD outbox rows claimable again, and discard DEAD ones.
    Retry,
    /// Register catalog entries.
    Catalog,
    /// Introspect the schema if introspection is restricted.
    Introspect,
    /// Run documents that are not in the manifest if the manifest is enforced.
    AnyDocument,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 14] = [
        Self::Read,
        Self::Live,
        Self::Execute,
        Self::Outbox,
        Self::Project,
        Self::Import,
        Self::Advance,
        Self::OwnLifecycle,
        Self::Lifecycle,
        Self::Cancel,
        Self::Retry,
        Self::Catalog,
        Self::Introspect,
        Self::AnyDocument,
    ];

    /// Returns the name in messages and in the API, such as `OWN_LIFECYCLE`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Live => "LIVE",
            Self::Execute => "EXECUTE",
            Self::Outbox => "OUTBOX",
            Self::Project => "PROJECT",
            Self::Import => "IMPORT",
            Self::Advance => "ADVANCE",
            Self::OwnLifecycle => "OWN_LIFECYCLE",
            Self::Lifecycle => "LIFECYCLE",
            Self::Cancel => "CANCEL",
            Self::Retry => "RETRY",
            Self::Catalog => "CATALOG",
            Self::Introspect => "INTROSPECT",
            Self::AnyDocument => "ANY_DOCUMENT",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of these capabilities.
    #[must_use]
    pub const fn of(capabilities: &[Capability]) -> Self {
        let (mut set, mut next) = (0, 0);
        while next < capabilities.len() {
            set |= 1 << capabilities[next] as u16;
            next += 1;
        }
        Self(set)
    }

    /// Returns whether the set has this capability.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// Returns the capabilities of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the capabilities in their fixed order.
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(move |capability| self.has(*capability))
    }
}

/// Named set of capabilities. Tokens contain the names of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads data and follows it live.
    Viewer,
    /// Runs executions: a worker, or the runtime of a source subscription.
    Worker,
    /// Brings the events of another program's executions, such as NoETL's materialiser.
    Importer,
    /// Monitors and controls executions and source subscriptions.
    Operator,
    /// Has all capabilities.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Worker, Self::Importer, Self::Operator, Self::Admin];

    /// Returns the name in token files, claims and the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Worker => "worker",
            Self::Importer => "importer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns the capabilities of the role.
    #[must_use]
    pub const fn capabilities(self) -> Capabilities {
        use Capability::{
            Advance, Cancel, Catalog, Execute, Import, Lifecycle, Live, Outbox, OwnLifecycle, Project, Read, Retry,
        };
        match self {
            Self::Viewer => Capabilities::of(&[Read, Live]),
            Self::Worker => Capabilities::of(&[Execute, Outbox, Project, Advance, OwnLifecycle]),
            Self::Importer => Capabilities::of(&[Project, Import]),
            Self::Operator => Capabilities::of(&[Read, Live, Lifecycle, Cancel, Retry, Catalog]),
            Self::Admin => Capabilities::of(&Capability::ALL),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Name that is not a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a role; the roles are viewer, worker, importer, operator and admin")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| UnknownRole(name.to_owned()))
    }
}

/// An identified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Name of the caller, unique among the callers of a deployment. Events have it as `meta.actor` if the caller is
    /// authenticated.
    pub subject: Arc<str>,
    /// Roles, without repetition.
    pub roles: Vec<Role>,
    /// Capabilities of the caller.
    pub capabilities: Capabilities,
    /// Tenant of the caller.
    pub tenant: Option<Arc<str>>,
    /// Time at which the caller's token expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether the caller sent a valid token; false only on a server without authentication.
    pub authenticated: bool,
}

/// Start of the subjects of an OpenID provider's users. No static token can have such a subject, so a user of the provider
/// can't have that of a token.
pub const PROVIDED: &str = "oidc:";

/// Subject of every caller of a server without authentication. No token can have it.
pub const LOCAL: &str = "local";

impl Principal {
    /// Returns a caller with the capabilities of its roles.
    #[must_use]
    pub fn new(subject: &str, roles: &[Role]) -> Self {
        let mut distinct: Vec<Role> = Vec::new();
        distinct.extend(Role::ALL.into_iter().filter(|role| roles.contains(role)));
        let capabilities = distinct.iter().fold(Capabilities::NONE, |set, role| set.union(role.capabilities()));
        Self {
            subject: subject.into(),
            roles: distinct,
            capabilities,
            tenant: None,
            expires_at: None,
            authenticated: true,
        }
    }

    /// Returns the caller of a server without authentication. It has all capabilities.
    #[must_use]
    pub fn local() -> Self {
        Self { authenticated: false, ..Self::new(LOCAL, &[Role::Admin]) }
    }

    /// Returns whether the caller has one of these capabilities.
    #[must_use]
    pub fn has_any(&self, capabilities: &[Capability]) -> bool {
        capabilities.iter().any(|capability| self.capabilities.has(*capability))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(role: Role) -> Vec<&'static str> {
        role.capabilities().iter().map(Capability::name).collect()
    }

    #[test]
    fn roles_have_their_documented_capabilities() {
        assert_eq!(names(Role::Viewer), ["READ", "LIVE"]);
        assert_eq!(names(Role::Worker), ["EXECUTE", "OUTBOX", "PROJECT", "ADVANCE", "OWN_LIFECYCLE"]);
        assert_eq!(names(Role::Operator), ["READ", "LIVE", "LIFECYCLE", "CANCEL", "RETRY", "CATALOG"]);
        assert_eq!(names(Role::Admin), Capability::ALL.map(Capability::name));
    }

    #[test]
    fn several_roles_give_the_union_of_their_capabilities() {
        let both = Principal::new("runtime", &[Role::Worker, Role::Viewer, Role::Worker]);
        assert_eq!(both.roles, [Role::Viewer, Role::Worker]);
        assert_eq!(both.capabilities, Role::Viewer.capabilities().union(Role::Worker.capabilities()));
    }
}
