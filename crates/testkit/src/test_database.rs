//! Databases of tests on the server that all tests of a run share.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Returns the DSN of the PostgreSQL server that the tests share.
pub(crate) fn shared_server() -> String {
    std::env::var("NOETL_TEST_PG")
        .expect("NOETL_TEST_PG is missing; use `make test`, or `scripts/test-servers run cargo test`")
}

/// A database that one test created. Dropping the value drops the database, if it is on the shared server.
pub(crate) struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// Creates a database on a server: an empty one, or a copy of another database to which nothing is connected.
    pub(crate) async fn create(server: &str, name: String, template: Option<&str>) -> Self {
        let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
        administer(server, format!("CREATE DATABASE {name}{template}")).await.unwrap();
        Self { server: server.to_owned(), name }
    }

    /// Renames the database, so that it stays when this value is dropped. Nothing may be connected to it.
    pub(crate) async fn keep_as(self, name: &str) {
        administer(&self.server, format!("ALTER DATABASE {} RENAME TO {name}", self.name)).await.unwrap();
    }

    /// Returns the DSN of its server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the database's DSN.
    pub(crate) fn dsn(&self) -> String {
        let server: PgConnectOptions = self.server.parse().unwrap();
        format!("postgres://{}@{}:{}/{}", server.get_username(), server.get_host(), server.get_port(), self.name)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.server != shared_server() {
            // The test's own server ends with the test.
            return;
        }
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // The test's runtime can't wait here, so another thread has a runtime of its own.
        let dropped = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(administer(&self.server, drop))
            });
            thread.join().unwrap()
        });
        if let Err(error) = dropped {
            eprintln!("the database {} was not dropped: {error}", self.name);
        }
    }
}

/// Runs a statement on a server, outside of any transaction.
async fn administer(server: &str, statement: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}
