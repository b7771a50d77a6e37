//! What a message of the stream says: the event as its payload, its place in the feed as its headers.

use async_nats::HeaderMap;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::event::Event;
use crate::domain::tx_snapshot::TxSnapshot;

const EPOCH: &str = "Noetl-Feed-Epoch";
const BATCH: &str = "Noetl-Batch";
const INDEX: &str = "Noetl-Batch-Index";
const DONE: &str = "Noetl-Batch-Done";
const TARGET: &str = "Noetl-Batch-Target";
/// Room that headers and protocol may take beside a payload.
const HEADER_ROOM: usize = 4096;
/// Bytes that a batch's span may take of it.
const MAX_SPAN: usize = 2048;

/// A message's place in its shard's feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The feed's epoch when it was published.
    pub epoch: i32,
    /// The batch that it belongs to.
    pub batch: i64,
    /// Its place in the batch, from 0.
    pub index: u64,
    /// On a batch's first message, where the batch begins and ends: enough to read it again.
    pub span: Option<(TxSnapshot, TxSnapshot)>,
}

impl Mark {
    /// The headers that say so.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(EPOCH, self.epoch.to_string());
        headers.insert(BATCH, self.batch.to_string());
        headers.insert(INDEX, self.index.to_string());
        if let Some((done, target)) = &self.span {
            let (done, target) = (done.to_string(), target.to_string());
            // With very many open transactions they don't fit; going back after a loss then starts at the beginning.
            if done.len() + target.len() <= MAX_SPAN {
                headers.insert(DONE, done);
                headers.insert(TARGET, target);
            }
        }
        headers
    }

    /// The mark of a message. `None`: no tailer published it.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).map(async_nats::HeaderValue::as_str);
        let span = text(DONE).and_then(|done| done.parse().ok()).zip(text(TARGET).and_then(|end| end.parse().ok()));
        Some(Self {
            epoch: text(EPOCH)?.parse().ok()?,
            batch: text(BATCH)?.parse().ok()?,
            index: text(INDEX)?.parse().ok()?,
            span,
        })
    }
}

/// The payload: the whole event, or, where that is more than the broker takes, all but its large fields.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// Whether the large fields must be fetched from the shard.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub payload_omitted: bool,
}

/// The payload of an event within the broker's `max_payload` bytes.
pub fn encode(event: Event, max_payload: usize) -> serde_json::Result<Bytes> {
    let mut envelope = Envelope { event, payload_omitted: false };
    let whole = serde_json::to_vec(&envelope)?;
    if whole.len() + HEADER_ROOM <= max_payload {
        return Ok(whole.into());
    }
    metrics::counter!("noetl_stream_oversize_events_total").increment(1);
    let event = &mut envelope.event;
    (event.context, event.result, event.stack_trace) = (None, None, None);
    envelope.payload_omitted = true;
    let reduced = serde_json::to_vec(&envelope)?;
    if reduced.len() + HEADER_ROOM <= max_payload {
        return Ok(reduced.into());
    }
    (envelope.event.meta, envelope.event.error) = (None, None);
    Ok(serde_json::to_vec(&envelope)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_the_headers() {
        let span = Some(("5:9:7".parse().unwrap(), "9:12:".parse().unwrap()));
        let mark = Mark { epoch: 2, batch: 7, index: 0, span };
        assert_eq!(Mark::read(&mark.headers()), Some(mark));
        assert_eq!(Mark::read(&HeaderMap::new()), None);
    }
}
