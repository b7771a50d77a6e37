//! Cursor of a reader: for each shard the feed's epoch and the last sequence that the reader has seen. It is valid on
//! every replica.
//!
//! The epoch increases when sequences lose their meaning: the broker lost messages, so that their sequences are used
//! again, or a database was restored. Along a stream neither epoch nor sequence decreases, so positions are ordered by
//! both. A message is new to a reader if its position is after the reader's.

use noetl_domain::cursor::{BadCursor, CursorKind, decode, encode};

/// Position in one shard's feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Epoch of the feed; 0 if the stream held no event when the position was taken, so that all its later events are
    /// after it.
    pub epoch: u32,
    /// Last stream sequence that was seen; 0 for none.
    pub sequence: u64,
}

impl Position {
    /// Returns true if `next` directly follows this position.
    #[must_use]
    pub fn precedes(self, next: Self) -> bool {
        next.sequence.checked_sub(1) == Some(self.sequence) && (self.epoch == 0 || self.epoch == next.epoch)
    }
}

/// Position in the feeds of all shards, by shard index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StreamCursor(pub Vec<Position>);

impl StreamCursor {
    /// Returns the text form that clients keep.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(self.0.len() * 6);
        for position in &self.0 {
            put(&mut bytes, u64::from(position.epoch));
            put(&mut bytes, position.sequence);
        }
        encode(CursorKind::Stream, &bytes)
    }

    /// Parses a cursor for a deployment with `shards` shards. Shards that the text does not include start at their
    /// beginning.
    pub fn parse(text: &str, shards: usize) -> Result<Self, BadCursor> {
        let bytes = decode(CursorKind::Stream, text)?;
        let mut rest = bytes.as_slice();
        let mut positions = Vec::new();
        while !rest.is_empty() {
            let epoch = u32::try_from(take(&mut rest)?).map_err(|_| BadCursor)?;
            positions.push(Position { epoch, sequence: take(&mut rest)? });
        }
        if positions.len() > shards {
            return Err(BadCursor);
        }
        positions.resize(shards, Position::default());
        Ok(Self(positions))
    }
}

/// Appends a number in base 128, least significant group first, as protocol buffers do.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(rest: &mut &[u8]) -> Result<u64, BadCursor> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, behind) = rest.split_first().ok_or(BadCursor)?;
        *rest = behind;
        number |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(BadCursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_round_trips(positions in prop::collection::vec((any::<u32>(), any::<u64>()), 0..20)) {
            let positions: Vec<_> = positions.iter().map(|&(epoch, sequence)| Position { epoch, sequence }).collect();
            let cursor = StreamCursor(positions);
            prop_assert_eq!(StreamCursor::parse(&cursor.to_text(), cursor.0.len()), Ok(cursor.clone()));
            if !cursor.0.is_empty() {
                prop_assert_eq!(StreamCursor::parse(&cursor.to_text(), cursor.0.len() - 1), Err(BadCursor));
            }
        }
    }
}
