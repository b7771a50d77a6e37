//! Callers: their identity, their tenants, and the limits of what they can cause.

mod budgets;
mod callers;
mod connections;
mod documents;
mod hostile;
mod live_memory;
mod oidc;
mod pool_shares;
mod tenants;
