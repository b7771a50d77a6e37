//! CPU time and memory of another process, as the kernel counts them.

use std::fs;
use std::time::Duration;

/// A process from one moment on.
pub struct Watched {
    pid: u32,
    cpu: Duration,
    resident: usize,
}

impl Watched {
    pub fn start(pid: u32) -> Self {
        // The peak of the resident memory starts again from what is resident (proc_pid_clear_refs(5)).
        fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        Self { pid, cpu: cpu(pid), resident: status(pid, "VmRSS:") }
    }

    /// Returns the CPU time since the start, and the most memory beyond that at the start.
    pub fn stop(self) -> (Duration, usize) {
        (cpu(self.pid).saturating_sub(self.cpu), status(self.pid, "VmHWM:").saturating_sub(self.resident))
    }
}

/// The time that all threads have run.
fn cpu(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        run_time(&text)
    });
    Duration::from_nanos(times.sum())
}

/// The time that this thread has run.
pub fn thread_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(run_time(&text).unwrap())
}

/// The first number of a `schedstat`: nanoseconds on a processor.
fn run_time(schedstat: &str) -> Option<u64> {
    schedstat.split(' ').next()?.parse().ok()
}

fn status(pid: u32, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
