//! The optional TOML file.

use std::collections::BTreeMap;

use super::{ConfigError, is_known};

/// Reads a file's settings and returns them by their names in the environment.
pub(super) fn read(path: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    let wrong = |problem: String| ConfigError(vec![format!("NOETL_CONFIG names {path:?}: {problem}")]);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let (mut values, mut problems) = (BTreeMap::new(), Vec::new());
    for (key, value) in table {
        let name = format!("NOETL_{}", key.to_ascii_uppercase());
        match plain(&value) {
            Some(text) if is_known(&name) => drop(values.insert(name, text)),
            Some(_) => problems.push(format!("{path}: the setting {key} does not exist")),
            None => problems.push(format!("{path}: {key} must be a text, a number, true or false, or a list of texts")),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(ConfigError(problems)) }
}

fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}
