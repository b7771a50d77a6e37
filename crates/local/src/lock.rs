//! Lock of a data directory: one process at a time may use it. The kernel releases the lock when the holder ends, also
//! after kill -9.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::error::LocalError;

#[derive(Debug)]
pub(super) struct DataDirLock {
    _file: File,
}

impl DataDirLock {
    pub(super) fn acquire(data_dir: &Path) -> Result<Self, LocalError> {
        let path = data_dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LocalError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {
                write_holder(&mut file).map_err(LocalError::io("write", &path))?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                Err(LocalError::InUse { folder: data_dir.to_owned(), holder: read_holder(&mut file) })
            }
            Err(TryLockError::Error(error)) => Err(LocalError::io("lock", &path)(error)),
        }
    }
}

fn write_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => format!(" ({})", text.trim()),
        _ => String::new(),
    }
}
