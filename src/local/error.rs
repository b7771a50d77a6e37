use std::io;
use std::path::{Path, PathBuf};

/// Why a private server could not be started or has ended. Each sentence says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// No usable Postgres on this machine.
    #[error(
        "PostgreSQL's server programs (version 13 or newer) were not found; install postgresql \
         (apt-get install postgresql, brew install postgresql@16) or run `make run`, which does"
    )]
    PostgresMissing,

    /// The data needs another major version than the ones that are installed.
    #[error(
        "the data in {} was made by PostgreSQL {made_by}, which is not installed here; install postgresql {made_by}, \
         or delete the folder to start afresh", folder.display()
    )]
    PostgresVersion {
        /// The folder with the data.
        folder: PathBuf,
        /// The major version in the folder's `PG_VERSION`.
        made_by: String,
    },

    /// No usable nats-server on this machine.
    #[error(
        "nats-server (version 2.9 or newer) was not found; install it (apt-get install nats-server, \
         brew install nats-server, or https://nats.io/download) or run `make run`, which does"
    )]
    NatsMissing,

    /// Another process uses the data directory.
    #[error(
        "{} is in use by another noetl-graphql{holder}; stop that one, or choose another folder with --data-dir",
        folder.display()
    )]
    InUse {
        /// The data directory.
        folder: PathBuf,
        /// ` (process 123)`, when known.
        holder: String,
    },

    /// The data belongs to another user of the machine.
    #[error(
        "{} belongs to another user; start as that user, delete the folder to start afresh, or choose another one \
         with --data-dir", folder.display()
    )]
    ForeignData {
        /// The folder with the data.
        folder: PathBuf,
    },

    /// Started by root on a machine without an unprivileged user to run Postgres.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor `nobody`; \
         start as a normal user"
    )]
    NoUnprivilegedUser,

    /// Started by root, and the unprivileged user can't open the folder.
    #[error(
        "PostgreSQL runs as the user `{user}`, who can't open {}; choose a folder that `{user}` can open \
         with --data-dir (for example /var/tmp/noetl)", folder.display()
    )]
    Unreachable {
        /// The folder with the data.
        folder: PathBuf,
        /// The user whom Postgres runs as.
        user: String,
    },

    /// A port that was asked for is taken.
    #[error("port {port} of 127.0.0.1, asked for {server}, is in use; free it or choose another one")]
    PortTaken {
        /// The server that needs the port.
        server: &'static str,
        /// The port.
        port: u16,
    },

    /// A server or a program of it ended when it should not have.
    #[error("{server} ended ({how}); its log, {}, ends with:\n{tail}", log.display())]
    Ended {
        /// The program.
        server: &'static str,
        /// The exit code or the signal.
        how: String,
        /// The log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// A server runs but accepts no client.
    #[error("{server} accepted no client within {seconds} s; its log, {}, ends with:\n{tail}", log.display())]
    NotReady {
        /// The program.
        server: &'static str,
        /// How long it was given.
        seconds: u64,
        /// The log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// The databases could not be created.
    #[error("the databases could not be created; psql said:\n{message}")]
    CreateDatabases {
        /// What psql printed.
        message: String,
    },

    /// A file or process operation failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried, to be followed by the path.
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl LocalError {
    /// For `map_err`: what was tried, and on which path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
