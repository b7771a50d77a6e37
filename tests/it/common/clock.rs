//! Clocks that are wrong.

use std::path::PathBuf;

use super::{Deployment, Server};

impl Deployment {
    /// A replica on a machine whose clock is an hour behind. Its monotonic clock runs as everywhere.
    pub async fn replica_an_hour_behind(&self) -> Server {
        let library = faketime().expect("libfaketime is missing; `scripts/prepare test` installs it");
        let preload = library.to_str().unwrap();
        let settings = [("LD_PRELOAD", preload), ("FAKETIME", "-3600"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
        self.replica_with(&settings).await
    }
}

fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}
