//! Reads settings and collects their problems.

use std::fmt::Display;
use std::str::FromStr;

use super::{ConfigError, Sources};

/// Reader of a set of sources, with the problems found so far.
pub(super) struct Reader<'a> {
    pub(super) sources: &'a Sources,
    pub(super) problems: Vec<String>,
}

impl Reader<'_> {
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
    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, default: T, expected: &str) -> T {
        let Some(text) = self.sources.text(name) else {
            return default;
        };
        text.parse().unwrap_or_else(|_| {
            self.problem(format!("{name} is {text:?}; set it to {expected}"));
            default
        })
    }

    /// Parses a number from `least` to `most`.
    pub(super) fn within<T: FromStr + PartialOrd + Display>(&mut self, name: &str, default: T, least: T, most: T) -> T {
        let expected = format!("a number from {least} to {most}");
        let number = self.parsed(name, default, &expected);
        if number < least || number > most {
            self.problem(format!("{name} is {number}; set it to {expected}"));
        }
        number
    }

    /// Parses a flag: true, 1, yes or on; false, 0, no or off.
    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        match self.sources.text(name).map(str::to_ascii_lowercase).as_deref() {
            None => default,
            Some("true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                self.problem(format!("{name} is {other:?}; set it to true or false"));
                default
            }
        }
    }
}
