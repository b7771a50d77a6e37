//! Objects of live subscriptions that are rendered once for all readers with the same selection.
//!
//! The first reader resolves the item, and the others wait for its text. They wait for a short time only, because a
//! reader whose socket is blocked does not continue; then they resolve the item themselves.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_graphql::parser::types::Field;
use async_graphql::registry::Registry;
use async_graphql::{ContextSelectionSet, Name, OutputType, Positioned, ServerResult, Value};
use bytes::Bytes;
use moka::sync::Cache;
use tokio::sync::watch;
use tokio::time::timeout;

use super::audience::Audience;
use super::rendering;
use super::shared_reads::ReadNumber;
use noetl_domain::ids::Id;

/// Maximum time that a reader waits for the text that another reader renders.
const WAIT: Duration = Duration::from_millis(250);
/// Time for which a text is kept.
const KEPT: Duration = Duration::from_secs(2);
/// Maximum size of all texts in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Approximate number of bytes of an entry in addition to its text.
const OVERHEAD: usize = 512;

/// Identity of an item. Items with equal identities have the same content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ItemKey {
    /// Readers that may share the text.
    pub audience: Audience,
    /// Read that returned the object.
    pub read: ReadNumber,
    /// The object, or the event after which it is shown.
    pub id: Id,
}

/// An item, and the response key of the field that shows it. An item can show an object several times, each time with
/// other fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TextKey {
    item: ItemKey,
    field: Name,
}

/// Texts of a replica. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedTexts(Cache<TextKey, Arc<Rendering>>);

impl Default for SharedTexts {
    fn default() -> Self {
        let weight = |_: &TextKey, rendering: &Arc<Rendering>| {
            let bytes = rendering.state().text.as_ref().map_or(0, Bytes::len);
            u32::try_from(bytes + OVERHEAD).unwrap_or(u32::MAX)
        };
        Self(Cache::builder().max_capacity(MAX_BYTES).weigher(weight).time_to_live(KEPT).build())
    }
}

/// The text of one item.
#[derive(Debug)]
struct Rendering {
    state: Mutex<RenderState>,
    /// Changes when a reader stops rendering.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct RenderState {
    text: Option<Bytes>,
    /// True while a reader renders the item.
    running: bool,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { state: Mutex::default(), ended: watch::Sender::new(()) }
    }
}

impl Rendering {
    fn state(&self) -> MutexGuard<'_, RenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text. If no reader renders it, or the one that does takes too long, returns `None`, and the caller
    /// renders it.
    async fn text(&self) -> Option<Bytes> {
        let mut ended = self.ended.subscribe();
        loop {
            {
                let mut state = self.state();
                if state.text.is_some() {
                    return state.text.clone();
                }
                if !state.running {
                    state.running = true;
                    return None;
                }
            }
            // The rendering holds the sender, so the only error is that of the time.
            if timeout(WAIT, ended.changed()).await.is_err() {
                return None;
            }
        }
    }
}

/// Marks the end of a rendering when it is dropped, also if the reader ends before.
struct Running<'a>(&'a Rendering);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running = false;
        self.0.ended.send_replace(());
    }
}

/// An item whose text readers share.
#[derive(Debug)]
pub struct SharedItem<T> {
    item: T,
    shared: Option<(ItemKey, SharedTexts)>,
}

impl<T> SharedItem<T> {
    /// Returns an item; `shared` is its identity and the place of its text, or `None` if it is not shared.
    #[must_use]
    pub fn new(item: T, shared: Option<(ItemKey, SharedTexts)>) -> Self {
        Self { item, shared }
    }
}

impl<T: OutputType> OutputType for SharedItem<T> {
    fn type_name() -> Cow<'static, str> {
        T::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        T::create_type_info(registry)
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Field>) -> ServerResult<Value> {
        let Some((key, texts)) = &self.shared else {
            return self.item.resolve(ctx, field).await;
        };
        let key = TextKey { item: key.clone(), field: field.node.response_key().node.clone() };
        let rendering = texts.0.get_with(key.clone(), Arc::default);
        if let Some(text) = rendering.text().await {
            return Ok(Value::Binary(text));
        }
        let _running = Running(&rendering);
        let mut value = self.item.resolve(ctx, field).await?;
        let failed = !ctx.query_env.errors.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        // The transport completes a value that failed in part, so it needs the value and not its text.
        if failed {
            return Ok(value);
        }
        let Some(text) = rendering::text(&mut value, &ctx.item.node) else { return Ok(value) };
        let text = Bytes::from(text);
        rendering.state().text = Some(text.clone());
        // The cache weighs an entry when it is inserted.
        texts.0.insert(key, Arc::clone(&rendering));
        Ok(Value::Binary(text))
    }
}
