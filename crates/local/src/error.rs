use std::io;
use std::path::{Path, PathBuf};

/// Reason why a private server could not be started or has ended. The messages tell the user what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// This machine has no usable Postgres.
    #[error(
        "PostgreSQL's server programs (version 13 or newer) were not found; install postgresql \
         (apt-get install postgresql, brew install postgresql@16) or run `make run`, which installs it"
    )]
    PostgresMissing,

    /// The major version that created the data is not installed.
    #[error(
        "the data in {} was created by PostgreSQL {made_by}, which is not installed; install postgresql {made_by}, \
         or delete the folder to start with empty databases", folder.display()
    )]
    PostgresVersion {
        /// Folder of the data.
        folder: PathBuf,
        /// Major version in the folder's `PG_VERSION`.
        made_by: String,
    },

    /// This machine has no usable nats-server.
    #[error(
        "nats-server (version 2.9 or newer) was not found; install it (apt-get install nats-server, \
         brew install nats-server, or https://nats.io/download) or run `make run`, which installs it"
    )]
    NatsMissing,

    /// Another process uses the data directory.
    #[error(
        "{} is in use by another noetl-graphql process{holder}; stop it, or choose another folder with --data-dir",
        folder.display()
    )]
    InUse {
        /// The data directory.
        folder: PathBuf,
        /// Pid of the other process as ` (123)`; empty if it is unknown.
        holder: String,
    },

    /// The data belongs to another user of the machine.
    #[error(
        "{} belongs to another user; start as that user, delete the folder to start with empty databases, or choose \
         another folder with --data-dir", folder.display()
    )]
    ForeignData {
        /// The folder with the data.
        folder: PathBuf,
    },

    /// The process runs as root, and the machine has no unprivileged user to run Postgres.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor `nobody`; \
         start as a normal user"
    )]
    NoUnprivilegedUser,

    /// The process runs as root, and the unprivileged user can't open the folder.
    #[error(
        "PostgreSQL runs as the user `{user}`, which can't open {}; choose a folder that `{user}` can open \
         with --data-dir (for example /var/tmp/noetl)", folder.display()
    )]
    Unreachable {
        /// The folder with the data.
        folder: PathBuf,
        /// User that Postgres runs as.
        user: String,
    },

    /// The requested port is in use.
    #[error("port {port} of 127.0.0.1, requested for {server}, is in use; free it or choose another one")]
    PortTaken {
        /// The server that needs the port.
        server: &'static str,
        /// The port.
        port: u16,
    },

    /// A server, or one of its programs, ended unexpectedly.
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
        /// Time that the server had to become ready, in seconds.
        seconds: u64,
        /// The log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },

    /// The databases could not be created.
    #[error("the databases could not be created: {0}")]
    CreateDatabases(#[source] sqlx::Error),

    /// A file or process operation failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// Verb of the message, such as `open`; the path follows it.
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl LocalError {
    /// Returns a function for `map_err` that adds the attempted action and its path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
