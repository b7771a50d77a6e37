//! Relay connections over all shards (Relay, "GraphQL Cursor Connections Specification").

use async_graphql::{Context, SimpleObject};

use super::errors::field_error;
use super::scalars::to_graphql_int;
use noetl_domain::cursor::{CursorKind, decode, encode};
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{DEFAULT_COUNT, DEFAULT_PAGE, MAX_COUNT, MAX_PAGE, PageRequest, Total};
use noetl_use_cases::error::{Rejection, ServiceError};

/// Position of a page in its list.
#[derive(Debug, Clone, SimpleObject)]
pub struct PageInfo {
    /// Whether there are items before this page.
    pub has_previous_page: bool,
    /// Whether there are items after this page.
    pub has_next_page: bool,
    /// Cursor of the first item; null if the page is empty.
    pub start_cursor: Option<String>,
    /// Cursor of the last item; null if the page is empty.
    pub end_cursor: Option<String>,
}

/// Number of items of a list, counted up to a limit.
#[derive(Debug, Clone, SimpleObject)]
pub struct TotalCount {
    /// Number of items; the limit if the list has more.
    value: i32,
    /// Whether the list has more items than `value`.
    capped: bool,
}

/// A list whose items can be counted.
pub trait Countable {
    /// Counts the items, up to `limit`.
    fn total(&self, ctx: &Context<'_>, limit: i64) -> impl Future<Output = Result<Total, ServiceError>> + Send;
}

/// Returns the value of `totalCount` for a list.
pub async fn total_count(
    ctx: &Context<'_>,
    list: &impl Countable,
    up_to: Option<i32>,
) -> async_graphql::Result<TotalCount> {
    let limit = up_to.map_or(i64::from(DEFAULT_COUNT), i64::from);
    if !(1..=i64::from(MAX_COUNT)).contains(&limit) {
        let message = format!("upTo must be 1 to {MAX_COUNT}, not {limit}");
        return Err(field_error(Rejection::invalid("upTo", message)));
    }
    let Total { value, capped } = list.total(ctx, limit).await.map_err(field_error)?;
    Ok(TotalCount { value: to_graphql_int(value), capped })
}

/// Defines the connection and edge types of a node type, whose list can be counted. GraphQL has no generic types, so each
/// type is written out. A connection can have one more field, which `with` sets. Edges and cursors are made only if they
/// are selected.
macro_rules! connection {
    (
        $connection:ident, $edge:ident, $node:ty, $list:ty
        $(, extra: { $(#[$extra_meta:meta])* $extra:ident: $extra_type:ty })?
    ) => {
        /// One item of a list with its cursor.
        #[derive(async_graphql::SimpleObject)]
        pub struct $edge<'a> {
            /// Cursor of the item, to pass as `after` or `before`.
            cursor: String,
            /// The item.
            node: &'a $node,
        }

        impl $crate::plain::Plain for $edge<'_> {
            fn plain(
                &self,
                field: &str,
                _: &$crate::plain::Reader<'_>,
            ) -> Option<$crate::plain::PlainValue<'_>> {
                match field {
                    "cursor" => Some(self.cursor.as_str().into()),
                    "node" => Some($crate::plain::PlainValue::Object(self.node)),
                    _ => None,
                }
            }
        }

        /// A page of a list.
        pub struct $connection {
            items: Vec<$node>,
            cursor: Box<dyn Fn(&$node) -> String + Send + Sync>,
            bounds: Option<(String, String)>,
            has_next_page: bool,
            has_previous_page: bool,
            unavailable_shards: Vec<noetl_domain::shard::ShardIndex>,
            $($extra: $extra_type,)?
            list: $list,
        }

        /// A page of a list. If the items are on several shards, the list has one order over all of them.
        #[async_graphql::Object]
        impl $connection {
            /// Items of the page with their cursors.
            async fn edges(&self) -> $crate::plain::Items<Vec<$edge<'_>>> {
                let edge = |node| $edge { cursor: (self.cursor)(node), node };
                $crate::plain::Items(self.items.iter().map(edge).collect())
            }

            /// Items of the page.
            async fn nodes(&self) -> $crate::plain::Items<&[$node]> {
                $crate::plain::Items(&self.items)
            }

            /// Position of the page in the list.
            async fn page_info(&self) -> $crate::connection::PageInfo {
                let of_items = || Some((self.items.first().map(&self.cursor)?, self.items.last().map(&self.cursor)?));
                let (start_cursor, end_cursor) = self.bounds.clone().or_else(of_items).unzip();
                $crate::connection::PageInfo {
                    has_next_page: self.has_next_page,
                    has_previous_page: self.has_previous_page,
                    start_cursor,
                    end_cursor,
                }
            }

            /// Shards that could not be reached. Their items are missing.
            async fn unavailable_shards(&self) -> &[noetl_domain::shard::ShardIndex] {
                &self.unavailable_shards
            }

            $($(#[$extra_meta])* async fn $extra(&self) -> &$extra_type {
                &self.$extra
            })?

            /// Number of items in the whole list, without those of `unavailableShards`. It can differ from what the
            /// pages contain if items are added meanwhile.
            async fn total_count(
                &self,
                ctx: &async_graphql::Context<'_>,
                #[graphql(desc = "Number up to which items are counted (1 to 100000, default 10000).")] up_to: Option<i32>,
            ) -> async_graphql::Result<Option<$crate::connection::TotalCount>> {
                $crate::connection::total_count(ctx, &self.list, up_to).await.map(Some)
            }
        }

        impl $connection {
            /// Creates the connection of a page. `node` converts a row, and `cursor` returns the cursor of an item.
            pub fn new<R>(
                list: $list,
                page: noetl_domain::page::Page<R>,
                unavailable_shards: Vec<noetl_domain::shard::ShardIndex>,
                node: impl Fn(R) -> $node,
                cursor: impl Fn(&$node) -> String + Send + Sync + 'static,
            ) -> Self {
                Self {
                    items: page.items.into_iter().map(node).collect(),
                    cursor: Box::new(cursor),
                    bounds: None,
                    has_next_page: page.has_next,
                    has_previous_page: page.has_previous,
                    unavailable_shards,
                    $($extra: <$extra_type>::default(),)?
                    list,
                }
            }

            /// Returns the connection of a page whose first and last items have these cursors, also if they were left out.
            #[must_use]
            pub fn between(self, bounds: Option<(String, String)>) -> Self {
                Self { bounds, ..self }
            }

            $(
                /// Returns the connection with this value in its additional field.
                #[must_use]
                pub fn with(self, $extra: $extra_type) -> Self {
                    Self { $extra, ..self }
                }
            )?
        }
    };
}

pub(super) use connection;

/// Returns whether the operation selects a field of the items.
#[must_use]
pub fn selects_item_field(ctx: &Context<'_>, field: &str) -> bool {
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

    /// Returns the page request for a list that is ordered by time, then by id.
    pub fn by_time(&self, kind: CursorKind) -> Result<PageRequest<ListPosition>, Rejection> {
        self.request(kind, ListPosition::read)
    }

    /// Returns the page request for a list. `read` decodes the position in a cursor.
    pub fn request<K>(&self, kind: CursorKind, read: impl Fn(&[u8]) -> Option<K>) -> Result<PageRequest<K>, Rejection> {
        let bound = |field: &str, text: &Option<String>| {
            let position = |text: &String| decode(kind, text).ok().and_then(|bytes| read(&bytes));
            let bad = || Rejection::invalid(field, noetl_domain::cursor::BadCursor.to_string());
            text.as_ref().map(|text| position(text).ok_or_else(bad)).transpose()
        };
        let (limit, backwards) = match (self.first, self.last) {
            (Some(_), Some(_)) => return Err(Rejection::invalid("first", "give either first or last, not both")),
            (None, Some(last)) => (page_size("last", last)?, true),
            (Some(first), None) => (page_size("first", first)?, false),
            (None, None) => (DEFAULT_PAGE, false),
        };
        let (after, before) = (bound("after", &self.after)?, bound("before", &self.before)?);
        Ok(PageRequest { limit, backwards, after, before })
    }
}

fn page_size(field: &str, size: i32) -> Result<u32, Rejection> {
    match u32::try_from(size) {
        Ok(size @ 1..=MAX_PAGE) => Ok(size),
        _ => Err(Rejection::invalid(field, format!("{field} must be 1 to {MAX_PAGE}, not {size}"))),
    }
}

/// Returns the cursor of an item in a list that is ordered by time, then by id.
#[must_use]
pub fn time_cursor(kind: CursorKind, position: ListPosition) -> String {
    encode(kind, &position.to_bytes())
}

/// Returns the cursor of an item in a list that is ordered by id.
#[must_use]
pub fn id_cursor(kind: CursorKind, id: i64) -> String {
    encode(kind, &id.to_be_bytes())
}
