//! CPU time and memory of a process, as reported by the kernel.

use std::fs;
use std::time::Duration;

/// Measurement of a process, from its start on.
pub struct Watched {
    pid: u32,
    cpu: Duration,
    resident: usize,
}

impl Watched {
    pub fn start(pid: u32) -> Self {
        // Resets the peak of the resident memory to its current size (proc_pid_clear_refs(5)).
        fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        Self { pid, cpu: cpu(pid), resident: status(pid, "VmRSS:") }
    }

    /// Returns the CPU time since the start and the peak growth of the resident memory.
    pub fn stop(self) -> (Duration, usize) {
        (cpu(self.pid).saturating_sub(self.cpu), status(self.pid, "VmHWM:").saturating_sub(self.resident))
    }
}

/// Returns the CPU time of all threads.
fn cpu(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        run_time(&text)
    });
    Duration::from_nanos(times.sum())
}

/// Returns the CPU time of the current thread.
pub fn thread_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(run_time(&text).unwrap())
}

/// Parses the first number of a `schedstat`: nanoseconds on a processor.
fn run_time(schedstat: &str) -> Option<u64> {
    schedstat.split(' ').next()?.parse().ok()
}

fn status(pid: u32, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
