//! Cache of events as JSON text, shared by all readers that select the same fields.
//!
//! Readers of one dashboard request the same fields, so the text that is rendered for one reader is reused for the
//! others. Only readers with the same capabilities and tenant share a text: for other capabilities, other fields are
//! refused. The cursors of two readers can differ in the positions of other shards, so a text is rendered with a
//! placeholder, which each reader's cursor replaces. The transport sends a value of bytes as JSON text.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};
use bytes::Bytes;
use bytestring::ByteString;

use crate::audience::Audience;
use crate::event::stream::EventStreamItem;
use crate::rendering;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_feed::read::reader::Item;
use noetl_feed::wire::cursor::{Position, StreamCursor};

/// Maximum number of bytes in the cache of a replica.
pub const MAX_CACHE_BYTES: usize = 8 << 20;
/// Approximate number of bytes that the cache needs for each text in addition to the text.
pub const OVERHEAD: usize = 256;

/// Cache key of an event for an audience. The position alone does not identify the event: if the feed is reset, other
/// events get the same positions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Readers that may share the text.
    pub audience: Audience,
    /// Shard in whose feed the event is.
    pub shard: ShardIndex,
    /// Position of the event in this feed.
    pub position: Position,
    /// Execution or source subscription of the event.
    pub execution: Id,
    /// Id of the event.
    pub event: Id,
    /// Whether the event is incomplete.
    pub partial: bool,
}

/// An event as text, with places for the cursor.
#[derive(Debug)]
pub struct RenderedEvent {
    /// The text between the places of the cursor.
    parts: Vec<Bytes>,
    /// Number of bytes of all parts.
    bytes: usize,
    /// The text for the last cursor. Readers of one shard have the same cursors.
    last: Mutex<Option<(StreamCursor, Bytes)>>,
}

impl RenderedEvent {
    /// Splits a text that contains the placeholder in each place of the cursor. The parts share its memory.
    #[must_use]
    pub fn new(text: &ByteString, placeholder: &str) -> Self {
        let parts = text.split(placeholder).map(|part| text.slice_ref(part).into_bytes()).collect();
        Self { bytes: text.len(), parts, last: Mutex::default() }
    }

    /// Returns the text with a reader's cursor.
    #[must_use]
    pub fn with_cursor(&self, cursor: &StreamCursor) -> Bytes {
        if let [text] = &self.parts[..] {
            return text.clone();
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = last.as_ref().filter(|(of, _)| of == cursor) {
            return text.clone();
        }
        let shown = cursor.to_text();
        let mut text = Vec::with_capacity(self.bytes + shown.len() * self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(shown.as_bytes());
            }
            text.extend_from_slice(part);
        }
        let text = Bytes::from(text);
        *last = Some((cursor.clone(), text.clone()));
        text
    }
}

/// Cache of a replica. If it is full, the oldest texts are removed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RenderCache {
    entries: Arc<Mutex<CacheEntries>>,
    /// Text in the place of a cursor. It is random and never sent, so no event contains it.
    placeholder: Arc<str>,
}

impl RenderCache {
    /// Creates an empty cache. No event may contain the placeholder, so it must be random.
    #[must_use]
    pub fn new(placeholder: &str) -> Self {
        Self { entries: Arc::default(), placeholder: placeholder.into() }
    }

    fn entries(&self) -> MutexGuard<'_, CacheEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text of an event.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<RenderedEvent>> {
        self.entries().texts.get(key).cloned()
    }

    /// Adds the text of an event. A very large text, and another text of the same event, are not added.
    pub fn insert(&self, key: Key, text: &Arc<RenderedEvent>) {
        self.entries().insert(key, text);
    }

    /// Returns the value with a cursor in the places of the placeholder. These are fields of the item itself.
    #[must_use]
    pub fn fill_in(&self, value: Value, cursor: &StreamCursor) -> Value {
        let Value::Object(mut fields) = value else { return value };
        for field in fields.values_mut() {
            if matches!(field, Value::String(text) if **text == *self.placeholder) {
                *field = Value::String(cursor.to_text());
            }
        }
        Value::Object(fields)
    }
}

#[derive(Debug, Default)]
struct CacheEntries {
    texts: HashMap<Arc<Key>, Arc<RenderedEvent>>,
    order: VecDeque<Arc<Key>>,
    bytes: usize,
}

impl CacheEntries {
    fn insert(&mut self, key: Key, text: &Arc<RenderedEvent>) {
        if text.bytes > MAX_CACHE_BYTES / 4 || self.texts.contains_key(&key) {
            return;
        }
        let key = Arc::new(key);
        self.bytes += size(text);
        self.order.push_back(Arc::clone(&key));
        self.texts.insert(key, Arc::clone(text));
        while self.bytes > MAX_CACHE_BYTES {
            let oldest = self.order.pop_front().and_then(|key| self.texts.remove(&key));
            self.bytes -= oldest.map_or(self.bytes, |text| size(&text));
        }
    }
}

/// Returns the approximate number of bytes that the cache needs for an event, which it may hold twice: in parts, and with
/// the last cursor.
fn size(text: &RenderedEvent) -> usize {
    2 * text.bytes + OVERHEAD
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

    /// Returns the key of the item's text, and the reader's cursor; `None` if the text is not shared.
    fn key(&self) -> Option<(Key, &StreamCursor)> {
        let Item::Event { cursor, shard, position, live } = &self.item else { return None };
        let (execution, event) = (live.event.execution_id, live.event.event_id);
        let (audience, partial) = (self.audience.clone()?, live.partial);
        Some((Key { audience, shard: *shard, position: *position, execution, event, partial }, cursor))
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
        let Some((key, cursor)) = self.key() else {
            return EventStreamItem::from(self.item.clone()).resolve(ctx, field).await;
        };
        if let Some(text) = self.cache.get(&key) {
            return Ok(Value::Binary(text.with_cursor(cursor)));
        }
        metrics::counter!("noetl_stream_rendered_events_total").increment(1);
        let item = EventStreamItem::with_cursor(self.item.clone(), self.cache.placeholder.to_string());
        let mut value = item.resolve(ctx, field).await?;
        let failed = !ctx.query_env.errors.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        // The transport completes a value that failed in part, so it needs the value and not its text.
        let text = if failed { None } else { rendering::text(&mut value, &ctx.item.node) };
        let text = text.and_then(|text| ByteString::try_from(text).ok());
        let Some(text) = text else { return Ok(self.cache.fill_in(value, cursor)) };
        let text = Arc::new(RenderedEvent::new(&text, &self.cache.placeholder));
        self.cache.insert(key, &text);
        Ok(Value::Binary(text.with_cursor(cursor)))
    }
}
