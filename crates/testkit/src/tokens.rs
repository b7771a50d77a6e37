//! A token file that the command line writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::binary;

/// A file of tokens. It is deleted when the value is dropped.
pub struct TokenFile {
    folder: tempfile::TempDir,
}

impl TokenFile {
    /// Creates a file without tokens.
    pub fn new() -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(file.path(), "# tokens of a test\n").unwrap();
        file
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("tokens")
    }

    /// Returns the setting that names the file.
    pub fn setting(&self) -> (&'static str, String) {
        ("NOETL_AUTH_TOKENS", self.path().to_str().unwrap().to_owned())
    }

    /// Adds a token with `token new` and the given options, and returns the token.
    pub fn add(&self, options: &[&str]) -> String {
        new_token(&self.path(), options)
    }

    /// Removes the line of a subject's token.
    pub fn remove(&self, subject: &str) {
        let text = std::fs::read_to_string(self.path()).unwrap();
        let name = format!("\"subject\":\"{subject}\"");
        let kept: Vec<&str> = text.lines().filter(|line| !line.contains(&name)).collect();
        assert!(kept.len() < text.lines().count(), "no token of {subject}: {text}");
        self.write(&format!("{}\n", kept.join("\n")));
    }

    /// Replaces the file atomically, as an editor does.
    pub fn write(&self, text: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.path()).unwrap();
    }
}

fn new_token(file: &Path, options: &[&str]) -> String {
    let mut command = Command::new(binary());
    let output = command.args(["token", "new", "--file"]).arg(file).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
