//! Ports of the private servers: the requested port, else the port of the last run, else any free port.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use super::error::LocalError;

/// The file that stores the port of the last run.
#[derive(Debug)]
pub(super) struct KeptPort {
    file: PathBuf,
}

impl KeptPort {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { file: folder.join("port") }
    }

    /// Returns a port that is free. Another process may take it before the server binds it, so a start that fails
    /// chooses again.
    pub(super) fn choose(&self, server: &'static str, asked: Option<u16>) -> Result<u16, LocalError> {
        if let Some(port) = asked {
            return if is_free(port) { Ok(port) } else { Err(LocalError::PortTaken { server, port }) };
        }
        match self.last().filter(|port| is_free(*port)) {
            Some(port) => Ok(port),
            None => any_free().map_err(LocalError::io("find a free port for", Path::new(server))),
        }
    }

    pub(super) fn keep(&self, port: u16) -> Result<(), LocalError> {
        fs::write(&self.file, format!("{port}\n")).map_err(LocalError::io("write", &self.file))
    }

    fn last(&self) -> Option<u16> {
        fs::read_to_string(&self.file).ok()?.trim().parse().ok()
    }
}

pub(super) fn is_free(port: u16) -> bool {
    port != 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn any_free() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
