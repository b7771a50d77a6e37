//! Functions that the live subscriptions of several aggregates need.

use async_graphql::{Context, Error, Result};
use futures::{Stream, TryStreamExt};

use super::context::Services;
use super::errors::stream_unavailable;
use noetl_feed::read::hub::Hub;
use noetl_feed::read::reader::{Item, ReadError};
use noetl_feed::wire::cursor::StreamCursor;

/// Returns the feed of live events, or an error if the server has no broker.
pub(super) fn hub(ctx: &Context<'_>) -> Result<Hub> {
    ctx.data::<Services>()?.hub.clone().ok_or_else(stream_unavailable)
}

/// Logs the error of the event stream, and returns the error that ends a live subscription.
pub(super) fn read_error(error: ReadError) -> Error {
    tracing::warn!(%error, "a live subscription ends because the event stream can't be read");
    stream_unavailable()
}

/// Waits until the reader has its start position, and returns it. A reader that starts with the latest event catches up
/// at once, and misses nothing after that position.
pub(super) async fn wait_until_caught_up(
    feed: &mut (impl Stream<Item = Result<Item, ReadError>> + Unpin),
) -> Result<StreamCursor> {
    while let Some(item) = feed.try_next().await.map_err(read_error)? {
        if let Item::CaughtUp { cursor } = item {
            return Ok(cursor);
        }
    }
    Err(stream_unavailable())
}
