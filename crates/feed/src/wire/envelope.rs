//! Headers of a stream message: they hold its place in the feed. The payload holds the event.

use std::str::FromStr;

use async_nats::{HeaderMap, HeaderName};

use noetl_domain::feed::{FeedId, FeedOwner};
use noetl_domain::tx_snapshot::TxSnapshot;

const FEED: &str = "Noetl-Feed";
const DISCARD: &str = "Noetl-Discard";
const PLACE: &str = "Noetl-Place";
const BATCH_ID: &str = "Noetl-Batch-Id";
const DONE: &str = "Noetl-Batch-Done";
const TARGET: &str = "Noetl-Batch-Target";
/// Maximum bytes of a batch's span in a message.
const MAX_SPAN: usize = 2048;

/// Place of a message in its shard's feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Epoch of the feed when the message was published.
    pub epoch: i32,
    /// Number of its batch.
    pub batch: i64,
    /// Random number of its batch, which copies of the database do not have.
    pub id: Option<i64>,
    /// Index in the batch, from 0.
    pub index: u64,
    /// Snapshots at which the batch starts and ends, on its first message only. They suffice to read the batch again.
    pub span: Option<(TxSnapshot, TxSnapshot)>,
    /// Database that published it.
    pub owner: FeedOwner,
    /// Earlier messages that readers must discard, on the first message of an epoch only.
    pub discard: Option<Discard>,
}

/// Range of messages whose events the database no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discard {
    /// First sequence.
    pub from: u64,
    /// Last sequence.
    pub to: u64,
}

/// Failure to read a header that only tailers set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message's header {0} can't be read")]
pub struct MalformedMark(String);

impl Mark {
    /// Returns the headers that carry the mark.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(PLACE), format!("{} {} {}", self.epoch, self.batch, self.index));
        headers.insert(HeaderName::from_static(FEED), self.owner.to_string());
        if let Some(id) = self.id {
            headers.insert(HeaderName::from_static(BATCH_ID), format!("{id:016x}"));
        }
        if let Some(Discard { from, to }) = self.discard {
            headers.insert(HeaderName::from_static(DISCARD), format!("{from} {to}"));
        }
        if let Some((done, target)) = &self.span {
            let (done, target) = (done.to_string(), target.to_string());
            // With very many open transactions the span does not fit. After a loss, the leader then goes back to an
            // earlier batch.
            if done.len() + target.len() <= MAX_SPAN {
                headers.insert(HeaderName::from_static(DONE), done);
                headers.insert(HeaderName::from_static(TARGET), target);
            }
        }
        headers
    }

    /// Returns the mark of a message. `None` if no tailer published it, or if it is malformed, which is logged.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers).unwrap_or_else(|error| {
            tracing::error!(%error, "a message of the event stream is broken");
            None
        })
    }

    /// Returns the mark of a message as [`Self::read`] does, but `None` if it belongs to another feed. If `feed` is
    /// unknown, messages of all feeds are accepted.
    #[must_use]
    pub fn read_of(headers: &HeaderMap, feed: Option<FeedId>) -> Option<Self> {
        Self::read(headers).filter(|mark| feed.is_none_or(|feed| mark.is_of(feed)))
    }

    /// Returns true if the message belongs to this feed.
    #[must_use]
    pub fn is_of(&self, feed: FeedId) -> bool {
        self.owner.feed == feed
    }

    /// Parses the mark of a message. `Ok(None)` if no tailer published it.
    pub fn parse(headers: &HeaderMap) -> Result<Option<Self>, MalformedMark> {
        let (Some(place), Some(owner)) = (headers.get(PLACE), headers.get(FEED)) else {
            return Ok(None);
        };
        let mut parts = place.as_str().split(' ');
        let [Some(epoch), Some(batch), Some(index), None] = std::array::from_fn(|_| parts.next()) else {
            return Err(MalformedMark(PLACE.to_owned()));
        };
        let span = match (headers.get(DONE), headers.get(TARGET)) {
            (Some(done), Some(target)) => Some((number(DONE, done.as_str())?, number(TARGET, target.as_str())?)),
            _ => None,
        };
        Ok(Some(Self {
            epoch: number(PLACE, epoch)?,
            batch: number(PLACE, batch)?,
            id: headers.get(BATCH_ID).map(|id| batch_id(id.as_str())).transpose()?,
            index: number(PLACE, index)?,
            span,
            owner: number(FEED, owner.as_str())?,
            discard: headers.get(DISCARD).map(|range| discard(range.as_str())).transpose()?,
        }))
    }
}

fn discard(range: &str) -> Result<Discard, MalformedMark> {
    let (from, to) = range.split_once(' ').ok_or_else(|| MalformedMark(DISCARD.to_owned()))?;
    Ok(Discard { from: number(DISCARD, from)?, to: number(DISCARD, to)? })
}

fn batch_id(text: &str) -> Result<i64, MalformedMark> {
    let id = u64::from_str_radix(text, 16).map_err(|_| MalformedMark(BATCH_ID.to_owned()))?;
    Ok(id.cast_signed())
}

fn number<T: FromStr>(header: &str, text: &str) -> Result<T, MalformedMark> {
    text.parse().map_err(|_| MalformedMark(header.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_round_trips_through_headers() {
        let span = Some(("5:9:7".parse().unwrap(), "9:12:".parse().unwrap()));
        let owner = FeedOwner { feed: FeedId::new(1), system_identifier: 7_300_000_000_000_000_000, timeline: 3 };
        let discard = Some(Discard { from: 4, to: 9 });
        let mark = Mark { epoch: 2, batch: 7, id: Some(-5), index: 0, span, owner, discard };
        assert_eq!(Mark::parse(&mark.headers()), Ok(Some(mark.clone())));
        assert_eq!(Mark::parse(&HeaderMap::new()), Ok(None));
        assert_eq!(Mark::read_of(&mark.headers(), Some(FeedId::new(2))), None);
        for feed in [Some(FeedId::new(1)), None] {
            assert_eq!(Mark::read_of(&mark.headers(), feed), Some(mark.clone()));
        }
        assert_eq!(mark.headers().get("Noetl-Place").map(|place| place.as_str().to_owned()), Some("2 7 0".to_owned()));
        let malformed =
            [("Noetl-Feed", "1 2"), ("Noetl-Discard", "4"), ("Noetl-Discard", "4 x"), ("Noetl-Batch-Id", "x")];
        for (header, malformed) in malformed {
            let mut headers = mark.headers();
            headers.insert(header, malformed);
            assert!(Mark::parse(&headers).is_err(), "{header}: {malformed}");
        }
    }

    #[test]
    fn a_message_without_place_or_feed_is_foreign_and_a_malformed_place_is_an_error() {
        let with = |headers: &[(&str, &str)]| {
            let mut map = HeaderMap::new();
            for &(name, value) in headers {
                map.insert(name, value);
            }
            Mark::parse(&map)
        };
        let feed = ("Noetl-Feed", "1 7 3");
        for headers in [&[("Noetl-Place", "2 7 0")], &[feed]] {
            assert_eq!(with(headers), Ok(None), "{headers:?}");
        }
        for place in ["1 2", "1 2 3 4", "1 2 x", ""] {
            assert!(with(&[("Noetl-Place", place), feed]).is_err(), "{place}");
        }
    }
}
