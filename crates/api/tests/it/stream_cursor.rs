//! Cursors of live events that continue a page of stored events.

use noetl_api::event::stream_cursor::stream_cursor;
use noetl_domain::feed::FeedId;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_feed::wire::cursor::{Position, StreamCursor};
use noetl_storage::tail_covered::Covered;

#[test]
fn a_cursor_needs_the_positions_of_the_pages_shards() {
    let covered = Covered { feed: FeedId::new(7 << 96), epoch: 2, last_sequence: 9, done: TxSnapshot::beginning() };
    let feeds = [Some(covered), None];
    assert_eq!(stream_cursor(&feeds, None), None);
    assert_eq!(stream_cursor(&feeds, Some(&[1])), None);
    let cursor = StreamCursor::parse(&stream_cursor(&feeds, Some(&[0])).unwrap(), 2).unwrap();
    assert_eq!(cursor.positions, [Position { epoch: 2, sequence: 9 }, Position::default()]);
    assert_eq!(cursor.feeds, [Some(FeedId::new(7 << 96).tag()), None]);
}
