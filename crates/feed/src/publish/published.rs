//! Metrics of published events: their number by type, and the last one.

use std::collections::BTreeMap;

use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, DEDUPLICATED, REGISTERED};
use noetl_domain::outbox::{DISCARDED, RETRIED};
use noetl_domain::shard::ShardIndex;
use noetl_domain::workflow::known_types;

/// Label of the types that this server does not know. Workers may send any type, so these have no labels of their own.
const OTHER: &str = "other";

/// Events that were appended to a stream and are not counted yet.
#[derive(Debug, Default)]
pub(super) struct Published {
    by_type: BTreeMap<&'static str, u64>,
    last: Option<Id>,
}

impl Published {
    /// Adds an event.
    pub(super) fn add(&mut self, event_type: &str, event_id: i64) {
        *self.by_type.entry(label(event_type)).or_default() += 1;
        self.last = Some(Id::new(event_id));
    }

    /// Counts the events, after the stream has acknowledged them.
    pub(super) fn count(self, shard: ShardIndex) {
        for (event_type, count) in self.by_type {
            let labels = [("shard", shard.to_string()), ("event_type", event_type.to_owned())];
            metrics::counter!("noetl_event_stream_published_total", &labels).increment(count);
        }
        if let Some(last) = self.last {
            #[expect(clippy::cast_precision_loss, reason = "a gauge; the time in the id is exact")]
            metrics::gauge!("noetl_event_stream_last_event_id", "shard" => shard.to_string()).set(last.get() as f64);
        }
    }
}

/// Returns the label of a type: one of the known types, or [`OTHER`].
fn label(event_type: &str) -> &'static str {
    let lifecycle = Action::ALL.into_iter().map(Action::event_type).chain([REGISTERED, DEDUPLICATED]);
    known_types().chain(lifecycle).chain([RETRIED, DISCARDED]).find(|known| *known == event_type).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_types_have_labels_and_others_share_one() {
        for event_type in ["playbook_started", "playbook.completed", "subscription.paused", "subscription.registered"] {
            assert_eq!(label(event_type), event_type);
        }
        assert_eq!(label("call.done.of.my.worker"), OTHER);
        assert_eq!(label(""), OTHER);
    }
}
