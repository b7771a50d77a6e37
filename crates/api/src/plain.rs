//! Lists that are written at once, because the values of all selected fields are in the rows.
//!
//! The executor resolves each field of each item with a boxed future, which costs many times as much as its value. So a
//! list whose selected fields are all plain is written as JSON text, without the executor. If a field is not plain, the
//! executor resolves the list. Both ways give the same response
//! (`crates/api/tests/it/plain_lists.rs::a_list_has_the_same_values_whether_it_is_written_at_once_or_resolved`).
//!
//! It relies on the transport, which merges the selection: each response key occurs once, `@skip` and `@include` are
//! applied, and a selection on objects of one type has no fragments.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Deref;
use std::sync::Arc;

use async_graphql::parser::types::{Field, Selection, SelectionSet};
use async_graphql::registry::Registry;
use async_graphql::resolver_utils::{EnumType, resolve_list};
use async_graphql::{ContextSelectionSet, OutputType, Positioned, ServerResult, Value};
use chrono::{DateTime, Datelike, Timelike, Utc};
use plain_json::{Text, UNWRITTEN};
use serde::Serialize;

use super::access::READ;
use super::context::Services;
use super::response_budget;
use super::scalars::Time;
use noetl_auth::principal::Principal;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::budget::{Budget, Exceeded};

/// An object some of whose fields are plain: their values are known without a loader.
pub trait Plain: OutputType {
    /// Returns the value of a field without arguments; `None` if the executor has to resolve the field. A field with the
    /// guard `READ` is plain only for a reader with this capability.
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>>;
}

/// The reader of a list.
#[derive(Debug)]
pub struct Reader<'a> {
    /// Whether the guard `READ` admits the reader.
    pub may_read: bool,
    services: Option<&'a Services>,
}

impl<'a> Reader<'a> {
    fn of(ctx: &ContextSelectionSet<'a>) -> Self {
        let may_read = ctx.data_opt::<Arc<Principal>>().is_some_and(|principal| READ.admits(principal));
        Self { may_read, services: ctx.data_opt() }
    }

    /// Returns the index of the shard that stores a log.
    #[must_use]
    pub fn shard_of(&self, id: Id) -> Option<ShardIndex> {
        Some(self.services?.databases.index_of(id))
    }
}

/// Value of a plain field.
pub enum PlainValue<'a> {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit float.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An id, as a decimal string.
    Id(Id),
    /// A time.
    Time(DateTime<Utc>),
    /// JSON.
    Json(&'a Text),
    /// An object whose selected fields must all be plain.
    Object(&'a dyn Object),
}

impl PlainValue<'_> {
    /// Returns the value of an enum.
    pub fn of_enum<T: EnumType>(value: impl Into<T>) -> Self {
        let value = value.into();
        T::items().iter().find(|item| item.value == value).map_or(Self::Null, |item| Self::Text(item.name.into()))
    }
}

/// Implements the conversion of a type into the value of a plain field.
macro_rules! plain_value {
    ($($type:ty => |$value:ident| $converted:expr;)*) => {
        $(impl<'a> From<$type> for PlainValue<'a> {
            fn from($value: $type) -> Self {
                $converted
            }
        })*
    };
}

plain_value! {
    bool => |value| Self::Bool(value);
    i32 => |value| Self::Int(value);
    u16 => |value| Self::Int(value.into());
    f64 => |value| Self::Float(value);
    Id => |value| Self::Id(value);
    DateTime<Utc> => |value| Self::Time(value);
    Time => |value| Self::Time(value.0);
    String => |value| Self::Text(value.into());
    &'a str => |value| Self::Text(value.into());
    &'a String => |value| Self::Text(value.into());
    &'a Text => |value| Self::Json(value);
}

impl<T: Into<Self>> From<Option<T>> for PlainValue<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// An object with plain fields, of any type.
pub trait Object: Send + Sync {
    /// Returns the name of its type.
    fn type_name(&self) -> Cow<'static, str>;
    /// Returns the value of a plain field, as [`Plain::plain`].
    fn value(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>>;
}

impl<T: Plain> Object for T {
    fn type_name(&self) -> Cow<'static, str> {
        <T as OutputType>::type_name()
    }

    fn value(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        self.plain(field, reader)
    }
}

/// A list of objects with plain fields.
#[derive(Debug, Clone)]
pub struct Items<L>(pub L);

impl<L, T> OutputType for Items<L>
where
    L: Deref<Target = [T]> + Send + Sync,
    T: Plain,
{
    fn type_name() -> Cow<'static, str> {
        Vec::<T>::type_name()
    }

    fn qualified_type_name() -> String {
        Vec::<T>::qualified_type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        Vec::<T>::create_type_info(registry)
    }

    async fn resolve(&self, ctx: &ContextSelectionSet<'_>, field: &Positioned<Field>) -> ServerResult<Value> {
        match written(ctx, &self.0) {
            Ok(text) => Ok(Value::Binary(text.into())),
            Err(Stopped::Exceeded(exceeded)) => Err(response_budget::error(exceeded, ctx.path_node.as_ref())),
            Err(Stopped::NotPlain) => resolve_list(ctx, field, self.0.iter(), Some(self.0.len())).await,
        }
    }
}

/// Reason for which a list was not written.
enum Stopped {
    /// The executor has to resolve a field.
    NotPlain,
    /// The response would be too large.
    Exceeded(Exceeded),
}

/// A selected field.
struct Member<'a> {
    /// Its response key as JSON, with the colon.
    key: String,
    name: &'a str,
    members: Vec<Self>,
}

/// Returns a list as JSON text.
fn written<T: Plain>(ctx: &ContextSelectionSet<'_>, items: &[T]) -> Result<Vec<u8>, Stopped> {
    let members = members(&ctx.item.node)?;
    let mut list = List { text: Vec::with_capacity(64), reader: Reader::of(ctx), budget: Budget::current() };
    list.text.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index == 1 {
            // The items have about the same size.
            list.text.reserve((list.text.len() + 16) * (items.len() - 1));
        }
        if index > 0 {
            list.text.push(b',');
        }
        list.object(&members, item)?;
    }
    list.text.push(b']');
    Ok(list.text)
}

/// Returns the selected fields, if they are without arguments, directives and fragments.
fn members(selection: &SelectionSet) -> Result<Vec<Member<'_>>, Stopped> {
    selection.items.iter().filter_map(|selected| member(&selected.node).transpose()).collect()
}

/// Returns `None` for a field that is not written.
fn member(selection: &Selection) -> Result<Option<Member<'_>>, Stopped> {
    let Selection::Field(field) = selection else { return Err(Stopped::NotPlain) };
    let field = &field.node;
    if !field.arguments.is_empty() || !field.directives.is_empty() {
        return Err(Stopped::NotPlain);
    }
    let key = field.response_key().node.as_str();
    if key == UNWRITTEN {
        return Ok(None);
    }
    let (key, name) = (format!("\"{key}\":"), field.name.node.as_str());
    Ok(Some(Member { key, name, members: members(&field.selection_set.node)? }))
}

/// A list that is being written.
struct List<'a> {
    text: Vec<u8>,
    reader: Reader<'a>,
    budget: Option<Arc<Budget>>,
}

impl List<'_> {
    fn object(&mut self, members: &[Member<'_>], object: &dyn Object) -> Result<(), Stopped> {
        self.text.push(b'{');
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                self.text.push(b',');
            }
            self.text.extend_from_slice(member.key.as_bytes());
            if member.name == "__typename" {
                self.value(object.type_name().as_ref().into(), member)?;
            } else {
                let value = object.value(member.name, &self.reader).ok_or(Stopped::NotPlain)?;
                self.value(value, member)?;
            }
        }
        self.text.push(b'}');
        Ok(())
    }

    fn value(&mut self, value: PlainValue<'_>, member: &Member<'_>) -> Result<(), Stopped> {
        match value {
            PlainValue::Null => self.text.extend_from_slice(b"null"),
            PlainValue::Bool(value) => self.json(&value),
            PlainValue::Int(value) => self.json(&value),
            PlainValue::Float(value) => self.json(&value),
            PlainValue::Text(value) => self.json(&value),
            PlainValue::Id(value) => {
                self.text.push(b'"');
                self.json(&value.get());
                self.text.push(b'"');
            }
            PlainValue::Time(value) => self.time(value),
            PlainValue::Json(value) => self.text.extend_from_slice(value.as_str().as_bytes()),
            PlainValue::Object(value) => self.object(&member.members, value)?,
        }
        let Some(budget) = &self.budget else { return Ok(()) };
        // The whole text is charged when the list has been resolved.
        budget.check_response(self.text.len()).map_err(Stopped::Exceeded)
    }

    fn json(&mut self, value: &impl Serialize) {
        // Writing to memory does not fail, and no value here is a map.
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    /// Writes a time as [`Time::to_text`] does, which takes ten times as long.
    fn time(&mut self, time: DateTime<Utc>) {
        let (date, nanos) = (time.date_naive(), time.nanosecond());
        if !(0..=9999).contains(&date.year()) || nanos >= 1_000_000_000 {
            return self.json(&Time(time).to_text());
        }
        let digits = |number: u32| [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
        let year = date.year().unsigned_abs();
        self.text.push(b'"');
        self.text.extend_from_slice(&digits(year / 100));
        self.text.extend_from_slice(&digits(year));
        for (separator, number) in [
            (b'-', date.month()),
            (b'-', date.day()),
            (b'T', time.hour()),
            (b':', time.minute()),
            (b':', time.second()),
        ] {
            self.text.push(separator);
            self.text.extend_from_slice(&digits(number));
        }
        // Writing to memory does not fail.
        let _ = write!(self.text, ".{:06}", nanos / 1_000);
        self.text.extend_from_slice(b"+00:00\"");
    }
}
