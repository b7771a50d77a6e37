//! A broker that loses data: its store is deleted, or replaced by an earlier copy, as after a power failure or a
//! restored disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Deployment;

impl Deployment {
    /// Copies the broker's store and returns the copy's folder. The broker is stopped meanwhile.
    pub async fn copy_broker_store(&mut self) -> PathBuf {
        self.nats.stop().await;
        let copy = self.broker_store().with_extension("earlier");
        copy_folder(&self.broker_store(), &copy);
        self.nats.restart().await.unwrap();
        copy
    }

    /// Kills the broker and replaces its store by an earlier copy. The broker stays stopped.
    pub async fn kill_broker_and_restore_store(&mut self, copy: &Path) {
        self.kill_broker_and_delete_store().await;
        std::fs::rename(copy, self.broker_store()).unwrap();
    }

    /// Kills the broker and deletes its store. The broker stays stopped.
    pub async fn kill_broker_and_delete_store(&mut self) {
        self.nats.kill_9().await;
        std::fs::remove_dir_all(self.broker_store()).unwrap();
    }

    fn broker_store(&self) -> PathBuf {
        self.folder.path().join("nats/store")
    }
}

/// Copies a folder with the owners and permissions of its files.
pub fn copy_folder(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}
