//! A private nats-server with JetStream.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::error::LocalError;
use super::guarded::{Guarded, Launch};
use super::leftovers::{pid_in, stop_leftover};
use super::port::{KeptPort, is_free};
use super::programs::find_nats;

const SERVER: &str = "nats-server";
/// Long enough for JetStream to check big streams after a crash.
const START_LIMIT: Duration = Duration::from_mins(1);

/// What to start.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The folder for the streams, the log and the port; it is made when missing.
    pub data_dir: PathBuf,
    /// A fixed port. Absent: the one of last time, or any free one.
    pub port: Option<u16>,
    /// The `nats-server` program; searched for when absent.
    pub program: Option<PathBuf>,
}

impl NatsOptions {
    /// Options with any port and the installed program.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), port: None, program: None }
    }
}

/// A running server with JetStream on 127.0.0.1, without authentication.
///
/// Dropping it stops the server too, without waiting for it.
#[derive(Debug)]
pub struct NatsServer {
    plan: Plan,
    process: Guarded,
}

/// All that a restart needs.
#[derive(Debug)]
struct Plan {
    program: PathBuf,
    store: PathBuf,
    pid_file: PathBuf,
    log: PathBuf,
    port: u16,
}

impl NatsServer {
    /// Stops what a killed run left behind, and starts the server.
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
            // Somebody was faster at the port.
            Err(_) if options.port.is_none() && !is_free(plan.port) => {
                plan.port = kept.choose(SERVER, None)?;
                plan.start().await?
            }
            started => started?,
        };
        kept.keep(plan.port)?;
        Ok(Self { plan, process })
    }

    /// The server's address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.plan.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.plan.port
    }

    /// Waits until the server ends on its own, and says why. Cancel safe.
    pub async fn wait_exit(&mut self) -> LocalError {
        self.process.wait_exit().await
    }

    /// Stops the server; its streams are on disk.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// Kills the server at once.
    pub async fn kill_9(&mut self) {
        self.process.kill_9().await;
    }

    /// Freezes the server: connections stay open and nothing answers once this returns.
    pub async fn pause(&mut self) {
        self.process.pause().await;
    }

    /// Undoes [`Self::pause`].
    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Stops the server if it runs, and starts it at the same port.
    pub async fn restart(&mut self) -> Result<(), LocalError> {
        self.stop().await;
        self.process = self.plan.start().await?;
        Ok(())
    }
}

impl Plan {
    async fn start(&self) -> Result<Guarded, LocalError> {
        let port = self.port.to_string();
        let mut process = Guarded::spawn(Launch {
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

    /// A client is greeted, and by this server: the pid file is this process's.
    async fn is_ready(&self, process: &Guarded) -> bool {
        pid_in(&self.pid_file) == Some(process.pid())
            && matches!(timeout(Duration::from_secs(1), greets(self.port)).await, Ok(Ok(true)))
    }
}

/// A NATS server opens with a line `INFO {…}`, which says whether JetStream is on.
async fn greets(port: u16) -> std::io::Result<bool> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(line.starts_with("INFO ") && line.contains(r#""jetstream":true"#))
}
