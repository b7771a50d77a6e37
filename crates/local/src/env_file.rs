//! `<data-dir>/env`: the addresses of the running servers, as lines that a POSIX shell can source.
//!
//! The file exists only while the servers run. It is replaced atomically, so a reader never sees a part of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::LocalError;

#[derive(Debug)]
pub(super) struct EnvFile {
    path: PathBuf,
}

impl EnvFile {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join("env") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, settings: &[(&str, String)]) -> Result<(), LocalError> {
        let mut text = String::new();
        for (key, value) in settings {
            text.extend([key, "=", &shell_word(value), "\n"]);
        }
        let draft = self.path.with_extension("new");
        fs::write(&draft, text).map_err(LocalError::io("write", &draft))?;
        fs::rename(&draft, &self.path).map_err(LocalError::io("write", &self.path))
    }

    pub(super) fn remove(&self) -> Result<(), LocalError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LocalError::io("remove", &self.path)(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for EnvFile {
    fn drop(&mut self) {
        // Best effort: the next start removes a stale file.
        let _ = self.remove();
    }
}

fn shell_word(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn shell_word_quotes_values_only_where_needed() {
        assert_eq!(shell_word("postgres://noetl@127.0.0.1:1/db"), "postgres://noetl@127.0.0.1:1/db");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's $x"), r"'it'\''s $x'");
    }
}
