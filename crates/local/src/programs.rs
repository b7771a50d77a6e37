//! Finds the servers' programs on this machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::error::LocalError;

/// Oldest supported major version of Postgres.
const OLDEST_POSTGRES: u32 = 13;
/// Oldest supported version of nats-server.
const OLDEST_NATS: (u32, u32) = (2, 9);

/// An installed version of Postgres.
#[derive(Clone, Debug)]
pub(super) struct PostgresPrograms {
    bin: PathBuf,
    major: u32,
}

impl PostgresPrograms {
    /// Returns the newest installed version, or the version that created the data.
    ///
    /// If `given` is present, only that folder is searched. `made_by` is the major version of existing data in
    /// `folder`; no other version can read the data.
    pub(super) async fn find(given: Option<&Path>, made_by: Option<&str>, folder: &Path) -> Result<Self, LocalError> {
        let candidates = match given {
            Some(bin) => vec![bin.to_owned()],
            None => postgres_folders().await,
        };
        let mut found = Vec::new();
        for bin in candidates {
            found.extend(Self::in_folder(&bin).await);
        }
        found.sort_by_key(|programs| programs.major);
        let Some(newest) = found.last().cloned() else {
            return Err(LocalError::PostgresMissing);
        };
        match made_by {
            None => Ok(newest),
            Some(made_by) => found
                .into_iter()
                .find(|programs| programs.major.to_string() == made_by)
                .ok_or_else(|| LocalError::PostgresVersion { folder: folder.to_owned(), made_by: made_by.to_owned() }),
        }
    }

    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.bin.join(program)
    }

    /// Returns the programs in the folder if they are complete and new enough.
    async fn in_folder(bin: &Path) -> Option<Self> {
        let server = bin.join("postgres").canonicalize().ok()?;
        let bin = server.parent()?.to_owned();
        if !["initdb", "postgres"].iter().all(|program| bin.join(program).is_file()) {
            return None;
        }
        let (major, _) = version(&server).await?;
        (major >= OLDEST_POSTGRES).then_some(Self { bin, major })
    }
}

/// Returns the path of nats-server.
pub(super) async fn find_nats(given: Option<&Path>) -> Result<PathBuf, LocalError> {
    let candidates = match given {
        Some(program) => vec![program.to_owned()],
        None => on_path("nats-server").await.into_iter().chain(NATS_PROGRAMS.iter().map(PathBuf::from)).collect(),
    };
    for candidate in candidates {
        let Ok(program) = candidate.canonicalize() else {
            continue;
        };
        if version(&program).await.is_some_and(|version| version >= OLDEST_NATS) {
            return Ok(program);
        }
    }
    Err(LocalError::NatsMissing)
}

/// Places that the PATH of a normal user may not have: Debian installs the program in `/usr/sbin`.
const NATS_PROGRAMS: [&str; 4] = [
    "/usr/sbin/nats-server",
    "/usr/local/sbin/nats-server",
    "/usr/local/bin/nats-server",
    "/opt/homebrew/bin/nats-server",
];

/// Folders that hold one folder per version, and the path from there to the programs.
const POSTGRES_HOMES: [(&str, &str); 6] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr", "bin"),
    ("/usr/local/pgsql", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "bin"),
];

async fn postgres_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        on_path("postgres").await.and_then(|server| Some(server.parent()?.to_owned())).into_iter().collect();
    for (home, bin) in POSTGRES_HOMES {
        let versions = std::fs::read_dir(home).into_iter().flatten().flatten();
        folders.extend(
            versions.filter(|version| names_postgres(&version.file_name())).map(|version| version.path().join(bin)),
        );
    }
    folders
}

/// Returns whether a folder of this name holds Postgres: `16` on Debian, `postgresql@16` with Homebrew, `pgsql-16` on
/// Red Hat.
fn names_postgres(folder: &OsStr) -> bool {
    let name = folder.to_string_lossy();
    name.starts_with("postgresql") || name.starts_with("pgsql") || name.parse::<f32>().is_ok()
}

/// Returns the program's path as the shell finds it in PATH.
async fn on_path(program: &str) -> Option<PathBuf> {
    let output = Command::new("/bin/sh").args(["-c", r#"command -v "$1""#, "sh", program]).output().await.ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    path.is_absolute().then_some(path)
}

async fn version(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().await.ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Parses a version such as `postgres (PostgreSQL) 15.18 (Debian …)`, `postgres (PostgreSQL) 17beta1` or
/// `nats-server: v2.9.10`.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let word = text
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_are_read_as_the_programs_print_them() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)";
        assert_eq!(parse_version(debian), Some((15, 18)));
        assert_eq!(parse_version("postgres (PostgreSQL) 17beta1\n"), Some((17, 0)));
        assert_eq!(parse_version("nats-server: v2.9.10\n"), Some((2, 9)));
        assert_eq!(parse_version("nats-server: v2.10.0-beta.1\n"), Some((2, 10)));
        assert_eq!(parse_version("no version"), None);
    }
}
