//! Events as JSON text, made once for all readers that select the same of them.
//!
//! Readers of one dashboard ask for the same fields, so what is resolved and written for the first of them serves the
//! others, unless they may do other things: then other fields are refused to them. The transport sends a value of bytes as
//! the JSON text that it is.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, Request, ServerResult, Value};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::auth::principal::{Capabilities, Principal};
use crate::domain::shard::ShardIndex;
use crate::graphql::types::feed::EventStreamItem;
use crate::json::Written;
use crate::stream::cursor::StreamCursor;
use crate::stream::reader::Item;

/// Bytes that a replica keeps.
const KEPT_BYTES: usize = 8 << 20;
/// About what is kept beside a text.
const OVERHEAD: usize = 256;

/// What an operation selects: equal only for operations that select the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Selection([u8; 32]);

impl Selection {
    /// The selection of a request. Its variables count only where directives may look at them.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        let mut hash = Sha256::new();
        for part in [Some(&request.query), request.operation_name.as_ref()] {
            let part = part.map_or("", String::as_str);
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        if request.query.contains('@') {
            hash.update(format!("{:?}", request.variables));
        }
        Self(hash.finalize().into())
    }
}

/// Readers to whom the same text may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Audience {
    selection: Selection,
    capabilities: Capabilities,
    tenant: Option<Arc<str>>,
}

impl Audience {
    /// Returns the readers that select the same as this one, may do the same, and are of the same tenant.
    #[must_use]
    pub fn of(selection: Selection, reader: &Principal) -> Self {
        Self { selection, capabilities: reader.capabilities, tenant: reader.tenant.clone() }
    }
}

/// An event as a selection shows it. Which event it is follows from the shard and its place in the cursor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    audience: Audience,
    shard: ShardIndex,
    partial: bool,
    cursor: StreamCursor,
}

/// The texts of a replica; the oldest make room. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Rendered(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    texts: HashMap<Arc<Key>, Bytes>,
    order: VecDeque<Arc<Key>>,
    bytes: usize,
}

impl Kept {
    fn keep(&mut self, key: Key, text: &Bytes) {
        if text.len() > KEPT_BYTES / 4 || self.texts.contains_key(&key) {
            return;
        }
        let key = Arc::new(key);
        self.bytes += text.len() + OVERHEAD;
        self.order.push_back(Arc::clone(&key));
        self.texts.insert(key, text.clone());
        while self.bytes > KEPT_BYTES {
            let oldest = self.order.pop_front().and_then(|key| self.texts.remove(&key));
            self.bytes -= oldest.map_or(self.bytes, |text| text.len() + OVERHEAD);
        }
    }
}

/// An item for a reader, resolved at most once for all that select the same.
#[derive(Debug)]
pub struct LiveItem {
    item: Item,
    audience: Option<Audience>,
    rendered: Rendered,
}

impl LiveItem {
    /// Returns an item for a reader of `audience`; `None`: it is unknown what the reader selects.
    #[must_use]
    pub fn new(item: Item, audience: Option<Audience>, rendered: Rendered) -> Self {
        Self { item, audience, rendered }
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
        let kept = || self.rendered.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.key();
        if let Some(text) = key.as_ref().and_then(|key| kept().texts.get(key).cloned()) {
            return Ok(Value::Binary(text));
        }
        let value = EventStreamItem::from(self.item.clone()).resolve(ctx, field).await?;
        let failed = !ctx.query_env.errors.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        // What failed in part is mended by the transport, which has to see it as a value.
        let Some(key) = key.filter(|_| !failed) else { return Ok(value) };
        let Ok(text) = serde_json::to_vec(&Written(&value)).map(Bytes::from) else { return Ok(value) };
        kept().keep(key, &text);
        Ok(Value::Binary(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::principal::Role;

    fn key(number: u64) -> Key {
        let cursor = StreamCursor(vec![crate::stream::cursor::Position { epoch: 1, sequence: number }]);
        let audience = Audience::of(Selection::of(&Request::new("{ a }")), &Principal::local());
        Key { audience, shard: 0, partial: false, cursor }
    }

    #[test]
    fn texts_stay_within_their_bytes() {
        let (mut kept, text) = (Kept::default(), Bytes::from(vec![b'x'; KEPT_BYTES / 10 - OVERHEAD]));
        for number in 0..30 {
            kept.keep(key(number), &text);
            kept.keep(key(number), &text);
        }
        assert_eq!((kept.texts.len(), kept.order.len(), kept.bytes), (10, 10, 10 * (text.len() + OVERHEAD)));
        assert!(kept.texts.contains_key(&key(29)) && !kept.texts.contains_key(&key(19)));
    }

    #[test]
    fn texts_are_shared_only_among_readers_of_equal_rights() {
        let selection = Selection::of(&Request::new("{ a }"));
        let reader = |role, tenant: Option<&str>| {
            let tenant = tenant.map(Arc::from);
            Audience::of(selection, &Principal { tenant, ..Principal::new("anyone", &[role]) })
        };
        let viewer = reader(Role::Viewer, None);
        assert_eq!(viewer, Audience::of(selection, &Principal::new("another", &[Role::Viewer])));
        assert_ne!(viewer, reader(Role::Operator, None));
        assert_ne!(viewer, reader(Role::Viewer, Some("acme")));
        let mut kept = Kept::default();
        kept.keep(Key { audience: viewer, ..key(1) }, &Bytes::from_static(b"1"));
        assert!(!kept.texts.contains_key(&Key { audience: reader(Role::Operator, None), ..key(1) }));
    }

    #[test]
    fn variables_count_where_directives_are() {
        let request = |query: &str, on: bool| {
            let variables = async_graphql::Variables::from_json(serde_json::json!({ "on": on }));
            Selection::of(&Request::new(query).variables(variables))
        };
        assert_eq!(request("{ a }", true), request("{ a }", false));
        assert_ne!(request("{ a @skip(if: $on) }", true), request("{ a @skip(if: $on) }", false));
        assert_ne!(request("{ a }", true), request("{ b }", true));
    }
}
