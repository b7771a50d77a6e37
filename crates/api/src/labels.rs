//! Labels of executions and source subscriptions, and conditions on them.

use async_graphql::{InputObject, SimpleObject};

use noetl_domain::labels as domain;
use noetl_use_cases::bounds::check_count;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::{check_label_name, check_label_value};

/// Maximum number of conditions on labels in a filter.
const MAX_CONDITIONS: usize = 5;
/// Maximum number of values in a condition.
const MAX_VALUES: usize = 20;

/// Label of an execution or a source subscription.
#[derive(Debug, SimpleObject)]
pub struct Label {
    /// Name, unique among the labels of the object.
    name: String,
    /// Value.
    value: String,
}

impl Label {
    /// Returns the labels, ordered by name.
    #[must_use]
    pub fn all(labels: &domain::Labels) -> Vec<Self> {
        labels.pairs().map(|(name, value)| Self { name: name.to_owned(), value: value.to_owned() }).collect()
    }
}

/// Label of an execution.
#[derive(Debug, InputObject)]
pub struct LabelInput {
    /// Name: 1 to 63 characters. The first one is a letter from a to z or a digit; the others are these, `.`, `_`, `/` and
    /// `-`.
    name: String,
    /// Value: 1 to 128 bytes without control characters.
    value: String,
}

impl From<LabelInput> for domain::Label {
    fn from(LabelInput { name, value }: LabelInput) -> Self {
        Self { name, value }
    }
}

/// Condition on a label of an object. It needs exactly one of `equals`, `in` and `exists`.
#[derive(Debug, Clone, InputObject)]
pub struct LabelFilter {
    /// Name of the label.
    name: String,
    /// Only objects whose label has this value.
    equals: Option<String>,
    /// Only objects whose label has one of these values (1 to 20).
    #[graphql(name = "in")]
    one_of: Option<Vec<String>>,
    /// Only objects that have the label, with any value. It can only be true.
    exists: Option<bool>,
}

impl LabelFilter {
    /// Converts 1 to 5 conditions and checks their texts. `at` is the path of the list in the field's arguments.
    pub fn parse_all(at: &str, filters: Option<Vec<Self>>) -> Result<Vec<domain::LabelCondition>, Rejection> {
        let Some(filters) = filters else { return Ok(Vec::new()) };
        check_count(at, filters.len(), MAX_CONDITIONS)?;
        filters.into_iter().enumerate().map(|(index, filter)| filter.parse(&format!("{at}.{index}"))).collect()
    }

    fn parse(self, at: &str) -> Result<domain::LabelCondition, Rejection> {
        let field = |name: &str| format!("{at}.{name}");
        check_label_name(&field("name"), &self.name)?;
        let values = match (self.equals, self.one_of, self.exists) {
            (Some(value), None, None) => {
                check_label_value(&field("equals"), &value)?;
                Some(vec![value])
            }
            (None, Some(values), None) => {
                check_count(&field("in"), values.len(), MAX_VALUES)?;
                values.iter().try_for_each(|value| check_label_value(&field("in"), value))?;
                Some(values)
            }
            (None, None, Some(true)) => None,
            (None, None, Some(false)) => return Err(Rejection::invalid(&field("exists"), "exists can only be true")),
            _ => return Err(Rejection::invalid(at, "a condition needs exactly one of equals, in and exists")),
        };
        Ok(domain::LabelCondition { name: self.name, values })
    }
}
