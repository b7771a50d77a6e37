//! Dumps of the databases of a deployment, made and restored by the commands of docs/operations/backup.md.

use std::path::Path;

use noetl_local::Postgres;
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;

use super::Deployment;

const PAGE: &str = include_str!("../../../docs/operations/backup.md");

/// Dumps of the databases of one deployment.
pub struct Dumps {
    folder: TempDir,
    /// Names of the databases that were dumped.
    names: Vec<String>,
}

impl Dumps {
    /// Returns no dumps.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), names: Vec::new() }
    }

    /// Dumps a database while it is in use.
    pub async fn dump(&mut self, dsn: &str) {
        let name = dsn.rsplit('/').next().unwrap();
        run("pg_dump", dsn, &[("DATABASE", dsn), ("DUMP", &self.file(name))]).await;
        self.names.push(name.to_owned());
    }

    /// Restores all dumps to a server, and changes the settings of the deployment to it.
    pub async fn restore(&self, deployment: &mut Deployment, to: &Postgres) {
        let server = to.dsn("postgres");
        for name in &self.names {
            let variables = [("SERVER", &*server), ("DUMP", &self.file(name)), ("RESTORED", &to.dsn(name))];
            run("pg_restore", &server, &variables).await;
        }
        deployment.move_to(to);
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// Runs the documented commands that begin with a program. Uses the programs of a server's version.
async fn run(program: &str, server: &str, variables: &[(&str, &str)]) {
    let mut connection = PgConnection::connect(server).await.unwrap();
    let programs = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
    let programs: String = sqlx::query_scalar(programs).fetch_one(&mut connection).await.unwrap();
    assert!(Path::new(&programs).join(program).is_file(), "{programs} lacks {program}");
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let shell = shell.args(["-euc", documented(program)]).env("PATH", path).envs(variables.iter().copied());
    let output = shell.output().await.unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the commands of the page that begin with a program.
fn documented(program: &str) -> &'static str {
    let mut blocks = PAGE.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    blocks.find(|block| block.starts_with(program)).unwrap_or_else(|| panic!("backup.md has no {program}"))
}
