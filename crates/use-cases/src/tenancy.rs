//! Tenants that requests name.

use super::error::{Rejection, RejectionCode};
use noetl_domain::tenant::{NamedTenancy, Scope, Tenancy, TenancyError, is_name};

/// Returns the tenant and the organization of new data.
pub fn resolve(named: &NamedTenancy, parent: Option<&Tenancy>, scope: &Scope) -> Result<Tenancy, Rejection> {
    named.resolve(parent, scope).map_err(|error| match error {
        TenancyError::Foreign => Rejection::new(RejectionCode::ForeignTenant, "tenantId", error.to_string()),
        TenancyError::NotOfParent => Rejection::invalid("tenantId", error.to_string()),
    })
}

/// Checks the names of a tenant and an organization.
pub fn check(named: &NamedTenancy) -> Result<(), Rejection> {
    for (field, name) in [("tenantId", &named.tenant_id), ("organizationId", &named.organization_id)] {
        if name.as_ref().is_some_and(|name| !is_name(name)) {
            let message = format!("{field} has 1 to 256 bytes and no control characters");
            return Err(Rejection::invalid(field, message));
        }
    }
    Ok(())
}
