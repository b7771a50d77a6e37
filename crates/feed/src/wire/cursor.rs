//! Cursor of a reader: for each shard the feed's epoch and the last sequence that the reader has seen. It is valid on
//! every replica.
//!
//! The epoch increases when sequences lose their meaning: the broker lost messages, so that their sequences are used
//! again, or a database was restored. Along a stream neither epoch nor sequence decreases, so positions are ordered by
//! both. A message is new to a reader if its position is after the reader's.
//!
//! A cursor also names the feed of each shard, so that a cursor of another deployment is recognised.

use integer_encoding::VarInt;
use noetl_domain::cursor::{BadCursor, CursorKind, decode, encode};
use noetl_domain::feed::FeedTag;

/// First number of a cursor, which stands for its form.
const FORM: u64 = 1 << 32;

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
pub struct StreamCursor {
    /// Positions, by shard index.
    pub positions: Vec<Position>,
    /// Feeds of the positions, by shard index; `None` if unknown.
    pub feeds: Vec<Option<FeedTag>>,
}

impl StreamCursor {
    /// Returns a cursor whose feeds are unknown.
    #[must_use]
    pub fn unnamed(positions: Vec<Position>) -> Self {
        Self { feeds: vec![None; positions.len()], positions }
    }

    /// Returns the text form that clients keep.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(self.positions.len() * 10 + 5);
        bytes.extend(FORM.encode_var_vec());
        for (position, feed) in self.positions.iter().zip(&self.feeds) {
            bytes.extend(position.epoch.encode_var_vec());
            bytes.extend(position.sequence.encode_var_vec());
            bytes.extend(feed.map_or(0, FeedTag::get).to_be_bytes());
        }
        encode(CursorKind::Stream, &bytes)
    }

    /// Parses a cursor for a deployment with `shards` shards. Shards that the text does not include start at their
    /// beginning. While a shard is added, the text may come from a replica that has more shards; positions at the
    /// beginning of those shards are left out.
    pub fn parse(text: &str, shards: usize) -> Result<Self, BadCursor> {
        let bytes = decode(CursorKind::Stream, text)?;
        let mut rest = bytes.as_slice();
        let mut cursor = Self::default();
        if take(&mut rest)? != FORM {
            return Err(BadCursor);
        }
        while !rest.is_empty() {
            let epoch = u32::try_from(take(&mut rest)?).map_err(|_| BadCursor)?;
            cursor.positions.push(Position { epoch, sequence: take(&mut rest)? });
            cursor.feeds.push(take_feed(&mut rest)?);
        }
        if cursor.positions.iter().skip(shards).any(|further| *further != Position::default()) {
            return Err(BadCursor);
        }
        cursor.positions.resize(shards, Position::default());
        cursor.feeds.resize(shards, None);
        Ok(cursor)
    }
}

/// Takes the short form of a feed's identity off the beginning of `rest`.
fn take_feed(rest: &mut &[u8]) -> Result<Option<FeedTag>, BadCursor> {
    let (number, after) = rest.split_first_chunk::<4>().ok_or(BadCursor)?;
    *rest = after;
    Ok(FeedTag::new(u32::from_be_bytes(*number)))
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
        fn text_round_trips(shards in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u32>()), 0..20)) {
            let positions = shards.iter().map(|&(epoch, sequence, _)| Position { epoch, sequence }).collect();
            let named = StreamCursor { positions, feeds: shards.iter().map(|shard| FeedTag::new(shard.2)).collect() };
            for cursor in [StreamCursor::unnamed(named.positions.clone()), named] {
                prop_assert_eq!(StreamCursor::parse(&cursor.to_text(), shards.len()), Ok(cursor.clone()));
                let fewer = StreamCursor::parse(&cursor.to_text(), shards.len().saturating_sub(1));
                let is_used = cursor.positions.last().is_some_and(|last| *last != Position::default());
                prop_assert_eq!(fewer == Err(BadCursor), is_used);
            }
        }
    }

    #[test]
    fn positions_at_the_beginning_of_further_shards_are_left_out() {
        let here = Position { epoch: 1, sequence: 300 };
        for feeds in [vec![None; 2], vec![FeedTag::new(7), FeedTag::new(8)]] {
            let longer = StreamCursor { positions: vec![here, Position::default()], feeds };
            let shorter = StreamCursor { positions: vec![here], feeds: longer.feeds[..1].to_vec() };
            assert_eq!(StreamCursor::parse(&longer.to_text(), 1), Ok(shorter));
        }
    }

    #[test]
    fn a_cursor_of_another_form_is_refused() {
        for bytes in [vec![], [1u32.encode_var_vec(), 300u64.encode_var_vec()].concat()] {
            assert_eq!(StreamCursor::parse(&encode(CursorKind::Stream, &bytes), 2), Err(BadCursor), "{bytes:?}");
        }
    }
}
