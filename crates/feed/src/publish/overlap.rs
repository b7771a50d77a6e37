//! Messages that another state of the database published after the cursor's position. The next batch skips the events
//! of those that the database has.

use std::collections::HashSet;

use futures::TryStreamExt;

use crate::publish::error::PublishError;
use crate::publish::publisher::Publisher;
use noetl_domain::event::EventKey;
use noetl_storage::error::StorageError;
use noetl_storage::tail::Overlap;
use noetl_storage::tail_session::EventPayload;

/// Events of the next batch that the stream holds already. Each leader reads them from the stream, so that all of them
/// skip the same ones.
#[derive(Debug, Default)]
pub(super) struct Skipped(HashSet<EventKey>);

impl Skipped {
    /// Reads the events from the stream.
    pub(super) async fn read(publisher: &Publisher, overlap: Option<Overlap>) -> Result<Self, PublishError> {
        let Some(Overlap { from, discard_from, .. }) = overlap else { return Ok(Self::default()) };
        let stored = publisher.stored(from.cast_unsigned(), (discard_from - 1).cast_unsigned());
        Ok(Self(stored.map_ok(|stored| stored.key).try_collect().await?))
    }

    /// Returns true if the stream holds the event already.
    pub(super) fn contains(&self, event: &Result<EventPayload, StorageError>) -> bool {
        event.as_ref().is_ok_and(|event| {
            self.0.contains(&EventKey { event_id: event.event_id, execution_id: event.execution_id })
        })
    }
}
