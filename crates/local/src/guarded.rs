//! Runs a server program that can't outlive this process.
//!
//! Each server is the child of a small shell script, its watchdog. The watchdog's standard input is a pipe that only
//! this process holds open. The kernel closes the pipe when this process ends, even by kill -9, and then the watchdog
//! stops the server. To stop a server on purpose, this process closes the pipe too.
//!
//! The watchdog and the server have a process group of their own. So Ctrl-C in a terminal reaches only this process,
//! which stops the servers when it no longer uses them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

use super::error::LocalError;
use super::processes;

/// A program to run, and the signals that stop it.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    /// Name of the server in messages.
    pub(super) server: &'static str,
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<OsString>,
    /// User and group of the program; absent: those of this process.
    pub(super) user: Option<(Uid, Gid)>,
    /// File for the program's output; overwritten.
    pub(super) log: &'a Path,
    /// Signal that asks the program to stop, and the signal that is sent if the program does not stop in time.
    pub(super) stop_signals: (Signal, Signal),
}

/// A running program under its watchdog. Dropping the value stops the program without waiting.
#[derive(Debug)]
pub(super) struct WatchedProcess {
    server: &'static str,
    watchdog: Child,
    watchdog_stdin: Option<ChildStdin>,
    pid: Pid,
    log: PathBuf,
}

/// Shell script of the watchdog. `$1`, `$2`: names of the signals. `$3`: time that the program may take to stop, in
/// seconds. Then the command.
const WATCHDOG: &str = r#"
polite=$1 forced=$2 kill_after=$3
shift 3
exec 3<&0
"$@" </dev/null >&2 3<&- &
program=$!
echo "$program"
exec >/dev/null
{
    read -r _ <&3
    kill -s CONT "$program"
    kill -s "$polite" "$program"
    sleep "$kill_after"
    kill -s "$forced" "$program"
    sleep 1
    kill -s KILL "$program"
} 2>/dev/null &
wait "$program"
status=$?
trap '' TERM
kill -s TERM 0
exit "$status"
"#;

/// Time after which a program that was asked to stop is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);

impl WatchedProcess {
    pub(super) async fn spawn(launch: Launch<'_>) -> Result<Self, LocalError> {
        let log = File::create(launch.log).map_err(LocalError::io("write", launch.log))?;
        let mut command = shell(launch.user);
        command
            .args(["-c", WATCHDOG, launch.server])
            .args([signal_name(launch.stop_signals.0), signal_name(launch.stop_signals.1)])
            .arg(KILL_AFTER.as_secs().to_string())
            .arg(launch.program)
            .args(&launch.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0);
        let failed = || LocalError::io("start", launch.program);
        let mut watchdog = command.spawn().map_err(failed())?;
        let watchdog_stdin = watchdog.stdin.take();
        let pid = first_line_as_pid(&mut watchdog).await.map_err(failed())?;
        Ok(Self { server: launch.server, watchdog, watchdog_stdin, pid, log: launch.log.to_owned() })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until the program ends. Cancel safe.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.watchdog.wait().await
    }

    /// Waits until the program ends, and returns that as an error. Cancel safe.
    pub(super) async fn wait_exit(&mut self) -> LocalError {
        let how = match self.wait().await {
            Ok(status) => described(status),
            Err(error) => error.to_string(),
        };
        LocalError::Ended { server: self.server, how, log: self.log.clone(), tail: tail(&self.log) }
    }

    /// Returns the error for a program that runs but does not accept clients.
    pub(super) fn not_ready(&self, limit: Duration) -> LocalError {
        LocalError::NotReady {
            server: self.server,
            seconds: limit.as_secs(),
            log: self.log.clone(),
            tail: tail(&self.log),
        }
    }

    /// Asks the program to stop, and kills it if it takes too long.
    pub(super) async fn stop(&mut self) {
        self.resume();
        drop(self.watchdog_stdin.take());
        let limit = KILL_AFTER + Duration::from_secs(3);
        if timeout(limit, self.watchdog.wait()).await.is_err() {
            self.kill_9().await;
        }
    }

    /// Kills the program and its children immediately, to simulate a crash of the machine.
    pub(super) async fn kill_9(&mut self) {
        // A stopped program starts no more children, so the list is complete.
        self.pause().await;
        for pid in self.family() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        // The watchdog ends when its program ends, and a killed program ends immediately.
        let _ = self.watchdog.wait().await;
    }

    /// Freezes the program and its children: when this returns, connections stay open but get no response.
    pub(super) async fn pause(&mut self) {
        if self.is_running() {
            let _ = kill(self.pid, Signal::SIGSTOP);
            stopped(self.pid).await;
        }
        for pid in self.family() {
            let _ = kill(pid, Signal::SIGSTOP);
            stopped(pid).await;
        }
    }

    /// Undoes [`Self::pause`].
    pub(super) fn resume(&mut self) {
        for pid in self.family() {
            let _ = kill(pid, Signal::SIGCONT);
        }
    }

    /// Returns the pids of the program and its children. Empty after the program has ended, because another process may
    /// have its pid by then.
    fn family(&mut self) -> Vec<Pid> {
        if !self.is_running() {
            return Vec::new();
        }
        let mut family = processes::children(self.pid);
        family.push(self.pid);
        family
    }

    fn is_running(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
    }
}

/// Returns a shell command with a fixed environment, so that the user's `PGOPTIONS` and locale have no effect. Its
/// working directory is `/`, because the other user may be unable to open the current one.
pub(super) fn shell(user: Option<(Uid, Gid)>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").env("LC_ALL", "C").current_dir("/");
    if let Some((uid, gid)) = user {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    command
}

/// Waits until the process is stopped, for at most 5 seconds. A process in a disk access stops only after it.
async fn stopped(pid: Pid) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes::is_stopped(pid) && Instant::now() < deadline {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the last lines of a log, short enough for an error message.
pub(super) fn tail(log: &Path) -> String {
    let text = last_bytes(log, 4096).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn last_bytes(log: &Path, count: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(count)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

async fn first_line_as_pid(watchdog: &mut Child) -> io::Result<Pid> {
    let mut line = String::new();
    if let Some(stdout) = watchdog.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).await?;
    }
    line.trim().parse().map(Pid::from_raw).map_err(|_| io::Error::other("its watchdog did not start"))
}

/// Describes an exit status. A shell reports a signal as 128 plus its number.
fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) if code > 128 => match Signal::try_from(code - 128) {
            Ok(signal) => format!("killed by {signal}"),
            Err(_) => format!("exit code {code}"),
        },
        _ => status.to_string(),
    }
}

/// Returns the signal's name in the form that `kill -s` expects.
fn signal_name(signal: Signal) -> &'static str {
    let name = signal.as_str();
    name.strip_prefix("SIG").unwrap_or(name)
}
