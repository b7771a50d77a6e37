//! Input objects whose fields are moved out of the value that the executor passes. The derived reading of an input
//! object copies each field, with everything in it.

use std::borrow::Cow;
use std::marker::PhantomData;

use async_graphql::indexmap::IndexMap;
use async_graphql::registry::Registry;
use async_graphql::{InputType, InputValueError, InputValueResult, Name, Value};

/// A value that is read from the fields of an input object.
pub trait FromFields: Sized + Send + Sync {
    /// The derived input object, which describes the fields in the schema.
    type Described: InputType;

    /// Takes the fields.
    fn from_fields(fields: &mut Fields<Self::Described>) -> Result<Self, InputValueError<Self::Described>>;
}

/// The fields of an input object that `D` describes.
pub struct Fields<D>(IndexMap<Name, Value>, PhantomData<fn() -> D>);

impl<D: InputType> Fields<D> {
    /// Takes a required field.
    pub(super) fn required<T: InputType>(&mut self, name: &str) -> Result<T, InputValueError<D>> {
        T::parse(self.0.swap_remove(name)).map_err(InputValueError::propagate)
    }

    /// Takes a field that can be absent or null.
    pub(super) fn optional<T: InputType>(&mut self, name: &str) -> Result<Option<T>, InputValueError<D>> {
        self.required(name)
    }
}

/// An input object, read from its fields.
#[derive(Debug)]
pub struct Moved<T>(pub(super) T);

impl<T: FromFields> InputType for Moved<T> {
    type RawValueType = Self;

    fn type_name() -> Cow<'static, str> {
        T::Described::type_name()
    }

    fn create_type_info(registry: &mut Registry) -> String {
        T::Described::create_type_info(registry)
    }

    fn parse(value: Option<Value>) -> InputValueResult<Self> {
        match value {
            Some(Value::Object(fields)) => {
                T::from_fields(&mut Fields(fields, PhantomData)).map(Self).map_err(InputValueError::propagate)
            }
            other => Err(InputValueError::expected_type(other.unwrap_or_default())),
        }
    }

    fn to_value(&self) -> Value {
        // Only a default value is shown in the schema, and these objects have none.
        Value::Null
    }

    fn as_raw_value(&self) -> Option<&Self> {
        Some(self)
    }
}
