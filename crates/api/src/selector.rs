//! Selectors of bulk operations: ids, a filter, or everything.
//!
//! A selection is never widened by what the caller did not write. [`check_input`] refuses a selector that has a null, a
//! variable without a value, or an empty text, list or object anywhere, because such a condition would be ignored, or
//! match everything. It also refuses `dryRun` if its variable has no value, because the default changes data.

use std::convert::Infallible;

use async_graphql::{Context, Value};

use super::guards::WrittenInput;
use noetl_use_cases::error::Rejection;

/// Maximum number of ids in a selector.
const MAX_IDS: usize = 1000;

/// Objects that a bulk operation selects.
#[derive(Debug, Clone)]
pub enum Selected<F> {
    /// The objects with these ids: 1 to [`MAX_IDS`].
    Ids(Vec<async_graphql::ID>),
    /// The objects that match a filter, which has at least one condition.
    Filter(F),
    /// All objects that the caller may use.
    All,
}

/// Defines the selector of a bulk operation as a `@oneOf` input. GraphQL has no generic types, so each type is written
/// out. The mutation must have an argument `input` whose field `select` is the selector.
macro_rules! selector {
    ($(#[$attribute:meta])* $name:ident, $filter:ty) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, async_graphql::OneofObject)]
        pub enum $name {
            /// Selects by id (1 to 1000 ids).
            Ids(Vec<async_graphql::ID>),
            /// Selects by a filter, with at least one condition. A condition that is null, empty, or a variable without
            /// a value is refused.
            Filter($filter),
            /// Selects everything. The value must be true.
            All(bool),
        }

        impl $name {
            /// Returns the selection. Refuses a selector that could select more than the caller wrote.
            pub fn check(
                self,
                ctx: &async_graphql::Context<'_>,
            ) -> Result<$crate::selector::Selected<$filter>, noetl_use_cases::error::Rejection> {
                $crate::selector::check_input(ctx)?;
                match self {
                    Self::Ids(ids) => $crate::selector::check_ids(ids),
                    Self::Filter(filter) => Ok($crate::selector::Selected::Filter(filter)),
                    Self::All(all) => $crate::selector::check_all(all),
                }
            }
        }
    };
}

pub(crate) use selector;

/// Refuses the argument `input` of the current field if its selector is incomplete, or if `dryRun` is a variable without
/// a value.
pub(super) fn check_input(ctx: &Context<'_>) -> Result<(), Rejection> {
    let written = WrittenInput::new(ctx);
    written.check_within("select")?;
    written.check("dryRun")?;
    let Some(input) = ctx.item.node.get_argument("input") else { return Ok(()) };
    let variables = &ctx.query_env.variables;
    let value = |name: &_| variables.get(name).cloned().unwrap_or_default();
    let Ok(input) = input.node.clone().into_const_with(|name| Ok::<_, Infallible>(value(&name)));
    let Value::Object(fields) = &input else { return Ok(()) };
    let Some(select) = fields.get("select") else { return Ok(()) };
    let mut path = vec!["select".to_owned()];
    let Err(problem) = check_complete(select, &mut path) else { return Ok(()) };
    Err(Rejection::invalid(&path.join("."), format!("{problem}; it would not restrict the selection")))
}

/// Returns the problem of the first value that is null or empty. `path` is then its path. Recursive; the transport
/// bounds the depth.
fn check_complete(value: &Value, path: &mut Vec<String>) -> Result<(), &'static str> {
    match value {
        Value::Null => Err("a value in a selector must not be null"),
        // An empty id is refused as malformed.
        Value::String(text) if text.is_empty() && !is_in_list_of_ids(path) => {
            Err("a text in a selector must not be empty")
        }
        Value::List(items) if items.is_empty() => Err("a list in a selector must not be empty"),
        Value::Object(fields) if fields.is_empty() => Err("a filter in a selector needs at least one condition"),
        Value::List(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            path.push(index.to_string());
            check_complete(item, path).map(|()| drop(path.pop()))
        }),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            path.push(name.to_string());
            check_complete(value, path).map(|()| drop(path.pop()))
        }),
        _ => Ok(()),
    }
}

/// Returns whether a path is that of an item of a list of ids.
fn is_in_list_of_ids(path: &[String]) -> bool {
    matches!(path, [.., list, _] if list == "ids")
}

/// Returns the selection of ids.
pub(super) fn check_ids<F>(ids: Vec<async_graphql::ID>) -> Result<Selected<F>, Rejection> {
    if (1..=MAX_IDS).contains(&ids.len()) {
        return Ok(Selected::Ids(ids));
    }
    Err(Rejection::invalid("select.ids", format!("a selector has 1 to {MAX_IDS} ids, not {}", ids.len())))
}

/// Returns the selection of everything.
pub(super) fn check_all<F>(all: bool) -> Result<Selected<F>, Rejection> {
    if all { Ok(Selected::All) } else { Err(Rejection::invalid("select.all", "all must be true")) }
}
