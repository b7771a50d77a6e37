//! Opaque cursors: a version, the kind of list, the position and a checksum, in base64url. A cursor of another list or
//! version is refused, and so is one that was truncated or changed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use xxhash_rust::xxh64::xxh64;

/// Version of the form of cursors.
const VERSION: u8 = 1;
/// Number of bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;
/// Maximum size of a cursor's text in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// Kind of list of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CursorKind {
    /// Executions, by id.
    Execution = 1,
    /// Source subscriptions, by id.
    Subscription = 2,
    /// Events of one log, by id.
    Event = 3,
    /// Catalog entries, by path and version.
    Catalog = 4,
    /// The live event stream, by a position per shard.
    Stream = 5,
    /// Outbox rows, by time, shard and number.
    Outbox = 6,
    /// Events of several logs, by time, id and execution.
    EventTime = 7,
    /// Events of one log, in the order of arrival.
    EventArrival = 8,
    /// Versions of a catalog path, by version.
    CatalogVersion = 9,
    /// Frames of a cursor loop, by index.
    Frame = 10,
    /// Steps of an execution, by a key of their name.
    Step = 11,
    /// Executions, oldest first.
    ExecutionOldest = 12,
    /// Executions, by duration.
    ExecutionLongest = 13,
    /// Executions, by end time.
    ExecutionLastEnded = 14,
    /// Catalog entries, by registration.
    CatalogNewest = 15,
    /// Catalog entries, by retirement.
    CatalogLastRetired = 16,
}

/// A text that is not a cursor of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list; pass one that this list returned, unchanged")]
pub struct BadCursor;

/// Returns the text of a cursor.
#[must_use]
pub fn encode(kind: CursorKind, position: &[u8]) -> String {
    let mut bytes = vec![VERSION, kind as u8];
    bytes.extend_from_slice(position);
    bytes.extend_from_slice(&checksum(&bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the position in a cursor's text.
pub fn decode(kind: CursorKind, text: &str) -> Result<Vec<u8>, BadCursor> {
    if text.len() > MAX_TEXT {
        return Err(BadCursor);
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
    let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(BadCursor)?;
    match body {
        [VERSION, of_kind, position @ ..] if *of_kind == kind as u8 && *sum == checksum(body) => Ok(position.to_vec()),
        _ => Err(BadCursor),
    }
}

/// Returns the position in a list whose items are known by their names. Names of any length have a short key.
#[must_use]
pub fn key_of_name(name: &str) -> i64 {
    xxh64(name.as_bytes(), 0).cast_signed()
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let [a, b, c, d, ..] = xxh64(body, u64::from(VERSION)).to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_unchanged_cursors_of_the_kind_decode(position: Vec<u8>, cut in 0usize..8, flip: usize) {
            let text = encode(CursorKind::Event, &position);
            prop_assert_eq!(decode(CursorKind::Event, &text), Ok(position));
            prop_assert_eq!(decode(CursorKind::Stream, &text), Err(BadCursor));
            if cut > 0 {
                prop_assert_eq!(decode(CursorKind::Event, &text[..text.len().saturating_sub(cut)]), Err(BadCursor));
            }
            let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
            let at = flip % bytes.len();
            bytes[at] ^= 1;
            prop_assert_eq!(decode(CursorKind::Event, &URL_SAFE_NO_PAD.encode(bytes)), Err(BadCursor));
        }
    }

    #[test]
    fn texts_of_more_than_16_kib_are_refused() {
        // Base64 writes 3 bytes as 4 characters. A cursor has 6 bytes besides the position.
        let position = vec![7; 16 * 1024 / 4 * 3 - 6];
        let longest = encode(CursorKind::Stream, &position);
        assert_eq!(longest.len(), 16 * 1024);
        assert_eq!(decode(CursorKind::Stream, &longest), Ok(position.clone()));
        let longer = encode(CursorKind::Stream, &[position, vec![7]].concat());
        assert_eq!(decode(CursorKind::Stream, &longer), Err(BadCursor));
    }
}
