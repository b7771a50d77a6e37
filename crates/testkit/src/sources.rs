//! The repository's files, for tests that check a rule of the code or use an example.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the folder of the repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the Rust files of the server and of the crates that it consists of, without their tests' folders.
#[must_use]
pub fn sources() -> Vec<PathBuf> {
    let crates = entries(&repository().join("crates")).map(|folder| folder.join("src"));
    crates
        .filter(|folder| !folder.ends_with("testkit/src"))
        .chain([repository().join("src")])
        .flat_map(rust_files)
        .collect()
}

fn rust_files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_dir() {
        return entries(&path).flat_map(rust_files).collect();
    }
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    if is_rust { vec![path] } else { Vec::new() }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}
