//! Messages of a shard's stream, read without the server.

use noetl_domain::event::EventKey;
use noetl_feed::wire::envelope::Mark;

use super::feed::{Key, assert_exactly, read_messages};
use super::{Deployment, eventually};

/// A message of a stream.
pub struct Message {
    /// `None` if the message was not published by a tailer.
    pub mark: Option<Mark>,
    /// `None` if the message contains no event.
    pub key: Option<Key>,
    /// Body of the message.
    pub payload: bytes::Bytes,
}

impl Deployment {
    /// Returns the messages of shard 0's stream, in stream order.
    pub async fn messages(&self) -> Vec<Message> {
        let messages = read_messages(&self.stream(0).await.1).await;
        let read = messages.iter().map(|message| {
            let key = plain_json::parse::<EventKey>(&message.payload).ok();
            Message {
                mark: message.headers.as_ref().and_then(Mark::read),
                key: key.map(|key| (key.execution_id, key.event_id)),
                payload: message.payload.clone(),
            }
        });
        read.collect()
    }

    /// Returns the events that a tailer published to shard 0's stream, in stream order.
    pub async fn published(&self) -> Vec<Key> {
        self.messages()
            .await
            .iter()
            .filter(|message| message.mark.is_some())
            .filter_map(|message| message.key)
            .collect()
    }

    /// Waits until at least `count` events of shard 0 are published.
    pub async fn until_published(&self, count: usize) {
        let (_, stream) = self.stream(0).await;
        eventually("everything is published", async || {
            // The count is quick, and includes messages of others. The events are read once there are enough messages.
            let stored = stream.get_info().await.ok()?.state.messages;
            (stored >= count as u64 && self.published().await.len() >= count).then_some(())
        })
        .await;
    }

    /// Waits until all committed events of shard 0 are published, and panics unless each is in the stream once.
    pub async fn assert_published_once(&self) {
        let committed = self.committed().await;
        self.until_published(committed.len()).await;
        assert_exactly(&self.published().await, &committed);
    }

    /// Waits until the stream of shard 0 has at least `count` messages, those of other programs included. Does not read
    /// them, as [`Self::until_published`] does.
    pub async fn until_stored(&self, count: usize) {
        let (_, stream) = self.stream(0).await;
        eventually("the messages are stored", async || {
            (stream.get_info().await.ok()?.state.messages >= count as u64).then_some(())
        })
        .await;
    }

    /// Waits until the tailer has finished its batch.
    pub async fn until_batch_finished(&self) {
        eventually("the batch is finished", async || {
            let open = self.sum_over_shards("SELECT count(target) FROM noetl.tail_cursor").await;
            (open == 0).then_some(())
        })
        .await;
    }

    /// Returns the last error that the tail cursor of shard 0 recorded.
    pub async fn last_error(&self) -> Option<String> {
        let error = "SELECT last_error FROM noetl.tail_cursor";
        let recorded =
            sqlx::query_scalar::<_, Option<String>>(error).fetch_optional(&mut *self.shard_session(0).await).await;
        recorded.unwrap().flatten()
    }

    /// Returns the epoch of shard 0's feed.
    pub async fn epoch(&self) -> i32 {
        let epoch = "SELECT feed_epoch FROM noetl.tail_cursor";
        sqlx::query_scalar(epoch).fetch_one(&mut *self.shard_session(0).await).await.unwrap()
    }
}
