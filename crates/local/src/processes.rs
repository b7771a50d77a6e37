//! Reads the state of running processes: from `/proc` on Linux, from `ps` on other systems.

use std::path::Path;

use nix::unistd::Pid;

/// Returns whether the path is an argument of the process's command line. False for a process that has ended, for a
/// zombie, and for a different process that has the same pid.
#[cfg(target_os = "linux")]
pub(super) fn names_path(pid: Pid, path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.split(|byte| *byte == 0).any(|argument| argument == path.as_os_str().as_bytes()))
}

/// Returns whether the process's command line contains the path.
#[cfg(not(target_os = "linux"))]
pub(super) fn names_path(pid: Pid, path: &Path) -> bool {
    ps(&["-ww", "-o", "command=", "-p", &pid.to_string()]).contains(&*path.to_string_lossy())
}

/// Returns whether every thread of the process is stopped, or the process has ended. The kernel stops the threads one
/// by one, after `kill` has returned.
#[cfg(target_os = "linux")]
pub(super) fn is_stopped(pid: Pid) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok())
        .filter_map(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with(['T', 'Z'])))
        .all(|stopped| stopped)
}

/// Returns whether the process is stopped or has ended.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_stopped(pid: Pid) -> bool {
    let state = ps(&["-o", "state=", "-p", &pid.to_string()]);
    state.is_empty() || state.starts_with(['T', 'Z'])
}

/// Returns the direct children of the process.
#[cfg(target_os = "linux")]
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    all().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Returns the direct children of the process.
#[cfg(not(target_os = "linux"))]
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    ps(&["-A", "-o", "pid=,ppid="])
        .lines()
        .filter_map(|line| {
            let (pid, ppid) = line.trim().split_once(char::is_whitespace)?;
            (ppid.trim().parse() == Ok(parent.as_raw())).then(|| pid.parse().ok().map(Pid::from_raw))?
        })
        .collect()
}

/// Returns the processes whose working directory is the folder. Every process of a Postgres server has its data folder
/// as the working directory, so this finds the children of a postmaster that has ended.
#[cfg(target_os = "linux")]
pub(super) fn working_in(folder: &Path) -> Vec<Pid> {
    all().filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder)).collect()
}

/// Returns nothing: the working directory is unknown without `/proc`. The children of a dead postmaster end by
/// themselves.
#[cfg(not(target_os = "linux"))]
pub(super) fn working_in(_folder: &Path) -> Vec<Pid> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn all() -> impl Iterator<Item = Pid> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

#[cfg(target_os = "linux")]
fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "pid (program) state parent …"; the program's name may contain spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

#[cfg(not(target_os = "linux"))]
fn ps(arguments: &[&str]) -> String {
    std::process::Command::new("/bin/ps")
        .args(arguments)
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default()
}
