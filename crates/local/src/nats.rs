//! A private nats-server with JetStream.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::error::LocalError;
use super::guarded::{Launch, WatchedProcess};
use super::leftovers::{pid_in, stop_leftover};
use super::port::{KeptPort, is_free};
use super::programs::find_nats;

const SERVER: &str = "nats-server";
/// Time limit of a start; long enough for JetStream to check large streams after a crash.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Options of a private nats-server.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// Folder of the streams, the log and the stored port; created if it is missing.
    pub data_dir: PathBuf,
    /// Fixed port; absent: the port of the last run if it is free, else any free one.
    pub port: Option<u16>,
    /// Path of the program `nats-server`; searched for if absent.
    pub program: Option<PathBuf>,
}

impl NatsOptions {
    /// Returns options with any port and the installed program.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), port: None, program: None }
    }
}

/// A running server with JetStream on 127.0.0.1, without authentication.
///
/// Dropping the value also stops the server, without waiting for it.
#[derive(Debug)]
pub struct NatsServer {
    plan: Plan,
    process: WatchedProcess,
}

/// Everything that a restart needs.
#[derive(Debug)]
struct Plan {
    program: PathBuf,
    store: PathBuf,
    pid_file: PathBuf,
    log: PathBuf,
    port: u16,
}

impl NatsServer {
    /// Stops the server of a killed run, and starts a new one.
    pub async fn start(options: NatsOptions) -> Result<Self, LocalError> {
        let home = super::prepared(&options.data_dir)?;
        let kept = KeptPort::in_folder(&home);
        let store = home.join("store");
        let pid_file = home.join("pid");
        let program = find_nats(options.program.as_deref()).await?;
        stop_leftover(SERVER, &pid_file, &store, Signal::SIGTERM).await;
        let mut plan =
            Plan { program, store, pid_file, log: home.join("log"), port: kept.choose(SERVER, options.port)? };
        let process = match plan.start().await {
            // Another process took the port first.
            Err(_) if options.port.is_none() && !is_free(plan.port) => {
                plan.port = kept.choose(SERVER, None)?;
                plan.start().await?
            }
            started => started?,
        };
        kept.keep(plan.port)?;
        Ok(Self { plan, process })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.plan.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.plan.port
    }

    /// Waits until the server ends by itself, and returns that as an error. Cancel safe.
    pub async fn wait_exit(&mut self) -> LocalError {
        self.process.wait_exit().await
    }

    /// Stops the server; its streams stay on disk.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// Kills the server immediately.
    pub async fn kill_9(&mut self) {
        self.process.kill_9().await;
    }

    /// Freezes the server: when this returns, connections stay open but get no response.
    pub async fn pause(&mut self) {
        self.process.pause().await;
    }

    /// Undoes [`Self::pause`].
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Stops the server if it runs, and starts it on the same port.
    pub async fn restart(&mut self) -> Result<(), LocalError> {
        self.stop().await;
        self.process = self.plan.start().await?;
        Ok(())
    }
}

impl Plan {
    async fn start(&self) -> Result<WatchedProcess, LocalError> {
        let port = self.port.to_string();
        let mut process = WatchedProcess::spawn(Launch {
            server: SERVER,
            program: &self.program,
            arguments: vec![
                "--jetstream".into(),
                "--store_dir".into(),
                self.store.clone().into_os_string(),
                "--addr".into(),
                "127.0.0.1".into(),
                "--port".into(),
                port.into(),
                "--pid".into(),
                self.pid_file.clone().into_os_string(),
            ],
            user: None,
            log: &self.log,
            stop_signals: (Signal::SIGTERM, Signal::SIGKILL),
        })
        .await?;
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_ready(&process).await {
            if Instant::now() > deadline {
                let error = process.not_ready(START_LIMIT);
                process.stop().await;
                return Err(error);
            }
            tokio::select! {
                error = process.wait_exit() => return Err(error),
                () = sleep(Duration::from_millis(20)) => {}
            }
        }
        Ok(process)
    }

    /// Returns whether this server accepts clients. The pid file must name this process, since another server may have
    /// the port.
    async fn is_ready(&self, process: &WatchedProcess) -> bool {
        pid_in(&self.pid_file) == Some(process.pid())
            && matches!(timeout(Duration::from_secs(1), greets(self.port)).await, Ok(Ok(true)))
    }
}

/// Returns whether a NATS server with JetStream listens on the port. A NATS server first sends a line `INFO {…}`, which
/// says whether JetStream is enabled.
async fn greets(port: u16) -> std::io::Result<bool> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(line.starts_with("INFO ") && line.contains(r#""jetstream":true"#))
}
