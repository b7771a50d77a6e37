//! Worker that answers the requests of all replays of one shard.
//!
//! It sends one request at a time to the broker, and serves the four queues in turn. Among the waiting positions, it
//! moves upwards, and starts again at the lowest when no position above is waiting. So every replay gets its turn, and
//! replays whose positions are near to each other come together. The live feed and the tailer run in other tasks and
//! never wait for it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use chrono::{DateTime, Utc};
use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::read::delivered::{Delivered, decode};
use crate::read::error::ReadError;
use crate::read::opener::Opener;
use crate::read::page_cache::Page;
use crate::read::pages::Pages;
use crate::read::source::Extent;
use crate::read::stored::{EpochStart, Found, StoredFeed};
use crate::wire::cursor::Position;
use crate::wire::streams::connects;

/// Maximum number of sequences that are read on to a waiting position instead of starting there.
const NEAR: u64 = 256;
/// Maximum number of positions whose consumers are kept for the next page.
const MAX_RUNS: usize = 8;
/// Time for which a consumer is kept; less than the time after which the broker removes it.
const RUN_KEPT: Duration = Duration::from_secs(15);
/// Maximum time of an answer. A response of the broker may be lost.
const DEADLINE: Duration = Duration::from_secs(10);

/// Worker of one shard.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    pub(super) opener: &'a Opener,
    pub(super) stored: &'a StoredFeed,
}

/// State that the worker keeps between two requests.
#[derive(Debug, Default)]
struct Progress {
    /// Sequence after the last page.
    next: u64,
    /// Consumers that have delivered a page, the latest last.
    runs: Vec<Run>,
    /// Number of the broker's connection by which the consumers and the kept pages were read.
    connects: u64,
}

/// Consumer that continues at a sequence.
#[derive(Debug)]
struct Run {
    next: u64,
    pages: Pages,
    read: Instant,
}

impl Worker<'_> {
    /// Answers requests until `stop`.
    pub(super) async fn run(&self, stop: CancellationToken) {
        let serving = async {
            let mut progress = Progress::default();
            loop {
                self.stored.wanted().await;
                while self.serve(&mut progress).await {}
            }
        };
        let _: Option<std::convert::Infallible> = stop.run_until_cancelled(serving.boxed()).await;
    }

    /// Answers the next requests of each queue. Returns true if there were any.
    async fn serve(&self, progress: &mut Progress) -> bool {
        if progress.connects != connects(&self.opener.client) {
            // The broker may have restarted with other messages, and forgets its consumers.
            *progress = Progress { connects: connects(&self.opener.client), ..Progress::default() };
            self.stored.forget();
        }
        let stream = self.stored.queues().streams.take_oldest();
        let opened = stream.is_some();
        if let Some(((), asking)) = stream {
            asking.answer(&self.in_time(self.opener.open()).await);
        }
        let epoch = self.stored.queues().epochs.take_oldest();
        let searched = epoch.is_some();
        if let Some((epoch, asking)) = epoch {
            // Each of its requests has a time limit; their number grows with the stream.
            asking.answer(&self.first_after(epoch).await);
        }
        let time = self.stored.queues().times.take_oldest();
        let timed = time.is_some();
        if let Some((time, asking)) = time {
            asking.answer(&self.in_time(self.first_since(time)).await);
        }
        let wanted = self.stored.queues().pages.next_from(progress.next);
        if let Some(wanted) = wanted {
            self.answer_pages(progress, wanted).await;
            // Readers of the last page come first, so that they find the next one.
            tokio::task::yield_now().await;
        }
        opened || searched || timed || wanted.is_some()
    }

    async fn first_after(&self, epoch: u32) -> Result<Found<u64>, ReadError> {
        let stream = self.opener.open().await?;
        let extent = stream.opened_extent();
        let Extent { first: oldest, created, .. } = extent;
        let is_valid = |start: &EpochStart| start.after == epoch && start.created == created && start.first >= oldest;
        let known = self.stored.queues().epoch_start.filter(is_valid);
        let found = match known {
            Some(start) => Some(start.first),
            None => stream.first_after(epoch, extent).await?,
        };
        self.stored.queues().epoch_start = found.map(|first| EpochStart { after: epoch, created, first });
        Ok(Found { stream, found })
    }

    async fn first_since(&self, time: DateTime<Utc>) -> Result<Found<Position>, ReadError> {
        let stream = self.opener.open().await?;
        let found = stream.first_since(time).await?;
        Ok(Found { stream, found })
    }

    /// Reads the page for a waiting sequence, and answers all requests that it contains.
    async fn answer_pages(&self, progress: &mut Progress, wanted: u64) {
        let continued = progress.next <= wanted && wanted < progress.next + NEAR;
        let from = if continued && progress.has_run() { progress.next } else { wanted };
        let page = self.in_time(self.read_page(progress, from)).await.map(Arc::new);
        let mut queues = self.stored.queues();
        match &page {
            Ok(read) if read.messages.is_empty() => queues.pages.answer(|sequence| sequence >= from, &page),
            Ok(read) => {
                progress.next = read.next;
                queues.cache.insert(Arc::clone(read), Instant::now());
                queues.pages.answer(|sequence| read.contains(sequence), &page);
            }
            Err(_) => {
                progress.runs.clear();
                queues.pages.answer(|sequence| sequence == wanted, &page);
            }
        }
    }

    async fn read_page(&self, progress: &mut Progress, from: u64) -> Result<Page, ReadError> {
        let mut pages = if let Some(pages) = progress.take_run(from) {
            pages
        } else {
            let stream = self.opener.open().await?;
            stream.pages(DeliverPolicy::ByStartSequence { start_sequence: from }).await?
        };
        let messages = pages.next().await?;
        metrics::counter!("noetl_stream_replayed_pages_total").increment(1);
        // A message without a mark gets epoch 0; it belongs to the epoch of the message before it.
        let (Opener { shard, databases, .. }, feed) = (self.opener, self.opener.identity());
        let decoded = |message: &Message| decode(databases, *shard, feed, Position::default(), message).map(Arc::new);
        let messages = messages.iter().map(decoded).collect::<Result<Vec<Arc<Delivered>>, ReadError>>()?;
        let next = messages.last().map_or(from, |last| last.position.sequence + 1);
        if !pages.is_exhausted() {
            progress.keep_run(Run { next, pages, read: Instant::now() });
        }
        Ok(Page { from, next, messages })
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, ReadError>>) -> Result<T, ReadError> {
        let late = |_| Err(ReadError::of(self.opener.shard, "the broker did not respond in time"));
        timeout(DEADLINE, answer).await.unwrap_or_else(late)
    }
}

impl Progress {
    /// Returns whether a consumer continues after the last page.
    fn has_run(&self) -> bool {
        self.runs.iter().any(|run| run.next == self.next)
    }

    /// Returns the consumer that continues at a sequence.
    fn take_run(&mut self, from: u64) -> Option<Pages> {
        self.runs.retain(|run| run.read.elapsed() < RUN_KEPT);
        let index = self.runs.iter().position(|run| run.next == from)?;
        Some(self.runs.remove(index).pages)
    }

    fn keep_run(&mut self, run: Run) {
        if self.runs.len() == MAX_RUNS {
            self.runs.remove(0);
        }
        self.runs.push(run);
    }
}
