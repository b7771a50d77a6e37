//! Replicas with a wrong wall clock.

use std::path::PathBuf;

use super::{Deployment, Server};

impl Deployment {
    /// Starts a replica with additional settings, whose wall clock is one hour slow. Its monotonic clock is correct.
    pub async fn replica_an_hour_behind(&self, settings: &[(&str, &str)]) -> Server {
        let clock = slow_clock();
        let clock = clock.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.replica_with(&[&clock, settings].concat()).await
    }
}

/// Returns the environment of a process whose wall clock is one hour slow.
pub fn slow_clock() -> [(&'static str, String); 3] {
    let library = faketime().expect("libfaketime is missing; `scripts/prepare test` installs it");
    let preload = library.to_str().unwrap().to_owned();
    [("LD_PRELOAD", preload), ("FAKETIME", "-3600".to_owned()), ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned())]
}

fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}
