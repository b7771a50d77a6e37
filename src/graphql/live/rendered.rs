//! Cache of events as JSON text, shared by all readers that select the same fields.
//!
//! Readers of one dashboard request the same fields, so the text that is rendered for one reader is reused for the
//! others. Only readers with the same capabilities and tenant share a text: for other capabilities, other fields are
//! refused. The transport sends a value of bytes as JSON text.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::parser::types::{ExecutableDocument, Field, Selection as Node, SelectionSet};
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value, Variables};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::auth::principal::{Capabilities, Principal};
use crate::feed::read::reader::Item;
use crate::feed::wire::cursor::StreamCursor;
use crate::graphql::types::feed::EventStreamItem;
use noetl_domain::shard::ShardIndex;
use plain_json::Written;

/// Maximum number of bytes in the cache of a replica.
const KEPT_BYTES: usize = 8 << 20;
/// Approximate number of bytes that the cache needs for each text in addition to the text.
const OVERHEAD: usize = 256;

/// Digest of the fields that a subscription selects. Two digests are equal only if the operations select the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Selection([u8; 32]);

impl Selection {
    /// Returns the selection of a merged operation; `None` if it has no root field. The arguments of the root field,
    /// such as a cursor, only select the items and do not count. All fields below it count, with the values of
    /// variables.
    #[must_use]
    pub fn of(document: &ExecutableDocument, variables: &Variables) -> Option<Self> {
        let (_, operation) = document.operations.iter().next()?;
        let Node::Field(root) = &operation.node.selection_set.node.items.first()?.node else { return None };
        let mut digest = Digested { hash: Sha256::new(), variables };
        digest.text(&root.node.name.node);
        digest.set(&root.node.selection_set.node);
        Some(Self(digest.hash.finalize().into()))
    }
}

/// Hashes a selection. Each part is preceded by its length or number, so that different selections hash different
/// bytes.
struct Digested<'a> {
    hash: Sha256,
    variables: &'a Variables,
}

impl Digested<'_> {
    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.hash.update(text);
    }

    fn number(&mut self, number: usize) {
        self.hash.update(number.to_be_bytes());
    }

    /// Recursive; the transport bounds the depth of an operation.
    fn set(&mut self, set: &SelectionSet) {
        self.number(set.items.len());
        for item in &set.items {
            match &item.node {
                Node::Field(field) => {
                    let field = &field.node;
                    self.text(&field.name.node);
                    self.text(&field.response_key().node);
                    self.number(field.arguments.len());
                    for (name, value) in &field.arguments {
                        self.text(&name.node);
                        let value = value.node.clone().into_const_with(|name| {
                            Ok::<_, Infallible>(self.variables.get(&name).cloned().unwrap_or_default())
                        });
                        self.text(&value.map(|value| value.to_string()).unwrap_or_default());
                    }
                    self.set(&field.selection_set.node);
                }
                Node::InlineFragment(inline) => {
                    let condition = inline.node.type_condition.as_ref();
                    self.text("...");
                    self.text(condition.map_or("", |condition| &condition.node.on.node));
                    self.set(&inline.node.selection_set.node);
                }
                Node::FragmentSpread(spread) => self.text(&spread.node.fragment_name.node),
            }
        }
    }
}

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

/// An item for a reader. Its text is taken from the cache if another reader of the audience has resolved it.
#[derive(Debug)]
pub struct LiveItem {
    item: Item,
    audience: Option<Audience>,
    rendered: Rendered,
}

impl LiveItem {
    /// Returns an item for a reader of `audience`; `None` if the selection of the reader is unknown.
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
        // The transport completes a value that failed in part, so it needs the value and not its text.
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

    fn selection(query: &str, variables: &Variables) -> Selection {
        Selection::of(&async_graphql::parser::parse_query(query).unwrap(), variables).unwrap()
    }

    fn key(number: u64) -> Key {
        let cursor = StreamCursor(vec![crate::feed::wire::cursor::Position { epoch: 1, sequence: number }]);
        let audience = Audience::of(selection("{ a }", &Variables::default()), &Principal::local());
        Key { audience, shard: 0, partial: false, cursor }
    }

    #[test]
    fn cached_texts_stay_within_the_byte_limit() {
        let (mut kept, text) = (Kept::default(), Bytes::from(vec![b'x'; KEPT_BYTES / 10 - OVERHEAD]));
        for number in 0..30 {
            kept.keep(key(number), &text);
            kept.keep(key(number), &text);
        }
        assert_eq!((kept.texts.len(), kept.order.len(), kept.bytes), (10, 10, 10 * (text.len() + OVERHEAD)));
        assert!(kept.texts.contains_key(&key(29)) && !kept.texts.contains_key(&key(19)));
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
        let mut kept = Kept::default();
        kept.keep(Key { audience: viewer, ..key(1) }, &Bytes::from_static(b"1"));
        assert!(!kept.texts.contains_key(&Key { audience: reader(Role::Operator, None), ..key(1) }));
    }

    #[test]
    fn selection_ignores_the_alias_and_arguments_of_the_root_field() {
        let of = |query: &str, first: i32| {
            let variables = Variables::from_json(serde_json::json!({ "n": first }));
            selection(query, &variables)
        };
        let query = "subscription { events { a(first: $n) b } }";
        assert_eq!(of(query, 1), of("subscription Named($n: Int) { e: events(start: 7) { a(first: $n) b } }", 1));
        assert_ne!(of(query, 1), of(query, 2));
        assert_ne!(of(query, 1), of("subscription { events { x: a(first: $n) b } }", 1));
        assert_ne!(of("subscription { e { a { b } } }", 1), of("subscription { e { a b } }", 1));
        assert_ne!(of("subscription { e { ... on A { b } } }", 1), of("subscription { e { ... on B { b } } }", 1));
    }
}
