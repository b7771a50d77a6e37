//! Opens the stream of a shard, and knows the identity of its feed, so that messages of other feeds are skipped.

use std::sync::OnceLock;

use crate::read::error::ReadError;
use crate::read::source::ShardStream;
use crate::wire::names::StreamNames;
use noetl_domain::feed::FeedId;
use noetl_domain::shard::ShardIndex;
use noetl_storage::pools::Databases;
use noetl_storage::tail;

/// Access to the stream of one shard.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) shard: ShardIndex,
    pub(super) client: async_nats::Client,
    names: StreamNames,
    pub(super) databases: Databases,
    identity: OnceLock<FeedId>,
}

impl Opener {
    pub(super) fn new(shard: ShardIndex, client: async_nats::Client, names: StreamNames, databases: Databases) -> Self {
        Self { shard, client, names, databases, identity: OnceLock::new() }
    }

    /// Opens the stream, which must exist.
    pub(super) async fn open(&self) -> Result<ShardStream, ReadError> {
        ShardStream::open(self.client.clone(), &self.names, self.shard, self.identity()).await
    }

    /// Returns the identity of the feed. While it is unknown (`None`), messages of all feeds are delivered.
    pub(super) fn identity(&self) -> Option<FeedId> {
        self.identity.get().copied()
    }

    /// Reads the identity of the feed from the shard, unless it is known.
    pub(super) async fn identify(&self) {
        let database = self.databases.shards().get(usize::from(self.shard));
        let (None, Some(database)) = (self.identity.get(), database) else { return };
        match tail::head(database).await {
            Ok(Some(head)) => {
                self.identity.get_or_init(|| head.feed);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(shard = self.shard, %error, "the identity of the feed can't be read now"),
        }
    }
}
