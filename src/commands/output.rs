//! Output of commands that print a result.

use std::io::{ErrorKind, Write, stderr, stdout};

use clap::ValueEnum;
use serde_json::Value;

use super::Failure;

/// Form of a result.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(super) enum Form {
    /// Columns for people
    #[default]
    Table,
    /// A JSON document
    Json,
}

/// Prints a text. A reader that closes the pipe early, such as `head`, wants no more output, so this is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut output = stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints a line about progress to standard error. A reader that is gone does not matter.
pub(super) fn note(line: &str) {
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Returns a table of a list of rows, or of one row.
#[must_use]
pub fn table(columns: &[&str], rows: &Value) -> String {
    let rows = rows.as_array().map_or_else(|| std::slice::from_ref(rows), Vec::as_slice);
    let body = rows.iter().map(|row| columns.iter().map(|column| cell(&row[*column])).collect());
    let head = columns.iter().map(|column| column.to_uppercase()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(body).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns a value in one line, without characters that a terminal would obey.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => {
            text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        }
        other => other.to_string(),
    }
}
