//! Cache of events as JSON text, shared by all readers that select the same fields.
//!
//! Readers of one dashboard request the same fields, so the text that is rendered for one reader is reused for the
//! others. Only readers with the same capabilities and tenant share a text: for other capabilities, other fields are
//! refused. The transport sends a value of bytes as JSON text.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};
use bytes::Bytes;

use crate::auth::principal::{Capabilities, Principal};
use crate::feed::read::reader::Item;
use crate::feed::wire::cursor::StreamCursor;
use crate::graphql::event::stream::EventStreamItem;
use crate::graphql::selection::Selection;
use noetl_domain::shard::ShardIndex;
use plain_json::Written;

/// Maximum number of bytes in the cache of a replica.
const MAX_CACHE_BYTES: usize = 8 << 20;
/// Approximate number of bytes that the cache needs for each text in addition to the text.
const OVERHEAD: usize = 256;

/// Readers that may receive the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Audience {
    selection: Selection,
    capabilities: Capabilities,
    tenant: Option<Arc<str>>,
}

impl Audience {
    /// Returns the readers with the same selection, capabilities and tenant as this reader.
    #[must_use]
    pub fn of(selection: Selection, reader: &Principal) -> Self {
        Self { selection, capabilities: reader.capabilities, tenant: reader.tenant.clone() }
    }
}

/// Cache key of an event for an audience. The shard and its position in the cursor identify the event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    audience: Audience,
    shard: ShardIndex,
    partial: bool,
    cursor: StreamCursor,
}

/// Cache of a replica. If it is full, the oldest texts are removed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RenderCache(Arc<Mutex<CacheEntries>>);

#[derive(Debug, Default)]
struct CacheEntries {
    texts: HashMap<Arc<Key>, Bytes>,
    order: VecDeque<Arc<Key>>,
    bytes: usize,
}

impl CacheEntries {
    fn insert(&mut self, key: Key, text: &Bytes) {
        if text.len() > MAX_CACHE_BYTES / 4 || self.texts.contains_key(&key) {
            return;
        }
        let key = Arc::new(key);
        self.bytes += text.len() + OVERHEAD;
        self.order.push_back(Arc::clone(&key));
        self.texts.insert(key, text.clone());
        while self.bytes > MAX_CACHE_BYTES {
            let oldest = self.order.pop_front().and_then(|key| self.texts.remove(&key));
            self.bytes -= oldest.map_or(self.bytes, |text| text.len() + OVERHEAD);
        }
    }
}

/// An item for a reader. Its text is taken from the cache if another reader of the audience has resolved it.
#[derive(Debug)]
pub struct LiveItem {
    item: Item,
    audience: Option<Audience>,
    cache: RenderCache,
}

impl LiveItem {
    /// Returns an item for a reader of `audience`; `None` if the selection of the reader is unknown.
    #[must_use]
    pub fn new(item: Item, audience: Option<Audience>, cache: RenderCache) -> Self {
        Self { item, audience, cache }
    }

    fn key(&self) -> Option<Key> {
        let Item::Event { cursor, shard, live } = &self.item else { return None };
        Some(Key { audience: self.audience.clone()?, shard: *shard, partial: live.partial, cursor: cursor.clone() })
    }
}

impl OutputType for LiveItem {
    fn type_name() -> Cow<'static, str> {
        EventStreamItem::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        EventStreamItem::create_type_info(registry)
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Field>) -> ServerResult<Value> {
        let entries = || self.cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.key();
        if let Some(text) = key.as_ref().and_then(|key| entries().texts.get(key).cloned()) {
            return Ok(Value::Binary(text));
        }
        let value = EventStreamItem::from(self.item.clone()).resolve(ctx, field).await?;
        let failed = !ctx.query_env.errors.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        // The transport completes a value that failed in part, so it needs the value and not its text.
        let Some(key) = key.filter(|_| !failed) else { return Ok(value) };
        let Ok(text) = serde_json::to_vec(&Written(&value)).map(Bytes::from) else { return Ok(value) };
        entries().insert(key, &text);
        Ok(Value::Binary(text))
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::Variables;

    use super::*;
    use crate::auth::principal::Role;

    fn selection(query: &str, variables: &Variables) -> Selection {
        Selection::of(&async_graphql::parser::parse_query(query).unwrap(), variables).unwrap()
    }

    fn key(number: u64) -> Key {
        let cursor = StreamCursor::unnamed(vec![crate::feed::wire::cursor::Position { epoch: 1, sequence: number }]);
        let audience = Audience::of(selection("{ a }", &Variables::default()), &Principal::local());
        Key { audience, shard: 0, partial: false, cursor }
    }

    #[test]
    fn cached_texts_stay_within_the_byte_limit() {
        let (mut entries, text) = (CacheEntries::default(), Bytes::from(vec![b'x'; MAX_CACHE_BYTES / 10 - OVERHEAD]));
        for number in 0..30 {
            entries.insert(key(number), &text);
            entries.insert(key(number), &text);
        }
        assert_eq!((entries.texts.len(), entries.order.len(), entries.bytes), (10, 10, 10 * (text.len() + OVERHEAD)));
        assert!(entries.texts.contains_key(&key(29)) && !entries.texts.contains_key(&key(19)));
    }

    #[test]
    fn texts_are_shared_only_by_readers_with_equal_capabilities_and_tenant() {
        let selection = selection("{ a }", &Variables::default());
        let reader = |role, tenant: Option<&str>| {
            let tenant = tenant.map(Arc::from);
            Audience::of(selection, &Principal { tenant, ..Principal::new("anyone", &[role]) })
        };
        let viewer = reader(Role::Viewer, None);
        assert_eq!(viewer, Audience::of(selection, &Principal::new("another", &[Role::Viewer])));
        assert_ne!(viewer, reader(Role::Operator, None));
        assert_ne!(viewer, reader(Role::Viewer, Some("acme")));
        let mut entries = CacheEntries::default();
        entries.insert(Key { audience: viewer, ..key(1) }, &Bytes::from_static(b"1"));
        assert!(!entries.texts.contains_key(&Key { audience: reader(Role::Operator, None), ..key(1) }));
    }
}
