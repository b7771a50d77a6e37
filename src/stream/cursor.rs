//! Where a reader stands: per shard the feed's epoch and the last sequence that it has seen. The same on every replica.
//!
//! The feed's epoch goes up when sequences lose their meaning: the broker lost messages, so that their sequences are used
//! again, or a database was restored. Along a stream neither epoch nor sequence goes down, so positions are ordered by
//! both, and a message is fresh for a reader if its position is above the reader's.

use crate::domain::cursor::{BadCursor, CursorKind, decode, encode};

/// A place in one shard's feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// 0: the stream held no event when the place was taken, so whatever it holds later is behind it.
    pub epoch: u32,
    /// The last stream sequence that was seen; 0 for none.
    pub sequence: u64,
}

impl Position {
    /// Whether nothing lies between this place and `next`.
    #[must_use]
    pub fn precedes(self, next: Self) -> bool {
        next.sequence.checked_sub(1) == Some(self.sequence) && (self.epoch == 0 || self.epoch == next.epoch)
    }
}

/// A place in the feeds of all shards, by shard index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StreamCursor(pub Vec<Position>);

impl StreamCursor {
    /// The text that clients keep.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(self.0.len() * 6);
        for position in &self.0 {
            put(&mut bytes, u64::from(position.epoch));
            put(&mut bytes, position.sequence);
        }
        encode(CursorKind::Stream, &bytes)
    }

    /// The cursor of a deployment with this many shards; shards that it does not know yet stand at their beginning.
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
