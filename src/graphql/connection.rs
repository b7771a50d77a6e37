//! Relay connections over all shards (Relay, "GraphQL Cursor Connections Specification").

use async_graphql::connection::PageInfo;
use async_graphql::{Context, SimpleObject};

use super::types::catalog::CatalogEntry;
use super::types::event::Event;
use super::types::execution::Execution;
use super::types::outbox::OutboxEntry;
use super::types::subscription::SourceSubscription;
use crate::service::error::Rejection;
use noetl_domain::cursor::{CursorKind, decode, encode};
use noetl_domain::page::{DEFAULT_PAGE, MAX_PAGE, Page, PageRequest};
use noetl_domain::shard::ShardIndex;

/// Defines the connection and edge types of a node type. GraphQL has no generic types, so each type is written out.
macro_rules! connection {
    ($connection:ident, $edge:ident, $node:ty) => {
        /// One item of a list with its cursor.
        #[derive(Debug, Clone, SimpleObject)]
        pub struct $edge {
            /// Cursor of the item, to pass as `after` or `before`.
            cursor: String,
            /// The item.
            node: $node,
        }

        /// A page of a list. The list has one order over all shards.
        #[derive(SimpleObject)]
        pub struct $connection {
            /// Items of the page with their cursors.
            edges: Vec<$edge>,
            /// Items of the page.
            nodes: Vec<$node>,
            /// Position of the page in the list.
            page_info: PageInfo,
            /// Shards that could not be reached. Their items are missing.
            unavailable_shards: Vec<ShardIndex>,
        }

        impl $connection {
            /// Creates the connection of a page.
            pub fn new<R>(
                page: Page<R>,
                unavailable_shards: Vec<ShardIndex>,
                cursor: impl Fn(&R) -> String,
                node: impl Fn(R) -> $node,
            ) -> Self {
                let edge = |row: R| $edge { cursor: cursor(&row), node: node(row) };
                let edges: Vec<$edge> = page.items.into_iter().map(edge).collect();
                let page_info = PageInfo {
                    has_next_page: page.has_next,
                    has_previous_page: page.has_previous,
                    start_cursor: edges.first().map(|edge| edge.cursor.clone()),
                    end_cursor: edges.last().map(|edge| edge.cursor.clone()),
                };
                let nodes = edges.iter().map(|edge| edge.node.clone()).collect();
                Self { edges, nodes, page_info, unavailable_shards }
            }
        }
    };
}

connection!(CatalogEntryConnection, CatalogEntryEdge, CatalogEntry);
connection!(EventConnection, EventEdge, Event);
connection!(ExecutionConnection, ExecutionEdge, Execution);
connection!(OutboxEntryConnection, OutboxEntryEdge, OutboxEntry);
connection!(SourceSubscriptionConnection, SourceSubscriptionEdge, SourceSubscription);

/// Returns whether the operation selects a field of the items.
#[must_use]
pub fn selects(ctx: &Context<'_>, field: &str) -> bool {
    let page = ctx.look_ahead();
    page.field("nodes").field(field).exists() || page.field("edges").field("node").field(field).exists()
}

/// Arguments of a connection field.
#[derive(Debug, Clone, Default)]
pub struct PageArguments {
    /// Maximum number of items, counted from the start of the list.
    pub first: Option<i32>,
    /// Cursor after which the items are taken.
    pub after: Option<String>,
    /// Maximum number of items, counted from the end of the list.
    pub last: Option<i32>,
    /// Cursor before which the items are taken.
    pub before: Option<String>,
}

impl PageArguments {
    /// Returns the page request for a list that is ordered by id.
    pub fn by_id(&self, kind: CursorKind) -> Result<PageRequest<i64>, Rejection> {
        self.request(kind, |position| position.try_into().ok().map(i64::from_be_bytes))
    }

    /// Returns the page request for a list. `read` decodes the position in a cursor.
    pub fn request<K>(&self, kind: CursorKind, read: impl Fn(&[u8]) -> Option<K>) -> Result<PageRequest<K>, Rejection> {
        let place = |field: &str, text: &Option<String>| {
            let place = |text: &String| decode(kind, text).ok().and_then(|position| read(&position));
            let bad = || Rejection::invalid(field, noetl_domain::cursor::BadCursor.to_string());
            text.as_ref().map(|text| place(text).ok_or_else(bad)).transpose()
        };
        let (limit, backwards) = match (self.first, self.last) {
            (Some(_), Some(_)) => return Err(Rejection::invalid("first", "give either first or last, not both")),
            (None, Some(last)) => (size("last", last)?, true),
            (Some(first), None) => (size("first", first)?, false),
            (None, None) => (DEFAULT_PAGE, false),
        };
        let (after, before) = (place("after", &self.after)?, place("before", &self.before)?);
        Ok(PageRequest { limit, backwards, after, before })
    }
}

fn size(field: &str, asked: i32) -> Result<u32, Rejection> {
    match u32::try_from(asked) {
        Ok(size @ 1..=MAX_PAGE) => Ok(size),
        _ => Err(Rejection::invalid(field, format!("{field} must be 1 to {MAX_PAGE}, not {asked}"))),
    }
}

/// Returns the cursor of an item in a list that is ordered by id.
#[must_use]
pub fn id_cursor(kind: CursorKind, id: i64) -> String {
    encode(kind, &id.to_be_bytes())
}
