//! Private Postgres and NATS servers for `noetl-graphql dev` and for tests.
//!
//! Guarantees:
//! - Everything lives under one data directory; two processes can't use the same one (`lock`), and servers of
//!   different directories never share a port.
//! - A second start uses the data of the first, and its ports if they are free.
//! - The servers stop when [`LocalServers::stop`] is called, when the value is dropped, and when this process is
//!   killed (`guarded`). After a crash of the machine, the next start cleans up (`leftovers`).
//! - [`LocalServers::wait_exit`] reports a server that ends by itself.
//!
//! For development only: Postgres trusts every connection over the loopback interface.

mod data_folder;
mod env_file;
mod error;
mod guarded;
mod leftovers;
mod lock;
mod nats;
mod port;
mod postgres;
mod processes;
mod programs;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

pub use self::error::LocalError;
pub use self::nats::{NatsOptions, NatsServer};
pub use self::port::free_port;
pub use self::postgres::{Postgres, PostgresOptions};

use self::env_file::EnvFile;
use self::lock::DataDirLock;

/// Options of the private servers.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Folder of all data; created if it is missing.
    pub data_dir: PathBuf,
    /// Number of shard databases, in addition to the cluster database.
    pub shards: u16,
    /// Folder of the PostgreSQL programs (`initdb`, `postgres`); searched for if absent.
    pub postgres_bin: Option<PathBuf>,
    /// Path of the program `nats-server`; searched for if absent.
    pub nats_program: Option<PathBuf>,
}

impl LocalOptions {
    /// Returns options that use the programs installed on this machine.
    pub fn new(data_dir: impl Into<PathBuf>, shards: u16) -> Self {
        Self { data_dir: data_dir.into(), shards, postgres_bin: None, nats_program: None }
    }
}

/// A running pair of servers with the databases of one deployment.
///
/// Dropping the value also stops the servers, without waiting for them.
#[derive(Debug)]
pub struct LocalServers {
    postgres: Postgres,
    nats: NatsServer,
    shards: u16,
    env: EnvFile,
    // Released last, because fields are dropped in order.
    _lock: DataDirLock,
}

impl LocalServers {
    /// Starts both servers, creates the missing databases, and writes the env file.
    pub async fn start(options: &LocalOptions) -> Result<Self, LocalError> {
        let data_dir = prepared(&options.data_dir)?;
        let lock = DataDirLock::acquire(&data_dir)?;
        let env = EnvFile::new(&data_dir);
        env.remove()?;

        let postgres = Postgres::start(PostgresOptions {
            programs: options.postgres_bin.clone(),
            settings: vec![("max_connections".into(), "300".into())],
            ..PostgresOptions::new(data_dir.join("postgres"))
        });
        let nats = NatsServer::start(NatsOptions {
            program: options.nats_program.clone(),
            ..NatsOptions::new(data_dir.join("nats"))
        });
        let (postgres, nats) = match tokio::join!(postgres, nats) {
            (Ok(postgres), Ok(nats)) => (postgres, nats),
            (Ok(mut postgres), Err(error)) => {
                postgres.stop().await;
                return Err(error);
            }
            (Err(error), Ok(mut nats)) => {
                nats.stop().await;
                return Err(error);
            }
            (Err(error), Err(_)) => return Err(error),
        };

        let mut servers = Self { postgres, nats, shards: options.shards, env, _lock: lock };
        if let Err(error) = servers.provision().await {
            servers.stop().await;
            return Err(error);
        }
        Ok(servers)
    }

    /// Returns the DSN of the cluster database.
    pub fn cluster_dsn(&self) -> String {
        self.postgres.dsn(CLUSTER_DATABASE)
    }

    /// Returns the DSNs of the shard databases, shard 0 first.
    pub fn shard_dsns(&self) -> Vec<String> {
        self.shard_databases().iter().map(|database| self.postgres.dsn(database)).collect()
    }

    /// Returns the URL of the NATS server.
    pub fn nats_url(&self) -> String {
        self.nats.url()
    }

    /// Returns the private Postgres server.
    pub fn postgres(&mut self) -> &mut Postgres {
        &mut self.postgres
    }

    /// Returns the private NATS server.
    pub fn nats(&mut self) -> &mut NatsServer {
        &mut self.nats
    }

    /// Returns the path of the env file: `KEY=value` lines with the addresses of the servers.
    pub fn env_file(&self) -> &Path {
        self.env.path()
    }

    /// Adds the application's port to the env file.
    pub fn publish_port(&self, port: u16) -> Result<(), LocalError> {
        let mut settings = self.settings();
        settings.push(("NOETL_PORT", port.to_string()));
        self.env.write(&settings)
    }

    /// Waits until a server ends by itself, and returns that as an error. Cancel safe.
    pub async fn wait_exit(&mut self) -> LocalError {
        tokio::select! {
            error = self.postgres.wait_exit() => error,
            error = self.nats.wait_exit() => error,
        }
    }

    /// Stops both servers and removes the env file. A server that does not stop within some seconds is killed.
    pub async fn stop(mut self) {
        if let Err(error) = self.env.remove() {
            tracing::warn!(%error, "could not remove the env file of the stopped servers");
        }
        tokio::join!(self.postgres.stop(), self.nats.stop());
    }

    async fn provision(&mut self) -> Result<(), LocalError> {
        let mut databases = self.shard_databases();
        databases.push(CLUSTER_DATABASE.to_owned());
        self.postgres.create_databases(&databases).await?;
        self.env.write(&self.settings())
    }

    fn shard_databases(&self) -> Vec<String> {
        (0..self.shards).map(|shard| format!("noetl_shard_{shard}")).collect()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("NOETL_CLUSTER_DSN", self.cluster_dsn()),
            ("NOETL_SHARDS", self.shard_dsns().join(",")),
            ("NOETL_NATS_URL", self.nats_url()),
        ]
    }
}

const CLUSTER_DATABASE: &str = "noetl_cluster";

/// Creates the folder and returns its absolute path without symbolic links. Leftover processes are recognised by this
/// form of the path.
fn prepared(folder: &Path) -> Result<PathBuf, LocalError> {
    std::fs::create_dir_all(folder).map_err(LocalError::io("create the folder", folder))?;
    open_when_empty(folder).map_err(LocalError::io("open the folder", folder))?;
    folder.canonicalize().map_err(LocalError::io("open the folder", folder))
}

/// Makes an empty folder accessible to other users if this process runs as root, because Postgres then runs as another
/// user. Folders that hold files keep their mode.
fn open_when_empty(folder: &Path) -> std::io::Result<()> {
    if geteuid().is_root() && std::fs::read_dir(folder)?.next().is_none() {
        let mode = std::fs::metadata(folder)?.permissions().mode();
        std::fs::set_permissions(folder, Permissions::from_mode(mode | 0o011))?;
    }
    Ok(())
}
