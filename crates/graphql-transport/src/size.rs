//! The size of a response as JSON, found without storing the text.

use std::io::{self, Write};

use async_graphql::Value;
use serde::Serialize;

/// Returns an upper bound of a value's bytes as JSON, without writing it.
pub(super) fn at_most(value: &Value) -> usize {
    // A byte of a string becomes at most six bytes, and at most one byte follows each item.
    let text = |text: &str| 6 * text.len() + 2;
    match value {
        Value::Binary(text) => text.len(),
        Value::String(string) => text(string),
        Value::Enum(name) => text(name),
        Value::List(items) => 2 + items.iter().map(|item| at_most(item) + 1).sum::<usize>(),
        Value::Object(fields) => 2 + fields.iter().map(|(name, value)| text(name) + at_most(value) + 2).sum::<usize>(),
        Value::Null | Value::Boolean(_) => 5,
        // The longest are floats, such as -2.2250738585072014e-308.
        Value::Number(_) => 32,
    }
}

/// Returns the number of bytes of the JSON texts in a value.
pub(super) fn of_texts(value: &Value) -> usize {
    match value {
        Value::Binary(text) => text.len(),
        Value::List(items) => items.iter().map(of_texts).sum(),
        Value::Object(fields) => fields.values().map(of_texts).sum(),
        _ => 0,
    }
}

/// Returns whether a value has at most `limit` bytes as JSON.
pub(super) fn fits(value: &impl Serialize, limit: usize) -> bool {
    serde_json::to_writer(BoundedWriter(limit), value).is_ok()
}

/// Writer that accepts a number of bytes, then fails.
struct BoundedWriter(usize);

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_covers_the_written_size_and_fits_is_exact() {
        let numbers =
            serde_json::json!([i64::MIN, u64::MAX, f64::MIN, f64::MIN_POSITIVE, -2.225_073_858_507_201_4e-308]);
        let odd = serde_json::json!({ "\u{1}\"": ["\u{0}\u{1f}\\", null, true, false, {}, []], "numbers": numbers });
        let value = Value::from_json(odd).unwrap();
        let written = serde_json::to_string(&value).unwrap().len();
        assert!(at_most(&value) >= written);
        assert!(fits(&value, written) && !fits(&value, written - 1));
    }
}
