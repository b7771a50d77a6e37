//! CPU time of the processes that take part in a measurement (Linux).

use sqlx::{Connection, PgConnection};

/// Processes whose CPU time a measurement counts: one that carries the calls out, and the Postgres server.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    /// The server, or this process if it runs the statements itself.
    pub worker: u32,
    /// The postmaster.
    pub postmaster: u32,
}

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    pub worker: f64,
    pub postgres: f64,
    /// This process.
    pub client: f64,
}

impl Processes {
    /// Returns the CPU time that the processes have used.
    pub fn cpu(self) -> Cpu {
        Cpu {
            worker: seconds(self.worker, false),
            postgres: postgres_seconds(self.postmaster),
            client: seconds(std::process::id(), false),
        }
    }
}

impl std::ops::Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            worker: self.worker - before.worker,
            postgres: self.postgres - before.postgres,
            client: self.client - before.client,
        }
    }
}

/// Returns the process id of the postmaster of a Postgres server on this machine.
pub async fn postmaster(dsn: &str) -> u32 {
    let mut connection = PgConnection::connect(dsn).await.unwrap();
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    stat(u32::try_from(backend).unwrap()).unwrap()[1].parse().unwrap()
}

/// Returns the CPU time of the postmaster and all its processes, also of those that have ended.
fn postgres_seconds(postmaster: u32) -> f64 {
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let process = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
        (stat(process)?[1] == postmaster.to_string()).then(|| thread_seconds(process))
    });
    children.sum::<f64>() + seconds(postmaster, true)
}

/// Returns the CPU time of a process with one thread, or 0 if it has ended. It is exact, while [`seconds`] counts whole
/// ticks of 10 ms, which would be too coarse for many processes with little work each.
fn thread_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

/// Returns the CPU time of a process, or 0 if it has ended; `ended_children` adds that of its children that have ended.
pub fn seconds(process: u32, ended_children: bool) -> f64 {
    let Some(fields) = stat(process) else { return 0.0 };
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    let own = ticks(11) + ticks(12);
    (if ended_children { own + ticks(13) + ticks(14) } else { own }) / 100.0
}

/// Returns the fields of a process after its name: state, parent, and so on.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}
