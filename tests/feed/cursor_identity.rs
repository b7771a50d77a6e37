//! A reader whose cursor can't exist in the feed gets a gap with the reason RESET and then every event. A cursor that
//! can exist is never refused.

use noetl_feed::wire::cursor::{Position, StreamCursor};
use noetl_testkit::feed::Reader;
use noetl_testkit::{Deployment, Server};

async fn deployment_with(events: i64) -> (Deployment, Server) {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=events).await;
    deployment.until_published(usize::try_from(events).unwrap()).await;
    deployment.until_batch_finished().await;
    (deployment, server)
}

/// Returns the text of a cursor that does not name its feed, as servers returned it before cursors had identities.
fn without_identity(epoch: u32, sequence: u64) -> String {
    StreamCursor::unnamed(vec![Position { epoch, sequence }]).to_text()
}

/// Reconnects with the cursor and checks that the reader gets the gap and every event.
async fn assert_reset(reader: &mut Reader, deployment: &Deployment, server: &Server, last: i64) {
    reader.seen.clear();
    reader.reconnect(server).await;
    let committed = deployment.committed().await;
    assert!(reader.until_seen(committed.clone()).await);
    assert_eq!(reader.gaps(), [(0, 1, last, "RESET")]);
    reader.assert_saw_exactly(&committed);
    // The cursor after the reset is one of this feed.
    reader.seen.clear();
    reader.reconnect(server).await;
    reader.caught_up().await;
    assert_eq!((reader.gaps(), reader.seen.len()), (vec![], 0));
}

/// The cursor of another feed is before or after the end of this feed.
#[tokio::test]
async fn a_cursor_of_a_position_that_can_t_exist_in_the_feed_is_reset_and_no_other() {
    let ((long, first), (short, second)) = tokio::join!(deployment_with(50), deployment_with(5));
    let longer = Reader::from_beginning(&first).await;
    let mut reader = Reader::from_beginning(&second).await;
    reader.cursor = longer.cursor;
    assert_reset(&mut reader, &short, &second, 50).await;
    let mut reader_of_long = Reader::from_beginning(&first).await;
    reader_of_long.cursor = Reader::from_beginning(&second).await.cursor;
    assert_reset(&mut reader_of_long, &long, &first, 5).await;
    a_cursor_without_identity_is_reset_only_if_its_position_can_t_exist(&short, &second).await;
    a_cursor_that_is_ahead_of_a_replica_is_not_reset(&long, &first).await;
}

/// The feed has five events.
async fn a_cursor_without_identity_is_reset_only_if_its_position_can_t_exist(deployment: &Deployment, server: &Server) {
    let mut reader = Reader::from_beginning(server).await;
    for (epoch, sequence) in [(2, 4), (1, 6), (2, 6)] {
        reader.cursor = without_identity(epoch, sequence);
        assert_reset(&mut reader, deployment, server, i64::try_from(sequence).unwrap()).await;
    }
    for sequence in 0..=5 {
        reader.cursor = without_identity(1, sequence);
        reader.seen.clear();
        reader.reconnect(server).await;
        reader.caught_up().await;
        assert_eq!((reader.gaps(), reader.seen.len() as u64), (vec![], 5 - sequence), "sequence {sequence}");
    }
}

/// The feed has 50 events. The cursor is newer than what the other replica's hub has read.
async fn a_cursor_that_is_ahead_of_a_replica_is_not_reset(deployment: &Deployment, one: &Server) {
    let other = deployment.replica().await;
    let mut waiting = Reader::from_beginning(&other).await;
    let mut reader = Reader::from_beginning(one).await;
    for event in 51..=80 {
        deployment.commit(7, event..=event).await;
        assert!(reader.until_seen([(7, event)]).await);
        reader.reconnect(if event % 2 == 0 { one } else { &other }).await;
        reader.caught_up().await;
        assert_eq!(reader.gaps(), []);
    }
    let committed = deployment.committed().await;
    assert!(waiting.until_seen(committed.clone()).await);
    reader.assert_saw_exactly(&committed);
}
