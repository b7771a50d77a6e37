//! `documents extract`: creates a manifest of trusted documents from a folder of .graphql files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::app::{AppError, document_limits};
use graphql_transport::TypeSystem;
use graphql_transport::trusted::Manifest;
use graphql_transport::trusted::extract::{Source, extract};
use noetl_api::schema;

/// Commands for trusted documents.
#[derive(Debug, Subcommand)]
pub(super) enum Documents {
    /// Create a manifest of the operations in a folder's .graphql and .gql files, each with the fragments that it uses.
    /// Fails if an operation is invalid for the schema
    Extract(Options),
}

/// Options of `documents extract`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Folder of the files; subfolders are read too
    folder: PathBuf,
    /// Format of the manifest
    #[arg(long, value_enum, default_value_t = Format::Relay)]
    format: Format,
    /// File to write the manifest to [default: standard output]
    #[arg(long)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A map from SHA-256 to document
    Relay,
    /// A list with operation names, as written by Apollo's tools
    Apollo,
}

/// Reason why no manifest was created.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// A file or folder can't be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Documents are invalid; one text for each problem.
    #[error("the documents can't be used:\n  - {}", .0.join("\n  - "))]
    Problems(Vec<String>),
    /// The folder has no operations.
    #[error("{0} has no operations in .graphql or .gql files")]
    Empty(PathBuf),
    /// The program's own schema can't be parsed.
    #[error(transparent)]
    Schema(#[from] AppError),
    /// The manifest can't be written as JSON.
    #[error("the manifest can't be written: {0}")]
    Json(#[from] serde_json::Error),
}

pub(super) fn run(command: Documents) -> Result<(), DocumentsError> {
    let Documents::Extract(options) = command;
    let mut sources = Vec::new();
    read(&options.folder, &mut sources)?;
    let types = TypeSystem::from_sdl(&schema::sdl()).map_err(|error| AppError::Schema(error.to_string()))?;
    let extracted = extract(&sources, &types, &document_limits()).map_err(DocumentsError::Problems)?;
    if extracted.is_empty() {
        return Err(DocumentsError::Empty(options.folder));
    }
    let manifest = match options.format {
        Format::Relay => Manifest::relay(&extracted),
        Format::Apollo => Manifest::apollo(&extracted),
    };
    let text = serde_json::to_string_pretty(&manifest)?;
    if let Some(path) = options.output {
        return std::fs::write(&path, text + "\n").map_err(|source| DocumentsError::File { path, source });
    }
    println!("{text}");
    Ok(())
}

/// Reads the files of a folder in the order of their paths.
fn read(folder: &Path, sources: &mut Vec<Source>) -> Result<(), DocumentsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| DocumentsError::File { path, source }
    };
    let entries = std::fs::read_dir(folder).map_err(failed(folder))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed(folder))?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "graphql" || extension == "gql") {
            let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
            sources.push(Source { path: path.display().to_string(), text });
        }
    }
    Ok(())
}
