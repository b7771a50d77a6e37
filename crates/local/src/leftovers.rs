//! Stops the processes of a previous run that was killed.
//!
//! A pid file is only a hint: its process may have ended, and another process may have its pid. So a process is
//! signalled only if its command line names the data folder.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use super::processes;

/// Time after which a process that was asked to stop is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// Stops the process in the first line of the pid file if its command line names the folder: first with the signal
/// `polite`, then with SIGKILL. Then removes the file, because Postgres does not start while a process has the pid in
/// it.
pub(super) async fn stop_leftover(server: &'static str, pid_file: &Path, folder: &Path, polite: Signal) {
    let Some(pid) = pid_in(pid_file) else { return };
    let is_gone = || !processes::names_path(pid, folder);
    if !is_gone() {
        tracing::info!(server, %pid, "stopping the server that a killed run left behind");
        for signal in [Signal::SIGCONT, polite] {
            // The process may have ended already.
            let _ = kill(pid, signal);
        }
        if !wait_until(is_gone).await {
            let _ = kill(pid, Signal::SIGKILL);
            wait_until(is_gone).await;
        }
    }
    if is_gone() {
        // A server that stopped by itself has removed the file.
        let _ = std::fs::remove_file(pid_file);
    }
}

/// Kills the processes whose working directory is the folder, after their server has ended.
pub(super) async fn kill_orphans(folder: &Path) {
    let none_left = || {
        let orphans = processes::working_in(folder);
        for pid in &orphans {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        orphans.is_empty()
    };
    wait_until(none_left).await;
}

/// Returns the pid in the first line of the file.
pub(super) fn pid_in(pid_file: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(pid_file).ok()?;
    let pid = text.lines().next()?.trim().parse().ok()?;
    (pid > 1).then(|| Pid::from_raw(pid))
}

async fn wait_until(done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + KILL_AFTER;
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}
