//! Finds notifications that their stream has lost before a worker has read them, and delivers them again: the broker lost
//! its data, or an operator deleted messages, or they expired.
//!
//! Only executions without an event of a worker are looked for, and only in a stream that keeps messages until a limit:
//! another one removes a message when a worker has acknowledged it.

use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::GetStreamByNameErrorKind;
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind, RetentionPolicy, Stream};
use chrono::{DateTime, TimeDelta, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use noetl_domain::outbox::RELAY;
use noetl_domain::shard::ShardIndex;
use noetl_feed::wire::names::StreamNames;
use noetl_feed::wire::streams;
use noetl_runtime::clock;
use noetl_runtime::supervisor::TaskError;
use noetl_service::outbox::Outbox;
use noetl_storage::outbox::Untouched;

/// Interval of the checks of the stream.
const PERIOD: Duration = Duration::from_secs(5);
/// Shortest time between two searches in a stream that continues.
const BETWEEN_SEARCHES: TimeDelta = TimeDelta::seconds(30);
/// Time for which a changed stream is searched again. It is longer than a lease, so that it includes the rows that were
/// acknowledged by the stream of before and settled late.
const SEARCH_AGAIN: TimeDelta = TimeDelta::seconds(60);
/// Largest difference between the clocks of the broker and of the database.
const CLOCK_DIFFERENCE: TimeDelta = TimeDelta::minutes(5);
/// Number of messages that are looked for at the same time.
const AT_ONCE: usize = 64;

/// Search for the lost notifications of one shard.
#[derive(Debug)]
pub struct LostNotifications {
    shard: ShardIndex,
    outbox: Outbox,
    client: Client,
    context: Context,
    names: StreamNames,
}

/// State of the stream at the last search.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Nanoseconds since 1970.
    created: i128,
    first_sequence: u64,
    last_sequence: u64,
    /// Time of the search.
    at: DateTime<Utc>,
    /// Time until which all notifications are looked for.
    search_until: DateTime<Utc>,
}

impl LostNotifications {
    /// Creates the search on a shard.
    #[must_use]
    pub fn new(shard: ShardIndex, outbox: Outbox, client: Client, names: StreamNames) -> Self {
        let context = streams::context(client.clone(), &names);
        Self { shard, outbox, client, context, names }
    }

    /// Searches until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut seen = None;
        while !stop.is_cancelled() {
            if self.client.connection_state() == State::Connected
                && let Err(error) = self.check(&mut seen).await
            {
                tracing::debug!(shard = self.shard, %error, "lost notifications can't be looked for now");
            }
            let _ = timeout(PERIOD, stop.cancelled()).await;
        }
    }

    /// Searches if messages of the stream may be gone.
    async fn check(&self, seen: &mut Option<Seen>) -> Result<(), TaskError> {
        let name = match self.context.stream_by_subject(&self.names.notification_subjects()).await {
            Ok(name) => name,
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let stream = self.context.get_stream(name).await?;
        let info = stream.get_info().await?;
        if info.config.retention != RetentionPolicy::Limits {
            return Ok(());
        }
        let now = clock::now();
        let mut found = Seen::of(&info, now);
        if let Some(before) = seen.as_mut().filter(|before| before.is_continued_by(&found)) {
            before.last_sequence = found.last_sequence;
            found.search_until = before.search_until;
            let may_lack = found.search_until >= now || found.first_sequence != before.first_sequence;
            if !may_lack || now - before.at < BETWEEN_SEARCHES {
                return Ok(());
            }
        }
        // After the search of the whole outbox, only messages before the first one can go.
        let until =
            if found.search_until < now { first_time(&info) + CLOCK_DIFFERENCE } else { now + CLOCK_DIFFERENCE };
        self.search(&stream, until).await?;
        *seen = Some(found);
        Ok(())
    }

    /// Delivers the notifications again that were delivered up to a time and that the stream lacks.
    async fn search(&self, stream: &Stream, until: DateTime<Utc>) -> Result<(), TaskError> {
        let mut after = None;
        loop {
            let page = self.outbox.untouched(self.shard, after, RELAY, until).await?;
            let searched = stream::iter(page.rows).map(|row| self.lost(stream, row)).buffer_unordered(AT_ONCE);
            let lost: Vec<Untouched> = searched.try_filter_map(async |lost| Ok(lost)).try_collect().await?;
            if !lost.is_empty() {
                self.outbox.deliver_again(self.shard, &lost).await?;
            }
            if page.last.is_none() {
                return Ok(());
            }
            after = page.last;
        }
    }

    /// Returns the row if the stream lacks its message. The subject of a notification is that of one execution.
    async fn lost(&self, stream: &Stream, row: Untouched) -> Result<Option<Untouched>, TaskError> {
        let Some(subject) = self.names.notification(&row.subject) else { return Ok(None) };
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(_) => Ok(None),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(Some(row)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Seen {
    /// Returns what is seen of a stream for the first time.
    fn of(info: &Info, now: DateTime<Utc>) -> Self {
        Self {
            created: info.created.unix_timestamp_nanos(),
            first_sequence: info.state.first_sequence,
            last_sequence: info.state.last_sequence,
            at: now,
            search_until: now + SEARCH_AGAIN,
        }
    }

    /// Returns whether a later check saw the same stream, with all its messages or without its first ones.
    const fn is_continued_by(&self, later: &Self) -> bool {
        self.created == later.created && self.last_sequence <= later.last_sequence
    }
}

/// Returns the time of the first message; the current time if the stream is empty.
fn first_time(info: &Info) -> DateTime<Utc> {
    let first = info.state.first_timestamp.unix_timestamp();
    DateTime::from_timestamp(first, 0).filter(|_| info.state.messages > 0).unwrap_or_else(clock::now)
}
