//! A private Postgres server.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, Connection};
use tokio::time::{Instant, sleep, timeout};

use super::data_folder::DataFolder;
use super::error::LocalError;
use super::guarded::{Launch, WatchedProcess};
use super::leftovers::{kill_orphans, pid_in};
use super::port::{KeptPort, is_free};
use super::programs::PostgresPrograms;

const SERVER: &str = "PostgreSQL";
/// Time limit of a start; long enough for the recovery of a crashed server.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Options of a private Postgres server.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Folder of the data, the log and the stored port; created if it is missing.
    pub data_dir: PathBuf,
    /// Fixed port; absent: the port of the last run if it is free, else any free one.
    pub port: Option<u16>,
    /// Server settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// Folder of `initdb` and `postgres`; searched for if absent.
    pub programs: Option<PathBuf>,
}

impl PostgresOptions {
    /// Returns options with any port, the default settings and the newest installed version.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), port: None, settings: Vec::new(), programs: None }
    }

    /// Returns whether the data must survive a crash of the machine; false if the settings turn `fsync` off.
    fn durable(&self) -> bool {
        !self.settings.iter().any(|(name, value)| name == "fsync" && matches!(&**value, "off" | "false" | "no" | "0"))
    }
}

/// A running server that trusts the superuser `noetl` on 127.0.0.1. It has no Unix socket.
///
/// Dropping the value also stops the server, without waiting for it.
#[derive(Debug)]
pub struct Postgres {
    plan: Plan,
    process: WatchedProcess,
}

/// Everything that a restart needs.
#[derive(Debug)]
struct Plan {
    programs: PostgresPrograms,
    folder: DataFolder,
    data: PathBuf,
    log: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
}

impl Postgres {
    /// Creates the data folder if it is missing, stops the processes of a killed run, and starts the server.
    pub async fn start(options: PostgresOptions) -> Result<Self, LocalError> {
        let home = super::prepared(&options.data_dir)?;
        let folder = DataFolder::new(&home)?;
        let made_by = folder.made_by();
        let programs = PostgresPrograms::find(options.programs.as_deref(), made_by.as_deref(), &home).await?;
        let data = folder.prepare(&programs, options.durable()).await?;
        let kept = KeptPort::in_folder(&home);
        let mut plan = Plan {
            programs,
            folder,
            data,
            log: home.join("log"),
            port: kept.choose(SERVER, options.port)?,
            settings: options.settings,
        };
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

    /// Returns the DSN of a database.
    pub fn dsn(&self, database: &str) -> String {
        format!("postgres://noetl@127.0.0.1:{}/{database}", self.plan.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.plan.port
    }

    /// Creates the databases that do not exist yet.
    pub async fn create_databases(&self, names: &[String]) -> Result<(), LocalError> {
        self.plan.create_databases(names).await.map_err(LocalError::CreateDatabases)
    }

    /// Waits until the server ends by itself, and returns that as an error. Cancel safe.
    pub async fn wait_exit(&mut self) -> LocalError {
        self.process.wait_exit().await
    }

    /// Stops the server by a fast shutdown: open transactions are rolled back and connections are closed.
    pub async fn stop(&mut self) {
        self.process.stop().await;
    }

    /// Kills every process of the server, to simulate a crash of the machine.
    pub async fn kill_9(&mut self) {
        self.process.kill_9().await;
        kill_orphans(&self.plan.data).await;
    }

    /// Freezes every process of the server: when this returns, connections stay open but get no response.
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
        let mut process = WatchedProcess::spawn(Launch {
            server: SERVER,
            program: &self.programs.path("postgres"),
            arguments: self.arguments(),
            user: self.folder.user(),
            log: &self.log,
            stop_signals: (Signal::SIGINT, Signal::SIGQUIT),
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

    fn arguments(&self) -> Vec<OsString> {
        let port = self.port.to_string();
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", ""),
            ("logging_collector", "off"),
            ("log_destination", "stderr"),
            ("timezone", "UTC"),
            ("log_timezone", "UTC"),
        ];
        let theirs = self.settings.iter().map(|(name, value)| (&**name, &**value));
        let mut arguments = vec!["-D".into(), self.data.clone().into_os_string()];
        for (name, value) in ours.into_iter().chain(theirs) {
            arguments.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        arguments
    }

    /// Returns whether clients can log in to this server. The pid file in the data folder must name this process, since
    /// another server may have the port.
    async fn is_ready(&self, process: &WatchedProcess) -> bool {
        let log_in = async { self.connect().await?.close().await };
        pid_in(&self.data.join("postmaster.pid")) == Some(process.pid())
            && matches!(timeout(Duration::from_secs(1), log_in).await, Ok(Ok(())))
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        let options = PgConnectOptions::new_without_pgpass()
            .host(&Ipv4Addr::LOCALHOST.to_string())
            .port(self.port)
            .username("noetl")
            .database("postgres")
            .ssl_mode(PgSslMode::Disable);
        PgConnection::connect_with(&options).await
    }

    async fn create_databases(&self, names: &[String]) -> sqlx::Result<()> {
        let mut connection = self.connect().await?;
        let missing = "SELECT format('CREATE DATABASE %I', name) FROM unnest($1::text[]) AS name
                       WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = name)";
        let statements: Vec<String> = sqlx::query_scalar(missing).bind(names).fetch_all(&mut connection).await?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        }
        connection.close().await
    }
}
