//! Private Postgres and NATS servers for `noetl-graphql dev` and for tests.
//!
//! Guarantees:
//! - Everything lives under one data directory; two processes can't use the same one (`lock`), and servers of
//!   different directories never share a port.
//! - A second start finds the data, and as a rule the ports, of the first.
//! - The servers stop when [`LocalServers::stop`] is called, when the value is dropped, and when this process is
//!   killed (`guarded`). What a crash of the whole machine left behind is cleaned up by the next start (`leftovers`).
//! - A server that ends on its own is noticed: [`LocalServers::wait_exit`].
//!
//! Postgres trusts every connection that comes over the loopback interface: this is for development only.

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
pub use self::postgres::{Postgres, PostgresOptions};

use self::env_file::EnvFile;
use self::lock::DataDirLock;

/// What to start.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The folder that holds all data; it is made when missing.
    pub data_dir: PathBuf,
    /// How many shard databases to have, beside the cluster database.
    pub shards: u16,
    /// The folder of Postgres' programs (`initdb`, `postgres`, `psql`); searched for when absent.
    pub postgres_bin: Option<PathBuf>,
    /// The `nats-server` program; searched for when absent.
    pub nats_program: Option<PathBuf>,
}

impl LocalOptions {
    /// Options with the programs found on this machine.
    pub fn new(data_dir: impl Into<PathBuf>, shards: u16) -> Self {
        Self { data_dir: data_dir.into(), shards, postgres_bin: None, nats_program: None }
    }
}

/// A running pair of servers with the databases of one deployment.
///
/// Dropping it stops the servers too, without waiting for them.
#[derive(Debug)]
pub struct LocalServers {
    postgres: Postgres,
    nats: NatsServer,
    shards: u16,
    env: EnvFile,
    // Released last: fields drop in order.
    _lock: DataDirLock,
}

impl LocalServers {
    /// Starts both servers, creates the databases that are missing, and writes the env file.
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

    /// The address of the cluster database.
    pub fn cluster_dsn(&self) -> String {
        self.postgres.dsn(CLUSTER_DATABASE)
    }

    /// The addresses of the shard databases, shard 0 first.
    pub fn shard_dsns(&self) -> Vec<String> {
        self.shard_databases().iter().map(|database| self.postgres.dsn(database)).collect()
    }

    /// The address of the NATS server.
    pub fn nats_url(&self) -> String {
        self.nats.url()
    }

    /// The private Postgres server.
    pub fn postgres(&mut self) -> &mut Postgres {
        &mut self.postgres
    }

    /// The private NATS server.
    pub fn nats(&mut self) -> &mut NatsServer {
        &mut self.nats
    }

    /// The file of `KEY=value` lines that says how to reach what runs here.
    pub fn env_file(&self) -> &Path {
        self.env.path()
    }

    /// Adds the port on which the application listens to the env file, for psql, a second replica or a test.
    pub fn publish_port(&self, port: u16) -> Result<(), LocalError> {
        let mut settings = self.settings();
        settings.push(("NOETL_PORT", port.to_string()));
        self.env.write(&settings)
    }

    /// Waits until a server ends on its own, and says which and why. Cancel safe.
    pub async fn wait_exit(&mut self) -> LocalError {
        tokio::select! {
            error = self.postgres.wait_exit() => error,
            error = self.nats.wait_exit() => error,
        }
    }

    /// Stops both servers and removes the env file. Takes some seconds at most, then the servers are killed.
    pub async fn stop(mut self) {
        if let Err(error) = self.env.remove() {
            tracing::warn!(%error, "the env file of the stopped servers is still there");
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

/// Makes the folder and returns its absolute path without links, the form in which leftovers are recognised.
fn prepared(folder: &Path) -> Result<PathBuf, LocalError> {
    std::fs::create_dir_all(folder).map_err(LocalError::io("create the folder", folder))?;
    open_when_empty(folder).map_err(LocalError::io("open the folder", folder))?;
    folder.canonicalize().map_err(LocalError::io("open the folder", folder))
}

/// Root's Postgres runs as another user, who has to get through. A folder is ours to open as long as it is empty,
/// as `mktemp -d` makes it.
fn open_when_empty(folder: &Path) -> std::io::Result<()> {
    if geteuid().is_root() && std::fs::read_dir(folder)?.next().is_none() {
        let mode = std::fs::metadata(folder)?.permissions().mode();
        std::fs::set_permissions(folder, Permissions::from_mode(mode | 0o011))?;
    }
    Ok(())
}
