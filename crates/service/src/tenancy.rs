//! Tenants of new data.

use noetl_domain::tenant::{NamedTenancy, Scope, Tenancy, TenancyError};
use noetl_use_cases::error::{Rejection, RejectionCode};

/// Returns the tenant and the organization of new data.
pub(crate) fn resolve(named: &NamedTenancy, parent: Option<&Tenancy>, scope: &Scope) -> Result<Tenancy, Rejection> {
    named.resolve(parent, scope).map_err(|error| match error {
        TenancyError::Foreign => Rejection::new(RejectionCode::ForeignTenant, "tenantId", error.to_string()),
        TenancyError::NotOfParent => Rejection::invalid("tenantId", error.to_string()),
    })
}
