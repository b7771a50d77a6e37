//! A PostgreSQL server with a synchronous standby. Its address leads to the server that is the primary.

use std::path::PathBuf;

use noetl_local::Postgres;
use noetl_testkit::copies::{own_server, standby};
use noetl_testkit::eventually;
use noetl_testkit::feed::run;
use noetl_testkit::proxy::Proxy;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

pub struct Database {
    primary: Postgres,
    standby: Option<Postgres>,
    /// Number of standbys so far.
    standbys: usize,
    address: Proxy,
    folder: TempDir,
}

impl Database {
    /// Starts a primary with these databases, and its standby.
    pub async fn start(databases: &[String]) -> Self {
        let (primary, folder) = own_server().await;
        primary.create_databases(databases).await.unwrap();
        let address = Proxy::start(primary.port()).await;
        let mut database = Self { primary, standby: None, standbys: 0, address, folder };
        database.add_standby().await;
        database
    }

    /// Returns the DSN of a database at the address.
    pub fn dsn(&self, name: &str) -> String {
        format!("postgres://noetl@127.0.0.1:{}/{name}", self.address.port)
    }

    /// Kills the primary, promotes the standby, and leads the address to it.
    pub async fn fail_over(&mut self) {
        self.primary.kill_9().await;
        let promoted = self.standby.take().expect("the database has a standby");
        let mut connection = PgConnection::connect(&promoted.dsn("postgres")).await.unwrap();
        run(&mut connection, "SELECT pg_promote()").await;
        self.address.redirect(promoted.port());
        self.primary = promoted;
    }

    /// Adds a standby. When this returns, each commit waits until the standby has stored it, so that none is lost by a
    /// failover.
    pub async fn add_standby(&mut self) {
        let folder: PathBuf = self.folder.path().join(format!("standby{}", self.standbys));
        self.standbys += 1;
        self.standby = Some(standby(&self.primary, &folder).await);
        let mut connection = PgConnection::connect(&self.primary.dsn("postgres")).await.unwrap();
        for statement in ["ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"] {
            run(&mut connection, statement).await;
        }
        eventually("the standby is synchronous", async || {
            let state = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'";
            let count: i64 = sqlx::query_scalar(state).fetch_one(&mut connection).await.ok()?;
            (count == 1).then_some(())
        })
        .await;
    }
}
