//! Reads settings and collects their problems.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use super::{ConfigError, Setting, Sources};

/// Reader of a set of sources, with the problems found so far.
pub(super) struct Reader<'a> {
    pub(super) sources: &'a Sources,
    pub(super) problems: Vec<String>,
    /// Values of the numbers, flags and choices that were read, by name. None of them is a secret.
    values: BTreeMap<&'static str, Setting>,
    /// Allowed values of the settings that are not free text, by name.
    allowed: BTreeMap<&'static str, String>,
}

impl<'a> Reader<'a> {
    /// Reads these sources.
    pub(super) const fn new(sources: &'a Sources) -> Self {
        Self { sources, problems: Vec::new(), values: BTreeMap::new(), allowed: BTreeMap::new() }
    }

    /// Returns the values that were read, in the order of their names.
    pub(super) fn values(&self) -> Vec<Setting> {
        self.values.values().cloned().collect()
    }

    /// Returns the allowed values of a setting; `None`: it is a text, or no setting of this name was read.
    pub(super) fn allowed(&self, name: &str) -> Option<&str> {
        self.allowed.get(name).map(String::as_str)
    }

    fn note(&mut self, name: &'static str, value: &impl Display) {
        let is_default = self.sources.text(name).is_none();
        self.values.insert(name, Setting { name, value: value.to_string(), is_default });
    }

    /// Adds a problem: a sentence that names the setting and says how to correct it. It must not contain a secret.
    pub(super) fn problem(&mut self, problem: impl Into<String>) {
        // A setting may be read twice.
        let problem = problem.into();
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Returns `value`, or the problems if any were found.
    pub(super) fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() { Ok(value) } else { Err(ConfigError(self.problems)) }
    }

    /// Parses a setting; `expected` describes the valid values.
    pub(super) fn parsed<T: FromStr + Display>(&mut self, name: &'static str, default: T, expected: &str) -> T {
        self.allowed.insert(name, expected.to_owned());
        let value = match self.sources.text(name).map(str::parse) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(_)) => {
                let text = self.sources.text(name).unwrap_or_default();
                self.problem(format!("{name} is {text:?}; set it to {expected}"));
                default
            }
        };
        self.note(name, &value);
        value
    }

    /// Parses a number from `least` to `most`.
    pub(super) fn within<T: FromStr + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        default: T,
        least: T,
        most: T,
    ) -> T {
        let expected = range(&least, &most);
        let number = self.parsed(name, default, &expected);
        if number < least || number > most {
            self.problem(format!("{name} is {number}; set it to {expected}"));
        }
        number
    }

    /// Parses a number from `least` to `most`; `None` if the setting is absent.
    pub(super) fn optional<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        name: &'static str,
        least: T,
        most: T,
    ) -> Option<T> {
        self.allowed.insert(name, range(&least, &most));
        self.sources.text(name)?;
        Some(self.within(name, least, least, most))
    }

    /// Parses a flag: true, 1, yes or on; false, 0, no or off.
    pub(super) fn flag(&mut self, name: &'static str, default: bool) -> bool {
        self.allowed.insert(name, "true or false".to_owned());
        let value = match self.sources.text(name).map(str::to_ascii_lowercase).as_deref() {
            None => default,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.problem(format!("{name} is {other:?}; set it to true or false"));
                default
            }
        };
        self.note(name, &value);
        value
    }
}

/// Describes the numbers from `least` to `most`.
fn range(least: &impl Display, most: &impl Display) -> String {
    format!("a number from {least} to {most}")
}
