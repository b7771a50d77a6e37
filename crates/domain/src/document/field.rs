//! Fields of a document, with their places. Each rule is written once, and its error names the place.

use std::fmt;

use serde_json::Value;

use crate::labels::Labels;

/// A field of a document, which may be absent.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    place: String,
    value: Option<&'a Value>,
    /// Whether unknown names of settings are accepted.
    lenient: bool,
}

/// Name of a setting in a document, and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<T> {
    /// The name.
    pub name: String,
    /// The meaning; `None` if the name is not known.
    pub known: Option<T>,
}

impl<T: Named + PartialEq> Choice<T> {
    /// Returns the choice of a name, known or not.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), known: T::named(name) }
    }

    /// Returns the choice of a known value.
    pub fn of(value: T) -> Self {
        let name = T::NAMES.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| *name);
        Self { name: name.to_owned(), known: Some(value) }
    }
}

/// A field whose value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} {problem}")]
pub struct InvalidField {
    /// Place of the field, such as `spec.dispatch.batch_max`.
    pub place: String,
    /// Reason for the refusal.
    pub problem: Problem,
}

/// Reason why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The field needs a text that is not empty.
    Required,
    /// The text is none of the known names.
    NotOneOf(Vec<&'static str>),
    /// The value is not true or false.
    NotAFlag,
    /// The value is not a whole number from 1.
    NotPositive,
    /// The number is larger than the maximum.
    Above(u64),
    /// The value is not a map.
    NotAMap,
    /// The value is not a list.
    NotAList,
    /// The path does not begin with `/`.
    NotAbsolute,
    /// Messages of a global order can't be mixed with live ones.
    UnsafeWithGlobalOrder,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("is required"),
            Self::NotOneOf(names) => write!(f, "must be one of: {}", names.join(", ")),
            Self::NotAFlag => f.write_str("must be true or false"),
            Self::NotPositive => f.write_str("must be a whole number from 1"),
            Self::Above(most) => write!(f, "must be at most {most}"),
            Self::NotAMap => f.write_str("must be a map"),
            Self::NotAList => f.write_str("must be a list"),
            Self::NotAbsolute => f.write_str("must begin with /"),
            Self::UnsafeWithGlobalOrder => {
                f.write_str("can't be interleave if the order is global; use ordered_then_live, or another order")
            }
        }
    }
}

/// A setting with a fixed set of names.
pub trait Named: Copy + 'static {
    /// The names and their meanings.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the value with this name.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl<'a> Field<'a> {
    /// Returns a field at the top of a document.
    #[must_use]
    pub fn of(document: &'a Value, name: &str) -> Self {
        Self { place: name.to_owned(), value: document.get(name), lenient: false }
    }

    /// Returns the field with all fields in it, of which unknown names of settings are accepted.
    #[must_use]
    pub fn lenient(self) -> Self {
        Self { lenient: true, ..self }
    }

    /// Returns a field of this map.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        let value = self.value.and_then(|value| value.get(name));
        Self { place: format!("{}.{name}", self.place), value, lenient: self.lenient }
    }

    /// Returns whether the document has the field. Null counts as present.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the text of the field. Another value counts as absent, as in NoETL.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        self.value.and_then(Value::as_str)
    }

    /// Returns the text of the field if it is not empty.
    #[must_use]
    pub fn filled(&self) -> Option<&'a str> {
        self.text().filter(|text| !text.is_empty())
    }

    /// Returns the text, which must not be empty.
    pub fn required(&self) -> Result<&'a str, InvalidField> {
        self.filled().ok_or_else(|| self.refused(Problem::Required))
    }

    /// Returns the text, which may be empty.
    pub fn any_text(&self) -> Result<&'a str, InvalidField> {
        self.text().ok_or_else(|| self.refused(Problem::Required))
    }

    /// Returns the name in this field with its meaning, if the field is a text. An unknown name is refused, unless the
    /// field is lenient.
    pub fn name<T: Named + PartialEq>(&self) -> Result<Option<Choice<T>>, InvalidField> {
        let choice = self.text().map(Choice::named);
        if !self.lenient && choice.as_ref().is_some_and(|choice: &Choice<T>| choice.known.is_none()) {
            return Err(self.refused(Problem::NotOneOf(names::<T>())));
        }
        Ok(choice)
    }

    /// Returns the name in this field with its meaning; the field must be a text.
    pub fn required_name<T: Named + PartialEq>(&self) -> Result<Choice<T>, InvalidField> {
        self.name()?.ok_or_else(|| self.refused(Problem::NotOneOf(names::<T>())))
    }

    /// Returns whether an optional flag is set.
    pub fn flag(&self) -> Result<bool, InvalidField> {
        match self.value {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.refused(Problem::NotAFlag)),
        }
    }

    /// Returns an optional whole number from 1.
    pub fn positive(&self) -> Result<Option<u64>, InvalidField> {
        let number = |value: &Value| value.as_u64().filter(|number| *number > 0);
        self.value.map(|value| number(value).ok_or_else(|| self.refused(Problem::NotPositive))).transpose()
    }

    /// Checks that the field is absent or a map, and returns whether it is present.
    pub fn is_map(&self) -> Result<bool, InvalidField> {
        match self.value {
            Some(value) if !value.is_object() => Err(self.refused(Problem::NotAMap)),
            value => Ok(value.is_some()),
        }
    }

    /// Returns the items of an optional list.
    pub fn items(&self) -> Result<Vec<Self>, InvalidField> {
        let Some(value) = self.value else {
            return Ok(Vec::new());
        };
        let items = value.as_array().ok_or_else(|| self.refused(Problem::NotAList))?;
        let lenient = self.lenient;
        let item = |(index, value)| Self { place: format!("{}[{index}]", self.place), value: Some(value), lenient };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// Returns the texts of a list; other values are left out.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let items = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns the labels of a map. As in `metadata.labels`, what is not a label is left out.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.value.map(Labels::read).unwrap_or_default()
    }

    /// Returns the error of this field.
    #[must_use]
    pub fn refused(&self, problem: Problem) -> InvalidField {
        InvalidField { place: self.place.clone(), problem }
    }
}

fn names<T: Named>() -> Vec<&'static str> {
    T::NAMES.iter().map(|(name, _)| *name).collect()
}
