//! The data folder of Postgres, and the user that Postgres runs as.
//!
//! Guarantees:
//! - A folder named `data` is complete: initdb fills another folder, which is then renamed.
//! - Postgres refuses to run as root. If this process runs as root, Postgres runs as the owner of the existing data,
//!   else as `postgres`, else as `nobody`. If that user can't open the folder (such as a project under /root), the data
//!   is in `/var/lib/noetl-graphql`, and `data` is a link to it. If the link is missing, the next start deletes that
//!   data.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User, geteuid};

use super::error::LocalError;
use super::guarded::{Launch, WatchedProcess, shell, tail};
use super::leftovers;
use super::programs::PostgresPrograms;

/// Parent of the data folders whose configured place Postgres's user can't open. Unlike /var/tmp, it is not cleaned up.
const REACHABLE_HOME: &str = "/var/lib/noetl-graphql";

/// The data folder of a Postgres server.
#[derive(Debug)]
pub(super) struct DataFolder {
    /// Folder that holds `data`, the log and the stored port; owned by this process's user.
    home: PathBuf,
    /// User that Postgres runs as; absent: the user of this process.
    user: Option<User>,
}

impl DataFolder {
    /// Finds the user that Postgres runs as. `home` is an absolute path without links.
    pub(super) fn new(home: &Path) -> Result<Self, LocalError> {
        let owner = owner_of(&home.join("data"))?;
        let us = geteuid();
        if us.is_root() {
            return Ok(Self { home: home.to_owned(), user: Some(unprivileged(owner)?) });
        }
        if owner.is_some_and(|owner| owner != us) {
            return Err(LocalError::ForeignData { folder: home.join("data") });
        }
        Ok(Self { home: home.to_owned(), user: None })
    }

    /// Returns the user and group ids of the server's processes; absent: those of this process.
    pub(super) fn user(&self) -> Option<(Uid, Gid)> {
        self.user.as_ref().map(|user| (user.uid, user.gid))
    }

    /// Returns the major version of Postgres that created the data, if data exists.
    pub(super) fn made_by(&self) -> Option<String> {
        let version = fs::read_to_string(self.home.join("data/PG_VERSION")).ok()?;
        Some(version.trim().to_owned())
    }

    /// Creates the data if it is missing, and returns its absolute path without links. Stops the server processes that
    /// a killed run left in it.
    pub(super) async fn prepare(&self, programs: &PostgresPrograms, durable: bool) -> Result<PathBuf, LocalError> {
        let link = self.home.join("data");
        if self.made_by().is_some() {
            let data = link.canonicalize().map_err(LocalError::io("open", &link))?;
            stop_leftover(&data).await;
            self.check_reachable(&data).await?;
            return Ok(data);
        }
        let parent = if self.can_open(&self.home).await? { self.home.clone() } else { self.reachable_parent().await? };
        let data = parent.join("data");
        stop_leftover(&data).await;
        remove_unfinished(&parent)?;
        remove_folder(&data)?;
        self.initdb(&parent, programs, durable).await?;
        if data != link {
            // The path may hold an empty folder or a dangling link.
            let _ = fs::remove_dir(&link);
            let _ = fs::remove_file(&link);
            symlink(&data, &link).map_err(LocalError::io("link", &link))?;
            tracing::info!(data = %data.display(), "PostgreSQL's user can't open the data folder; using another one");
        }
        Ok(data)
    }

    async fn initdb(&self, parent: &Path, programs: &PostgresPrograms, durable: bool) -> Result<(), LocalError> {
        let draft = parent.join(format!("{UNFINISHED}{}", std::process::id()));
        make_folder(&draft, 0o700)?;
        self.give(&draft)?;
        let mut arguments: Vec<_> =
            ["--username=noetl", "--auth=trust", "--encoding=UTF8", "--locale=C", "-D"].map(Into::into).into();
        arguments.push(draft.clone().into_os_string());
        if !durable {
            arguments.push("--no-sync".into());
        }
        let log = self.home.join("initdb.log");
        let mut initdb = WatchedProcess::spawn(Launch {
            server: "initdb",
            program: &programs.path("initdb"),
            arguments,
            user: self.user(),
            log: &log,
            stop_signals: (Signal::SIGTERM, Signal::SIGKILL),
        })
        .await?;
        let status = initdb.wait().await.map_err(LocalError::io("run", &log))?;
        if !status.success() {
            let _ = remove_folder(&draft);
            return Err(LocalError::Ended { server: "initdb", how: status.to_string(), tail: tail(&log), log });
        }
        let data = parent.join("data");
        fs::rename(&draft, &data).map_err(LocalError::io("make", &data))?;
        sync_folder(parent).map_err(LocalError::io("make", &data))
    }

    /// Returns the folder that replaces the home for the data. Each home has its own folder, always the same.
    async fn reachable_parent(&self) -> Result<PathBuf, LocalError> {
        let parent = Path::new(REACHABLE_HOME).join(name_for(&self.home));
        make_folder(&parent, 0o755)?;
        self.check_reachable(&parent).await?;
        Ok(parent)
    }

    async fn check_reachable(&self, folder: &Path) -> Result<(), LocalError> {
        if self.can_open(folder).await? {
            return Ok(());
        }
        Err(LocalError::Unreachable {
            folder: folder.to_owned(),
            user: self.user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
        })
    }

    /// Returns whether Postgres's user can open the folder. Tries it as that user, because modes, access lists and
    /// mount options all matter.
    async fn can_open(&self, folder: &Path) -> Result<bool, LocalError> {
        if self.user.is_none() {
            return Ok(true);
        }
        let status = shell(self.user())
            .args(["-c", r#"cd -- "$1" 2>/dev/null"#, "sh"])
            .arg(folder)
            .status()
            .await
            .map_err(LocalError::io("open", folder))?;
        Ok(status.success())
    }

    fn give(&self, folder: &Path) -> Result<(), LocalError> {
        let Some((uid, gid)) = self.user() else {
            return Ok(());
        };
        chown(folder, Some(uid.as_raw()), Some(gid.as_raw())).map_err(LocalError::io("change the owner of", folder))
    }
}

const UNFINISHED: &str = "unfinished-";

async fn stop_leftover(data: &Path) {
    let pid_file = data.join("postmaster.pid");
    leftovers::stop_leftover("PostgreSQL", &pid_file, data, Signal::SIGINT).await;
    leftovers::kill_orphans(data).await;
}

fn owner_of(data: &Path) -> Result<Option<Uid>, LocalError> {
    match fs::metadata(data) {
        Ok(metadata) => Ok(Some(Uid::from_raw(metadata.uid()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LocalError::io("open", data)(error)),
    }
}

fn unprivileged(owner: Option<Uid>) -> Result<User, LocalError> {
    let owner = owner.filter(|uid| !uid.is_root());
    let known = |user: nix::Result<Option<User>>| user.ok().flatten();
    owner
        .and_then(|uid| known(User::from_uid(uid)))
        .or_else(|| known(User::from_name("postgres")))
        .or_else(|| known(User::from_name("nobody")))
        .ok_or(LocalError::NoUnprivilegedUser)
}

/// Returns the FNV-1a hash of the path as hexadecimal digits. It is the same in every build, unlike the hashes of the
/// standard library.
fn name_for(home: &Path) -> String {
    let hash = home
        .as_os_str()
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn make_folder(folder: &Path, mode: u32) -> Result<(), LocalError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(mode)))
        .map_err(LocalError::io("make", folder))
}

fn remove_unfinished(parent: &Path) -> Result<(), LocalError> {
    let entries = fs::read_dir(parent).map_err(LocalError::io("read", parent))?;
    for entry in entries.flatten() {
        if entry.file_name().as_bytes().starts_with(UNFINISHED.as_bytes()) {
            remove_folder(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<(), LocalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LocalError::io("remove", folder)(error)),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
