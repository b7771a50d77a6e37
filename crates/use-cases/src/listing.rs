//! Pages of lists over all shards.

use noetl_domain::page::Page;
use noetl_domain::shard::ShardIndex;

/// A page, and the shards whose rows may be missing from it.
#[derive(Debug)]
pub struct Listing<T> {
    /// Rows of the reachable shards.
    pub page: Page<T>,
    /// Shards that could not be reached.
    pub unavailable: Vec<ShardIndex>,
}
