//! The variables of a request, as the text that arrived.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use plain_json::{self as json, Borrowed, Typed};

/// Values of a request's variables: a JSON object as text, or nothing. They are read when the types of the operation are
/// known.
#[derive(Clone, Default)]
pub(super) struct GivenVariables(Option<Bytes>);

impl GivenVariables {
    /// Returns the variables that `given` found in `source`. They share the memory of `source`.
    pub(super) fn of(source: &Bytes, given: Option<ObjectText<'_>>) -> Self {
        Self(given.map(|ObjectText(text)| source.slice_ref(text.as_bytes())))
    }

    /// Reads the variables from a text of their own, an object or null.
    pub(super) fn parse(text: String) -> serde_json::Result<Self> {
        let text = Bytes::from(text);
        match json::borrow(&text) {
            Ok(Parameter(given)) => Ok(Self::of(&text, given)),
            // This type's errors name the value that is not an object.
            Err(error) => Err(json::parse::<AnyObject>(&text).err().unwrap_or(error)),
        }
    }

    /// Returns the text of the object; `None` if the request has no variables.
    pub(super) fn text(&self) -> Option<&Bytes> {
        self.0.as_ref()
    }
}

impl fmt::Debug for GivenVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GivenVariables").field(&self.0.as_ref().map(Bytes::len)).finish()
    }
}

/// Variables that a request has as a text of their own.
#[derive(Debug, serde::Deserialize)]
#[serde(transparent)]
struct Parameter<'a>(#[serde(borrow)] Option<ObjectText<'a>>);

impl<'a> Borrowed<'a> for Parameter<'a> {}

/// A JSON object whose content is not kept.
#[derive(Debug)]
pub(super) struct AnyObject;

impl Typed for AnyObject {}

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// Text of a JSON object, without its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectText<'a>(&'a str);

impl<'de: 'a, 'a> Deserialize<'de> for ObjectText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'a RawValue>::deserialize(deserializer)?.get();
        if text.starts_with('{') { Ok(Self(text)) } else { Err(D::Error::custom("expected an object")) }
    }
}

#[cfg(test)]
impl From<async_graphql::Variables> for GivenVariables {
    fn from(variables: async_graphql::Variables) -> Self {
        Self(Some(serde_json::to_vec(&variables).unwrap().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_an_object_or_absent() {
        let given = GivenVariables::parse(r#" {"a": [1]} "#.to_owned()).unwrap();
        assert_eq!(&given.text().unwrap()[..], br#"{"a": [1]}"#);
        assert_eq!(GivenVariables::parse("null".to_owned()).unwrap().text(), None);
        for (text, expected) in [
            ("7", "invalid type: integer `7`, expected a map"),
            ("[1]", "invalid type: sequence, expected a map"),
            (r#"{"a": }"#, "expected value at line 1 column 7"),
        ] {
            let error = GivenVariables::parse(text.to_owned()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
