//! Stored messages, fetched page by page. The broker limits the size of a page in bytes; a consumer that pushes
//! messages would fill the memory as fast as the broker sends.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{Consumer, pull};
use futures::StreamExt;
use tokio::time::timeout;

use crate::read::error::ReadError;
use crate::wire::streams::connects;
use noetl_domain::shard::ShardIndex;

/// Maximum number of messages of a page.
const PAGE_MESSAGES: usize = 256;
/// Maximum bytes of a page, unless one message alone is larger.
const PAGE_BYTES: usize = 256 << 10;
/// Interval at which the connection to the broker is checked while a page is awaited.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Number of checks of the connection after which a response counts as lost.
const MAX_CONNECTION_CHECKS: usize = 10;

/// Remaining messages of a stream from a position on.
#[derive(Debug)]
pub(super) struct Pages {
    shard: ShardIndex,
    client: async_nats::Client,
    connects: u64,
    consumer: Consumer<pull::Config>,
    /// Number of messages that the consumer has delivered.
    given: u64,
    exhausted: bool,
}

impl Pages {
    pub(super) fn new(shard: ShardIndex, client: async_nats::Client, consumer: Consumer<pull::Config>) -> Self {
        let exhausted = consumer.cached_info().num_pending == 0;
        Self { shard, connects: connects(&client), client, consumer, given: 0, exhausted }
    }

    /// Returns true if the stream held no more messages after the last one.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Returns the next messages in order; empty if the stream holds no more.
    pub(super) async fn next(&mut self) -> Result<Vec<Message>, ReadError> {
        if self.exhausted {
            return Ok(Vec::new());
        }
        let page = self.fetch(PAGE_MESSAGES, PAGE_BYTES).await?;
        // The first message may be larger than a page. It is then fetched alone, without a limit.
        if page.is_empty() { Ok(Vec::from_iter(self.one().await?)) } else { Ok(page) }
    }

    /// Returns the next message; `None` if the stream holds no more.
    pub(super) async fn one(&mut self) -> Result<Option<Message>, ReadError> {
        if self.exhausted {
            return Ok(None);
        }
        let message = self.fetch(1, 0).await?.pop();
        if message.is_none() {
            self.check_nothing_is_left().await?;
        }
        Ok(message)
    }

    /// Fails unless the consumer has no more messages. If it has none, the stream removed the remaining ones. Otherwise
    /// the broker forgot the consumer, for example in a restart.
    async fn check_nothing_is_left(&self) -> Result<(), ReadError> {
        let consumer = self.consumer.get_info().await.map_err(|error| self.failed(error))?;
        if consumer.num_pending == 0 && consumer.delivered.consumer_sequence == self.given {
            return Ok(());
        }
        Err(self.failed("the broker did not deliver the remaining messages"))
    }

    async fn fetch(&mut self, messages: usize, bytes: usize) -> Result<Vec<Message>, ReadError> {
        let batch = self.consumer.fetch().max_messages(messages).max_bytes(bytes).messages().await;
        let mut batch = batch.map_err(|error| self.failed(error))?;
        let (mut page, mut checks) = (Vec::new(), 0);
        while !self.exhausted {
            let Ok(next) = timeout(CONNECTION_CHECK_INTERVAL, batch.next()).await else {
                checks += 1;
                if checks == MAX_CONNECTION_CHECKS || connects(&self.client) != self.connects {
                    return Err(self.failed("the connection was lost"));
                }
                continue;
            };
            // An error means that the page is full.
            let Some(Ok(message)) = next else { break };
            let info = message.info().map_err(|error| self.failed(error))?;
            self.given += 1;
            self.exhausted = info.pending == 0;
            if info.consumer_sequence != self.given {
                return Err(self.failed("a message was lost in transit"));
            }
            page.push(message);
        }
        Ok(page)
    }

    fn failed(&self, error: impl std::fmt::Display) -> ReadError {
        ReadError::of(self.shard, error)
    }
}
