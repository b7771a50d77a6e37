//! Memory of a process (Linux).

use std::str::FromStr;

/// Returns the largest resident memory that a process has had, in bytes. `None`: it has ended.
pub(super) fn peak(pid: u32) -> Option<u64> {
    Some(kib::<u64>(pid, "VmHWM:")? * 1024)
}

/// Returns the resident memory of a process, in MiB. `None`: it has ended.
pub(super) fn resident_mib(pid: u32) -> Option<f64> {
    Some(kib::<f64>(pid, "VmRSS:")? / 1024.0)
}

fn kib<T: FromStr>(pid: u32, name: &str) -> Option<T> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
