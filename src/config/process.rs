//! Settings of the process: its machine id, and settings for development and tests.

use std::path::PathBuf;

use super::Definition;
use super::reader::Reader;
use noetl_domain::ids::MAX_MACHINE_ID;

pub(super) const SETTINGS: [Definition; 3] = [
    Definition::text("NOETL_SERVER_MACHINE_ID", "leased", "fixed machine id"),
    Definition::text(
        "NOETL_FAULT_POINT",
        "none",
        "name of the point of the code at which the process stops, for tests",
    ),
    Definition::text("NOETL_PG_BIN", "searched", "folder of PostgreSQL's programs, for `dev`"),
];

/// Settings of the process itself.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Fixed machine id; `None`: a free one is leased.
    pub machine_id: Option<u16>,
    /// Folder of PostgreSQL's server programs for `dev`; `None`: the usual folders are searched.
    pub pg_bin: Option<PathBuf>,
    /// Name of the point at which the process stops, for tests.
    pub fault_point: Option<String>,
}

pub(super) fn read(read: &mut Reader<'_>) -> ProcessSettings {
    ProcessSettings {
        machine_id: read.optional("NOETL_SERVER_MACHINE_ID", 0, MAX_MACHINE_ID),
        pg_bin: read.sources.text("NOETL_PG_BIN").map(PathBuf::from),
        fault_point: read.sources.text("NOETL_FAULT_POINT").map(str::to_owned),
    }
}
