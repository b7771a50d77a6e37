//! Tenants that requests name.

use crate::error::Rejection;
use noetl_domain::tenant::{NamedTenancy, is_name};

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
