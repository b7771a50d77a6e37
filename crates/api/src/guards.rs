//! Guards: optional input fields that keep a mutation from doing too much, such as a version or a dedup key.
//!
//! A guard may be left out. A guard that is written must have a value: null, or a variable without a value, is refused,
//! because the mutation would run as if the guard were not there.

use async_graphql::{Context, MaybeUndefined, Pos};

use graphql_transport::AbsentValues;
use noetl_use_cases::error::Rejection;

/// The argument `input` of the current field, or an input object inside it, as the document contains it.
#[derive(Debug, Clone)]
pub struct WrittenInput<'a> {
    /// Position of the field in the document.
    field: Pos,
    absent: Option<&'a AbsentValues>,
    /// Path from the field's arguments to the input object.
    path: Vec<String>,
}

impl<'a> WrittenInput<'a> {
    /// Returns the argument `input` of the current field.
    pub fn new(ctx: &Context<'a>) -> Self {
        Self { field: ctx.item.pos, absent: ctx.data_opt(), path: vec!["input".to_owned()] }
    }

    /// Returns an input object in a list of this input object.
    #[must_use]
    pub fn item(&self, list: &str, index: usize) -> Self {
        let path = self.path.iter().cloned().chain([list.to_owned(), index.to_string()]);
        Self { path: path.collect(), ..*self }
    }

    /// Returns the value of a guard; `None` if the caller did not write it. `field` is its path in the input object.
    pub fn guard<T>(&self, field: &str, value: MaybeUndefined<T>) -> Result<Option<T>, Rejection> {
        match value {
            MaybeUndefined::Value(value) => Ok(Some(value)),
            MaybeUndefined::Undefined => self.check(field).map(|()| None),
            MaybeUndefined::Null => Err(Rejection::invalid(field, "the value must not be null; leave the field out")),
        }
    }

    /// Refuses a guard that is a variable without a value.
    pub fn check(&self, field: &str) -> Result<(), Rejection> {
        if self.absent().any(|path| path.iter().eq(field.split('.'))) {
            return Err(without_value(field));
        }
        Ok(())
    }

    /// Refuses a variable without a value anywhere in a field.
    pub fn check_within(&self, field: &str) -> Result<(), Rejection> {
        let absent = self.absent().find(|path| path.first().is_some_and(|first| first == field));
        absent.map_or(Ok(()), |path| Err(without_value(&path.join("."))))
    }

    /// Returns the paths, in this input object, of the fields whose variable has no value.
    fn absent(&self) -> impl Iterator<Item = &[String]> {
        let of_field = self.absent.into_iter().flat_map(|absent| absent.of_field(self.field));
        of_field.filter_map(|path| path.strip_prefix(self.path.as_slice()))
    }
}

fn without_value(field: &str) -> Rejection {
    Rejection::invalid(field, "the variable has no value; send a value, or leave the field out of the document")
}
