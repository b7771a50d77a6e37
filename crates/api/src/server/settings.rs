//! Settings of a replica, as the API shows them.

use async_graphql::SimpleObject;

/// Setting of a replica.
#[derive(Debug, Clone, SimpleObject)]
pub struct ServerSetting {
    /// Name in the environment, such as `NOETL_POOL_SIZE`.
    pub name: String,
    /// Value in use.
    pub value: String,
    /// Whether it is the default.
    pub is_default: bool,
}
