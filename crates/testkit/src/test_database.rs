//! Databases of tests, most of them on the server that all tests of a run share.

use std::sync::{Mutex, PoisonError};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

/// Session on the shared server that creates and drops the databases of all tests of the process, because a session
/// costs PostgreSQL more than most statements.
static ADMINISTRATION: Mutex<Option<Administration>> = Mutex::new(None);
/// First version of PostgreSQL that can copy a database without its WAL, as `server_version_num`.
const COPIES_FILES: u32 = 150_000;

/// Returns the DSN of the PostgreSQL server that the tests share.
pub(crate) fn shared_server() -> String {
    std::env::var("NOETL_TEST_PG")
        .expect("NOETL_TEST_PG is missing; use `make test`, or `scripts/test-servers run cargo test`")
}

/// Returns whether the shared server has a database.
pub(crate) async fn exists_on_shared_server(name: String) -> bool {
    let exists = move || {
        on_shared_server(|runtime, session| {
            let exists = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
            runtime.block_on(exists.bind(name).fetch_one(session))
        })
    };
    spawn_blocking(exists).await.unwrap().unwrap()
}

/// Databases that one test created. Dropping the value drops those that are on the shared server.
#[derive(Default)]
pub(crate) struct TestDatabases(Vec<TestDatabase>);

struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabases {
    /// Creates databases on a server. Each has a name, and is empty or a copy of the database with the second name, to
    /// which nothing is connected.
    pub(crate) async fn create(&mut self, server: &str, databases: Vec<(String, Option<String>)>) {
        // Those of a failed attempt are dropped as well.
        self.0.extend(databases.iter().map(|(name, _)| TestDatabase { server: server.to_owned(), name: name.clone() }));
        let changes = databases.into_iter().map(|(name, template)| Change::Create { name, template }).collect();
        administer(server, changes).await.unwrap();
    }

    /// Renames the databases, which are on the shared server, so that they stay when this value is dropped. Nothing may
    /// be connected to them. `name_of` returns a name by index.
    pub(crate) async fn keep_as(mut self, name_of: impl Fn(usize) -> String) {
        let databases = std::mem::take(&mut self.0).into_iter().enumerate();
        let renames = databases.map(|(index, database)| Change::Rename { from: database.name, to: name_of(index) });
        administer(&shared_server(), renames.collect()).await.unwrap();
    }

    /// Returns the DSN of the server of the first database.
    pub(crate) fn server(&self) -> &str {
        &self.0[0].server
    }

    /// Returns the DSNs of the databases, in the order of their creation.
    pub(crate) fn dsns(&self) -> Vec<String> {
        self.0.iter().map(TestDatabase::dsn).collect()
    }
}

impl TestDatabase {
    fn dsn(&self) -> String {
        let server: PgConnectOptions = self.server.parse().unwrap();
        format!("postgres://{}@{}:{}/{}", server.get_username(), server.get_host(), server.get_port(), self.name)
    }
}

impl Drop for TestDatabases {
    fn drop(&mut self) {
        let shared = shared_server();
        // A test's own server ends with the test.
        let names: Vec<&String> = self.0.iter().filter(|one| one.server == shared).map(|one| &one.name).collect();
        if names.is_empty() {
            return;
        }
        // The test's runtime can't wait here, so another thread does.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for name in names {
                    if let Err(error) = change_shared_server(&[Change::Drop(name.clone())]) {
                        eprintln!("the database {name} was not dropped: {error}");
                    }
                }
            });
        });
    }
}

/// Change of the databases of a server.
enum Change {
    Create { name: String, template: Option<String> },
    Rename { from: String, to: String },
    Drop(String),
}

impl Change {
    /// Returns the statement for a version of PostgreSQL.
    fn statement(&self, version: Option<u32>) -> String {
        match self {
            Self::Create { name, template } => {
                let template = template.as_ref().map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
                let copies_files = version.is_some_and(|version| version >= COPIES_FILES);
                // By default, the copy is written to the WAL page by page.
                let strategy = if copies_files { " STRATEGY file_copy" } else { "" };
                format!("CREATE DATABASE {name}{template}{strategy}")
            }
            Self::Rename { from, to } => format!("ALTER DATABASE {from} RENAME TO {to}"),
            Self::Drop(name) => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        }
    }
}

/// Makes changes on a server, in one session.
async fn administer(server: &str, changes: Vec<Change>) -> sqlx::Result<()> {
    if server == shared_server() {
        return spawn_blocking(move || change_shared_server(&changes)).await.unwrap();
    }
    let mut session = PgConnection::connect(server).await?;
    make(&mut session, &changes).await?;
    session.close().await
}

fn change_shared_server(changes: &[Change]) -> sqlx::Result<()> {
    on_shared_server(|runtime, session| runtime.block_on(make(session, changes)))
}

/// Makes changes, each outside of any transaction.
async fn make(session: &mut PgConnection, changes: &[Change]) -> sqlx::Result<()> {
    for change in changes {
        let statement = change.statement(session.server_version_num());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut *session).await?;
    }
    Ok(())
}

/// A session with a runtime of its own, because the runtime of each test ends before the process.
struct Administration {
    session: PgConnection,
    runtime: Runtime,
}

impl Administration {
    fn begin() -> sqlx::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let session = runtime.block_on(PgConnection::connect(&shared_server()))?;
        Ok(Self { session, runtime })
    }
}

/// Does work in the process's session on the shared server. Blocks the thread.
fn on_shared_server<T>(work: impl FnOnce(&Runtime, &mut PgConnection) -> sqlx::Result<T>) -> sqlx::Result<T> {
    let mut kept = ADMINISTRATION.lock().unwrap_or_else(PoisonError::into_inner);
    let mut administration = match kept.take() {
        Some(administration) => administration,
        None => Administration::begin()?,
    };
    let done = work(&administration.runtime, &mut administration.session)?;
    // After an error, the next caller begins another session.
    *kept = Some(administration);
    Ok(done)
}
