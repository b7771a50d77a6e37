//! Trusted documents.

use std::sync::Arc;

use super::Definition;
use super::reader::Reader;
use graphql_transport::trusted::{Manifest, Mode, Trusted};

pub(super) const SETTINGS: [Definition; 2] = [
    Definition::text(
        "NOETL_DOCUMENTS",
        "none",
        "manifest of [trusted documents](../guide/security.md#trusted-documents)",
    ),
    Definition::value("NOETL_DOCUMENTS_MODE", "treatment of documents that are not in the manifest"),
];

pub(super) fn read(read: &mut Reader<'_>) -> Trusted {
    let mode = read.parsed("NOETL_DOCUMENTS_MODE", Mode::Off, "off, warn or enforce");
    let Some(path) = read.sources.text("NOETL_DOCUMENTS").map(str::to_owned) else {
        if mode != Mode::Off {
            read.problem(
                "NOETL_DOCUMENTS_MODE needs NOETL_DOCUMENTS; set it to the path of a manifest, which \
                 `noetl-graphql documents extract` creates",
            );
        }
        return Trusted::default();
    };
    let manifest = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let manifest = manifest.and_then(|text| Manifest::from_json(&text).map_err(|error| error.to_string()));
    match manifest {
        Ok(manifest) => Trusted { manifest: Arc::new(manifest), mode },
        Err(problem) => {
            read.problem(format!("NOETL_DOCUMENTS names {path:?}: {problem}"));
            Trusted::default()
        }
    }
}
