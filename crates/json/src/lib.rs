//! JSON as data: no key has a meaning to the code that reads it.
//!
//! `serde_json::Value` and its maps give some keys a meaning of their own: where the feature `raw_value` is on, as other
//! crates need it, `{"$serde_json::private::RawValue": "[1]"}` is read as `[1]`, and other values under that key fail.
//! So text from outside (requests, rows, messages, documents) becomes values through this module alone:
//!
//! - [`read`] and [`Data`] read any JSON, and [`parse`] the fields of a [`Typed`].
//! - [`check`] finds what the values can't hold unchanged, before a request is read.
//! - [`Text`] carries JSON that is passed on. What is not read stays as it is, whatever it holds.
//! - [`Written`] writes the values of responses.
//! - With the feature `sqlx`, JSON columns are read as [`Text`], [`Document`] and `Received`.
//!
//! Clippy refuses the functions of `serde_json` that read, and a test the types that they must not read.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they wrote themselves"))]

mod check;
#[cfg(feature = "sqlx")]
mod column;
#[expect(clippy::disallowed_methods, reason = "the home of reading JSON")]
mod read;
mod text;
#[expect(clippy::disallowed_methods, reason = "text is checked before it is copied")]
mod write;

pub use check::{Flaw, check, is_kept};
#[cfg(feature = "sqlx")]
pub use column::Received;
pub use read::{Data, Typed, fields, map, option, optional_map, parse, read, value};
pub use text::{Document, Text, Unreadable};
pub use write::{Written, data};
