//! Settings of the process: its machine id, and settings for development and tests.

use std::path::PathBuf;

use super::reader::Reader;
use noetl_domain::ids::MAX_MACHINE_ID;

pub(super) const NAMES: [&str; 3] = ["NOETL_SERVER_MACHINE_ID", "NOETL_FAULT_POINT", "NOETL_PG_BIN"];

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
    let fixed = read.sources.text("NOETL_SERVER_MACHINE_ID").is_some();
    ProcessSettings {
        machine_id: fixed.then(|| read.within("NOETL_SERVER_MACHINE_ID", 0, 0, MAX_MACHINE_ID)),
        pg_bin: read.sources.text("NOETL_PG_BIN").map(PathBuf::from),
        fault_point: read.sources.text("NOETL_FAULT_POINT").map(str::to_owned),
    }
}
