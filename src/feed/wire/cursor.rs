//! Cursor of a reader: for each shard the feed's epoch and the last sequence that the reader has seen. It is valid on
//! every replica.
//!
//! The epoch increases when sequences lose their meaning: the broker lost messages, so that their sequences are used
//! again, or a database was restored. Along a stream neither epoch nor sequence decreases, so positions are ordered by
//! both. A message is new to a reader if its position is after the reader's.

use integer_encoding::VarInt;
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
            bytes.extend(position.epoch.encode_var_vec());
            bytes.extend(position.sequence.encode_var_vec());
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

/// Takes a number off the beginning of `rest`: a variable-length integer, as in protocol buffers.
fn take(rest: &mut &[u8]) -> Result<u64, BadCursor> {
    let (number, length) = u64::decode_var(rest).ok_or(BadCursor)?;
    *rest = &rest[length..];
    Ok(number)
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
