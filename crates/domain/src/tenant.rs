//! Tenants: who owns data, and whose data a caller may read and write.
//!
//! Each execution, source subscription, event, snapshot and outbox row belongs to one tenant, and to one organization
//! of it. The data of one tenant are invisible to the callers of another one. A caller without a tenant is not
//! restricted.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::actor::Actor;

/// Tenant and organization of data that name none.
pub const DEFAULT: &str = "default";
/// Maximum number of bytes of the name of a tenant or an organization.
const MAX_NAME_BYTES: usize = 256;

/// Tenant and organization that own data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Tenancy {
    /// Tenant.
    pub tenant_id: String,
    /// Organization within the tenant.
    pub organization_id: String,
}

impl Default for Tenancy {
    fn default() -> Self {
        Self::new(DEFAULT, DEFAULT)
    }
}

impl Tenancy {
    /// Returns the tenancy with these names.
    #[must_use]
    pub fn new(tenant_id: impl Into<String>, organization_id: impl Into<String>) -> Self {
        Self { tenant_id: tenant_id.into(), organization_id: organization_id.into() }
    }
}

/// Data that a caller may read and write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The data of all tenants. Background tasks and callers without a tenant have this scope.
    Unrestricted,
    /// The data of this tenant.
    Tenant(Arc<str>),
}

impl Scope {
    /// Returns the only tenant of the scope; `None`: the scope is not restricted. Statements compare the tenant of each
    /// row with it.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::Unrestricted => None,
            Self::Tenant(tenant) => Some(tenant),
        }
    }

    /// Returns whether the scope has the data of a tenant.
    #[must_use]
    pub fn admits(&self, tenant: &str) -> bool {
        self.tenant().is_none_or(|own| own == tenant)
    }
}

/// Caller of a use case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The caller as events record it; `None`: it is not identified.
    pub actor: Option<Actor>,
    /// Data that the caller may read and write.
    pub scope: Scope,
    /// Whether the caller may bring events of executions that another program started.
    pub imports: bool,
}

/// Tenant and organization that a request names for the data that it creates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedTenancy {
    /// Tenant; `None`: see [`NamedTenancy::resolve`].
    pub tenant_id: Option<String>,
    /// Organization; `None`: see [`NamedTenancy::resolve`].
    pub organization_id: Option<String>,
}

/// Reasons for which a caller can't create data for the tenant that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TenancyError {
    /// The caller is restricted to another tenant.
    #[error("this caller may only use the data of its own tenant")]
    Foreign,
    /// The parent belongs to another tenant.
    #[error("an execution belongs to the tenant of its parent, which is another one")]
    NotOfParent,
}

impl NamedTenancy {
    /// Returns the tenancy of new data. The tenant is that of the parent, else the named one, else the caller's, else
    /// `default`. The organization is the named one, else that of the parent, else `default`.
    ///
    /// # Errors
    /// The named tenant is not in the caller's scope, or it is not that of the parent.
    pub fn resolve(&self, parent: Option<&Tenancy>, scope: &Scope) -> Result<Tenancy, TenancyError> {
        let named = self.tenant_id.as_deref();
        if named.is_some_and(|named| !scope.admits(named)) {
            return Err(TenancyError::Foreign);
        }
        if let (Some(named), Some(parent)) = (named, parent)
            && named != parent.tenant_id
        {
            return Err(TenancyError::NotOfParent);
        }
        let tenant = parent.map(|parent| parent.tenant_id.as_str()).or(named).or(scope.tenant());
        let organization = self.organization_id.as_deref().or(parent.map(|parent| parent.organization_id.as_str()));
        Ok(Tenancy::new(tenant.unwrap_or(DEFAULT), organization.unwrap_or(DEFAULT)))
    }
}

/// Returns whether a text is a name of a tenant or an organization: 1 to 256 bytes without control characters.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tenant: Option<&str>, organization: Option<&str>) -> NamedTenancy {
        NamedTenancy { tenant_id: tenant.map(str::to_owned), organization_id: organization.map(str::to_owned) }
    }

    #[test]
    fn new_data_belong_to_the_parents_tenant_or_the_named_one_or_the_callers() {
        let (open, acme) = (Scope::Unrestricted, Scope::Tenant("acme".into()));
        let parent = Tenancy::new("acme", "west");
        for (given, parent, scope, expected) in [
            (named(None, None), None, &open, Tenancy::default()),
            (named(None, None), None, &acme, Tenancy::new("acme", DEFAULT)),
            (named(Some("globex"), Some("east")), None, &open, Tenancy::new("globex", "east")),
            (named(Some("acme"), None), None, &acme, Tenancy::new("acme", DEFAULT)),
            (named(None, None), Some(&parent), &open, parent.clone()),
            (named(None, Some("east")), Some(&parent), &acme, Tenancy::new("acme", "east")),
            (named(Some("acme"), None), Some(&parent), &open, parent.clone()),
        ] {
            assert_eq!(given.resolve(parent, scope), Ok(expected), "{given:?} {parent:?} {scope:?}");
        }
    }

    #[test]
    fn a_foreign_tenant_is_refused() {
        let (open, acme) = (Scope::Unrestricted, Scope::Tenant("acme".into()));
        let parent = Tenancy::new("acme", DEFAULT);
        let globex = named(Some("globex"), None);
        assert_eq!(globex.resolve(None, &acme), Err(TenancyError::Foreign));
        assert_eq!(globex.resolve(Some(&parent), &acme), Err(TenancyError::Foreign));
        assert_eq!(globex.resolve(Some(&parent), &open), Err(TenancyError::NotOfParent));
    }

    #[test]
    fn a_scope_admits_only_its_tenant() {
        let acme = Scope::Tenant("acme".into());
        assert!(acme.admits("acme") && !acme.admits("globex") && !acme.admits(DEFAULT) && !acme.admits(""));
        assert!(Scope::Unrestricted.admits("globex"));
        assert_eq!((acme.tenant(), Scope::Unrestricted.tenant()), (Some("acme"), None));
    }

    #[test]
    fn names_have_1_to_256_bytes_without_control_characters() {
        assert!(is_name("acme") && is_name(&"x".repeat(256)) && is_name("Größe 1"));
        for name in ["", &"x".repeat(257), "a\nb", "a\0"] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
