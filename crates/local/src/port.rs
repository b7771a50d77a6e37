//! Ports of the private servers: the requested port, else the port of the last run, else any free port.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::error::LocalError;

/// Ports from which free ones are chosen. They are below those that the system gives to clients (on Linux from 32768, on
/// macOS from 49152), so a server that restarts finds its port free.
const PORTS: Range<u16> = 20_000..30_000;
/// Number of ports that are tried before none counts as free.
const ATTEMPTS: usize = 1000;

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
            None => free_port().map_err(LocalError::io("find a free port for", Path::new(server))),
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

/// Returns a free port of 127.0.0.1, chosen at random.
///
/// # Errors
///
/// Fails if no free port was found.
pub fn free_port() -> io::Result<u16> {
    let random = RandomState::new();
    let offset = |attempt| u16::try_from(random.hash_one(attempt) % u64::from(PORTS.end - PORTS.start)).ok();
    let mut ports = (0..ATTEMPTS).filter_map(|attempt| Some(PORTS.start + offset(attempt)?));
    ports.find(|port| is_free(*port)).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}
