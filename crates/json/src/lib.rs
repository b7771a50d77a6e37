//! JSON as data: no key has a special meaning for the code that reads it.
//!
//! `serde_json::Value` gives some keys a special meaning. The feature `raw_value`, which other crates need, makes it
//! read `{"$serde_json::private::RawValue": "[1]"}` as `[1]`, and reject other values under that key. So all text from
//! outside (requests, rows, messages, documents) is converted to values by this crate:
//!
//! - [`read`] and [`AnyJson`] read any JSON. [`parse`] reads the fields of a [`Typed`].
//! - [`check`] finds values that can't be represented unchanged, before a request is read.
//! - [`RawJson`] carries JSON of requests, and [`Text`] JSON of databases and messages, that is passed on unchanged.
//! - [`borrow`] and [`read_with`] read only parts of a text.
//! - [`Written`] and [`append`] write the values of responses.
//! - With the feature `sqlx`, JSON columns are read as [`Text`] and `Received`.
//!
//! Clippy refuses the reading functions of `serde_json`. A test refuses types that must not be read with them.

mod check;
#[cfg(feature = "sqlx")]
mod column;
mod raw;
#[expect(clippy::disallowed_methods, reason = "the only module that reads JSON")]
mod read;
mod text;
#[expect(clippy::disallowed_methods, reason = "text is checked before it is copied")]
mod write;

pub use check::{Unrepresentable, Unstorable, check, is_kept};
#[cfg(feature = "sqlx")]
pub use column::Received;
pub use raw::{RawJson, from_graphql};
pub use read::{AnyJson, Borrowed, Typed, borrow, fields, map, option, optional_map, parse, read, read_with, value};
pub use text::{Text, Unreadable};
pub use write::{UNWRITTEN, Written, append, data};
