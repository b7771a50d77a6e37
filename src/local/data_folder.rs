//! The folder that Postgres keeps its data in, and the user whom it runs as.
//!
//! Guarantees:
//! - A folder named `data` is complete: initdb fills a folder beside it, which is then renamed.
//! - Postgres refuses to run as root. Started by root, it runs as the owner of the existing data, else as
//!   `postgres`, else as `nobody`. When that user can't get to the folder (a project under /root), the data is in
//!   `/var/lib/noetl-graphql`, and `data` is a link to it. Without the link, what is there counts as deleted.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User, geteuid};

use super::error::LocalError;
use super::guarded::{Guarded, Launch, shell, tail};
use super::leftovers;
use super::programs::PostgresPrograms;

/// Where the data goes that its user can't get to: as lasting as the project's own folder, unlike /var/tmp.
const REACHABLE_HOME: &str = "/var/lib/noetl-graphql";

/// The place of one Postgres server's data.
#[derive(Debug)]
pub(super) struct DataFolder {
    /// The folder of the server, ours: `data`, the log and the port are in it.
    home: PathBuf,
    /// Whom Postgres runs as, when not as ourselves.
    user: Option<User>,
}

impl DataFolder {
    /// `home` is an absolute path without links.
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

    /// The ids that the server's processes run with, when not ours.
    pub(super) fn user(&self) -> Option<(Uid, Gid)> {
        self.user.as_ref().map(|user| (user.uid, user.gid))
    }

    /// The major version of Postgres that made the data, if there is data.
    pub(super) fn made_by(&self) -> Option<String> {
        let version = fs::read_to_string(self.home.join("data/PG_VERSION")).ok()?;
        Some(version.trim().to_owned())
    }

    /// The data's absolute path without links, made if there is none. Server processes that a killed run left in it
    /// have ended.
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
            // An empty folder or a dangling link may be in the way.
            let _ = fs::remove_dir(&link);
            let _ = fs::remove_file(&link);
            symlink(&data, &link).map_err(LocalError::io("link", &link))?;
            tracing::info!(data = %data.display(), "the project's folder is closed to PostgreSQL's user; data is kept here");
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
        let mut initdb = Guarded::spawn(Launch {
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

    /// The stand-in for the home: one folder per home, the same each time.
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

    /// Tries it as that user: modes, access lists and mount options all have a say.
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

/// FNV-1a of the path: the same in every build, unlike the standard library's hashes.
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
