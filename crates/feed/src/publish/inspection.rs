//! Comparison of a shard's stream with its database, without the lease and without a change. It reports what a leader
//! will find when it recovers ([`super::recovery`]).

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::{Info, Stream};
use futures::{StreamExt, TryStreamExt};
use tokio::time::sleep;

use super::error::{PublishError, broker};
use super::publisher::{READS_IN_FLIGHT, Slot, Stored, created};
use super::recovery::{COMPARED_AT_ONCE, MAX_COMPARED};
use crate::wire::names::StreamNames;
use crate::wire::streams;
use noetl_domain::shard::ShardIndex;
use noetl_storage::check::feed::{self, FeedPosition};
use noetl_storage::pools::Database;
use noetl_storage::tail::History;
use noetl_storage::tail_overlap::{self, PublishedEvent};

/// Number of messages at the end of the stream that are searched for foreign ones.
const SEARCHED: u64 = 1_000;
/// Number of messages of a kind that are described.
const EXAMPLES: usize = 5;
/// Pause before a second check of a stream that lacks messages.
const SECOND_CHECK_AFTER: Duration = Duration::from_secs(2);

/// Differences between a stream and its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Name of the stream.
    pub stream: String,
    /// Relation of the database to the one in which the cursor was written.
    pub history: History,
    /// Description of the messages that the stream lacks.
    pub behind: Option<String>,
    /// Published events that the database lacks.
    pub missing: Messages,
    /// Messages at the end of the stream that this feed did not publish.
    pub foreign: Messages,
}

/// Messages of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// Their number.
    pub count: u64,
    /// Descriptions of the first ones.
    pub examples: Vec<String>,
}

impl Messages {
    fn add(&mut self, description: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(description());
        }
    }
}

/// Compares a shard's stream with its database. `Ok(None)`: the feed never began.
pub async fn inspect(
    client: Client,
    shard: ShardIndex,
    names: &StreamNames,
    database: &Database,
) -> Result<Option<Inspection>, PublishError> {
    let name = names.stream(shard);
    let Some(position) = feed::position(database).await? else {
        return Ok(None);
    };
    let stream = open(client, names, &name).await?;
    let mut inspection = Inspection {
        behind: None,
        history: position.history,
        missing: Messages::default(),
        foreign: Messages::default(),
        stream: name,
    };
    let Some(stream) = stream else {
        inspection.behind = (position.last_sequence > 0).then(|| "the stream does not exist".to_owned());
        return Ok(Some(inspection));
    };
    inspection.behind = lacks(&stream, position).await?;
    if inspection.behind.is_some() {
        // The first check may have met a server of the stream that was not up to date.
        sleep(SECOND_CHECK_AFTER).await;
        if let Some(position) = feed::position(database).await? {
            inspection.behind = lacks(&stream, position).await?;
        }
    }
    let info = stream.get_info().await.map_err(broker)?;
    compare(&stream, &info, position, database, &mut inspection).await?;
    Ok(Some(inspection))
}

/// Opens the stream. `Ok(None)`: it does not exist.
async fn open(client: Client, names: &StreamNames, name: &str) -> Result<Option<Stream>, PublishError> {
    match streams::context(client, names).get_stream(name).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if streams::is_missing(&error) => Ok(None),
        Err(error) => Err(broker(error)),
    }
}

/// Returns a description of the messages that the stream lacks.
async fn lacks(stream: &Stream, position: FeedPosition) -> Result<Option<String>, PublishError> {
    let (info, last) = (stream.get_info().await.map_err(broker)?, position.last_sequence.cast_unsigned());
    if info.state.last_sequence < last {
        return Ok(Some(format!("it ends at {}, the cursor at {last}", info.state.last_sequence)));
    }
    let same = position.stream_created.is_none_or(|known| known == created(&info));
    if same || last < info.state.first_sequence {
        return Ok(None);
    }
    let holds_last = matches!(Slot::read(stream, last, position.feed).await?, Slot::Ours(_));
    Ok((!holds_last).then(|| format!("it was created again and does not have message {last} of the feed")))
}

/// Looks up the events of the messages after the cursor, and counts foreign messages at the end of the stream.
async fn compare(
    stream: &Stream,
    info: &Info,
    position: FeedPosition,
    database: &Database,
    inspection: &mut Inspection,
) -> Result<(), PublishError> {
    let (end, cursor) = (info.state.last_sequence, position.last_sequence.cast_unsigned());
    let first = (cursor + 1).min(end.saturating_sub(SEARCHED) + 1).max(end.saturating_sub(MAX_COMPARED) + 1);
    let first = first.max(info.state.first_sequence);
    // A dump has the transaction ids of the old server.
    let same_ids = position.history != History::Other;
    let slots = futures::stream::iter(first..=end)
        .map(async |sequence| Slot::read(stream, sequence, position.feed).await.map(|slot| (sequence, slot)))
        .buffered(READS_IN_FLIGHT);
    let mut chunks = std::pin::pin!(slots.try_chunks(COMPARED_AT_ONCE));
    while let Some(chunk) = chunks.try_next().await.map_err(|failed| failed.1)? {
        let mut published: Vec<Stored> = Vec::new();
        for (sequence, slot) in chunk {
            match slot {
                Slot::Ours(stored) if sequence > cursor => published.push(*stored),
                Slot::Foreign(_) => inspection.foreign.add(|| format!("message {sequence}")),
                Slot::Ours(_) | Slot::Empty => {}
            }
        }
        let named = |stored: &Stored| PublishedEvent { key: stored.key, tx_id: stored.tx_id.filter(|_| same_ids) };
        let events: Vec<PublishedEvent> = published.iter().map(named).collect();
        for missing in tail_overlap::missing(database, &events).await? {
            if let Some(Stored { sequence, key, .. }) = published.get(missing) {
                let description =
                    || format!("message {sequence}: event {} of execution {}", key.event_id, key.execution_id);
                inspection.missing.add(description);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_messages_are_described_and_all_are_counted() {
        let mut messages = Messages::default();
        (1..=7).for_each(|message| messages.add(|| format!("message {message}")));
        assert_eq!((messages.count, messages.examples.len()), (7, EXAMPLES));
        assert_eq!(messages.examples.last().map(String::as_str), Some("message 5"));
    }
}
