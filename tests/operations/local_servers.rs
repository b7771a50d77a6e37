//! The private servers of `dev`: data is kept, several instances do not collide, and the servers end with their owner.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use noetl_local::{LocalError, LocalOptions, LocalServers, NatsOptions, NatsServer, Postgres, PostgresOptions};
use noetl_testkit::binary;

/// Time limit of a start, a stop or a detection on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// Creates a folder that the user of Postgres can access, like a usual project folder.
fn scratch() -> tempfile::TempDir {
    scratch_with_mode(0o755)
}

fn scratch_with_mode(mode: u32) -> tempfile::TempDir {
    tempfile::Builder::new().prefix("noetl-local-").permissions(fs::Permissions::from_mode(mode)).tempdir().unwrap()
}

/// Returns options for a faster server with less memory than the default.
fn postgres_in(folder: &Path) -> PostgresOptions {
    PostgresOptions {
        settings: vec![("fsync".into(), "off".into()), ("shared_buffers".into(), "16MB".into())],
        ..PostgresOptions::new(folder)
    }
}

/// Runs one statement and returns what psql prints.
fn psql(dsn: &str, sql: &str) -> String {
    let output = Command::new("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-c", sql]).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out while waiting for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_alive(pid: Pid) -> bool {
    // A zombie that its parent has not collected yet has no command line.
    fs::read(format!("/proc/{pid}/cmdline"))
        .map_or_else(|_| !cfg!(target_os = "linux") && kill(pid, None).is_ok(), |line| !line.is_empty())
}

fn first_pid(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().next()?.trim().parse().ok().map(Pid::from_raw)
}

/// Files in a data directory with the pids of both servers.
const PID_FILES: [&str; 2] = ["postgres/data/postmaster.pid", "nats/pid"];

/// Returns the pids of both servers of a data directory.
fn server_pids(data_dir: &Path) -> Vec<Pid> {
    PID_FILES.iter().map(|file| first_pid(&data_dir.join(file)).unwrap_or_else(|| panic!("no {file}"))).collect()
}

/// A `dev` process that is killed at the end of its test.
struct Dev {
    process: Child,
    data_dir: PathBuf,
}

impl Dev {
    fn command(program: &Path, data_dir: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["dev", "--port", "0", "--shards", "1", "--data-dir"])
            .arg(data_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Starts the command and waits until its own env file contains its port. Deletes the env file of a killed process
    /// first.
    fn start(mut command: Command, data_dir: &Path) -> Self {
        let _ = fs::remove_file(data_dir.join("env"));
        let mut dev = Self { process: command.spawn().unwrap(), data_dir: data_dir.to_owned() };
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !dev.env().contains("NOETL_PORT=") {
            assert!(dev.process.try_wait().unwrap().is_none(), "dev ended early");
            assert!(Instant::now() < deadline, "dev did not start in time");
            std::thread::sleep(Duration::from_millis(20));
        }
        dev
    }

    fn env(&self) -> String {
        fs::read_to_string(self.data_dir.join("env")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The data folder is one that `mktemp` made. Its servers are started three times.
#[tokio::test]
async fn servers_keep_their_data_and_ports_and_shards_can_be_added() {
    let folder = scratch_with_mode(0o700);
    let mut options = LocalOptions::new(folder.path(), 2);
    let servers = LocalServers::start(&options).await.unwrap();
    assert!(fs::symlink_metadata(folder.path().join("postgres/data")).unwrap().is_dir());
    let (cluster, shards, nats) = (servers.cluster_dsn(), servers.shard_dsns(), servers.nats_url());
    assert_eq!(shards.len(), 2);
    for dsn in shards.iter().chain([&cluster]) {
        psql(dsn, "CREATE TABLE kept AS SELECT 7 AS value");
    }
    a_shell_can_source_the_env_file(&servers);
    Box::pin(a_second_process_is_refused(&options, &servers)).await;
    let env = servers.env_file().to_owned();
    servers.stop().await;
    assert!(!env.exists());

    let servers = LocalServers::start(&options).await.unwrap();
    assert_eq!(servers.cluster_dsn(), cluster);
    assert_eq!(servers.shard_dsns(), shards);
    assert_eq!(servers.nats_url(), nats);
    for dsn in shards.iter().chain([&cluster]) {
        assert_eq!(psql(dsn, "SELECT value FROM kept"), "7");
    }
    servers.stop().await;

    options.shards = 3;
    let mut servers = Box::pin(start_beside_a_stranger_with_the_pids_of_the_servers(&options)).await;
    assert_eq!(servers.shard_dsns().len(), 3);
    for dsn in servers.shard_dsns() {
        assert_eq!(psql(&dsn, "SELECT 1"), "1");
    }
    let nats = first_pid(&folder.path().join("nats/pid")).unwrap();
    kill(nats, Signal::SIGKILL).unwrap();
    let error = servers.wait_exit().await.to_string();
    assert!(error.contains("nats-server ended (killed by SIGKILL)"), "{error}");
    servers.stop().await;
}

/// A shell can source the env file while the servers run.
fn a_shell_can_source_the_env_file(servers: &LocalServers) {
    servers.publish_port(12345).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", r#". "$1"; echo "$NOETL_CLUSTER_DSN $NOETL_SHARDS $NOETL_NATS_URL $NOETL_PORT""#, "sh"])
        .arg(servers.env_file())
        .output()
        .unwrap();
    let expected =
        format!("{} {} {} 12345\n", servers.cluster_dsn(), servers.shard_dsns().join(","), servers.nats_url());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

/// One data folder is used by one process at a time.
async fn a_second_process_is_refused(options: &LocalOptions, servers: &LocalServers) {
    let error = LocalServers::start(options).await.unwrap_err();
    assert!(matches!(error, LocalError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("--data-dir"), "{error}");
    // The refused start did not affect the running process.
    assert_eq!(psql(&servers.cluster_dsn(), "SELECT 1"), "1");
    assert!(servers.env_file().exists());
}

/// Starts stopped servers whose pid files have the pid of another process, which is not stopped.
async fn start_beside_a_stranger_with_the_pids_of_the_servers(options: &LocalOptions) -> LocalServers {
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    for file in PID_FILES {
        fs::write(options.data_dir.join(file), format!("{}\n", stranger.id())).unwrap();
    }
    let started = LocalServers::start(options).await;
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was stopped");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    started.unwrap()
}

#[test]
fn the_servers_end_with_their_owner_and_lose_no_data() {
    let folder = scratch();
    let data_dir = folder.path().join("data");
    kill_9_of_the_owner_stops_the_servers_and_loses_no_data(&data_dir);
    let dev = the_next_start_stops_servers_whose_watchdogs_were_killed(&data_dir);
    ctrl_c_stops_the_servers_and_removes_the_env_file(dev, &data_dir);
}

/// Ctrl-C stops the servers and removes the env file.
fn ctrl_c_stops_the_servers_and_removes_the_env_file(mut dev: Dev, data_dir: &Path) {
    let pids = server_pids(data_dir);
    dev.signal(Signal::SIGINT);
    assert!(dev.process.wait().unwrap().success());
    assert!(!pids.into_iter().any(is_alive));
    assert!(!data_dir.join("env").exists());
}

#[test]
fn ctrl_c_during_the_start_stops_the_servers_too() {
    let started = ["postgres/data/PG_VERSION", PID_FILES[0], PID_FILES[1], "env"];
    for file in started {
        let folder = scratch();
        let data_dir = folder.path().join("data");
        let mut dev = Dev { process: Dev::command(binary(), &data_dir).spawn().unwrap(), data_dir: data_dir.clone() };
        wait_until("the start has come so far", || data_dir.join(file).exists());
        let pids: Vec<Pid> = PID_FILES.iter().filter_map(|file| first_pid(&data_dir.join(file))).collect();
        dev.signal(Signal::SIGINT);
        assert!(dev.process.wait().unwrap().success(), "{file}");
        wait_until("the servers end", || !pids.iter().any(|pid| is_alive(*pid)));
        assert!(!data_dir.join("env").exists(), "{file}");

        let dev = Dev::start(Dev::command(binary(), &data_dir), &data_dir);
        assert_eq!(psql(&cluster_dsn(&dev), "SELECT 1"), "1", "a later start works");
    }
}

/// `kill -9` of the owner stops the servers and loses no data.
fn kill_9_of_the_owner_stops_the_servers_and_loses_no_data(data_dir: &Path) {
    let mut dev = Dev::start(Dev::command(binary(), data_dir), data_dir);
    psql(&cluster_dsn(&dev), "CREATE TABLE kept AS SELECT 7 AS value");
    dev.signal(Signal::SIGKILL);
    dev.process.wait().unwrap();

    // A start directly after it, while the servers may still be running.
    let mut dev = Dev::start(Dev::command(binary(), data_dir), data_dir);
    assert_eq!(psql(&cluster_dsn(&dev), "SELECT value FROM kept"), "7");
    let pids = server_pids(data_dir);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    dev.signal(Signal::SIGKILL);
    dev.process.wait().unwrap();
    wait_until("the servers end", || !pids.iter().any(|pid| is_alive(*pid)));
}

/// The next start stops servers whose watchdogs were killed. Returns its process. The data is that of the part before.
fn the_next_start_stops_servers_whose_watchdogs_were_killed(data_dir: &Path) -> Dev {
    let mut dev = Dev::start(Dev::command(binary(), data_dir), data_dir);
    let leftovers = server_pids(data_dir);
    // While `dev` is frozen, it does not notice that its watchdogs are killed.
    dev.signal(Signal::SIGSTOP);
    for pid in &leftovers {
        // A server is in the process group of its watchdog. This kills all of the group except the server.
        let group = nix::unistd::getpgid(Some(*pid)).unwrap();
        for member in group_members(group) {
            if member != *pid {
                kill(member, Signal::SIGKILL).unwrap();
            }
        }
    }
    dev.signal(Signal::SIGKILL);
    dev.process.wait().unwrap();
    assert!(leftovers.iter().all(|pid| is_alive(*pid)), "the servers ended although their watchdogs were killed");

    let dev = Dev::start(Dev::command(binary(), data_dir), data_dir);
    assert!(!leftovers.iter().any(|pid| is_alive(*pid)));
    assert_eq!(psql(&cluster_dsn(&dev), "SELECT value FROM kept"), "7");
    dev
}

#[tokio::test]
async fn a_requested_port_in_use_is_an_error_and_a_remembered_one_is_replaced() {
    let folder = scratch();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();

    let asked = NatsOptions { port: Some(port), ..NatsOptions::new(folder.path().join("nats")) };
    let error = NatsServer::start(asked).await.unwrap_err();
    assert!(matches!(error, LocalError::PortTaken { .. }), "{error}");

    fs::write(folder.path().join("nats/port"), format!("{port}\n")).unwrap();
    let mut nats = NatsServer::start(NatsOptions::new(folder.path().join("nats"))).await.unwrap();
    assert_ne!(nats.port(), port);
    nats.stop().await;
}

#[tokio::test]
async fn data_of_another_major_version_is_refused_with_the_version() {
    let folder = scratch();
    let data = folder.path().join("postgres/data");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("PG_VERSION"), "9.6\n").unwrap();
    let error = Postgres::start(postgres_in(&folder.path().join("postgres"))).await.unwrap_err();
    assert!(error.to_string().contains("created by PostgreSQL 9.6"), "{error}");
    assert!(data.join("PG_VERSION").exists(), "the data was deleted");
}

/// The folder has what an interrupted `initdb` left.
#[tokio::test]
async fn a_database_server_is_created_crashes_pauses_and_refuses_settings() {
    let folder = scratch();
    let home = folder.path().join("postgres");
    for half in ["data", "unfinished-1"] {
        fs::create_dir_all(home.join(half).join("base")).unwrap();
    }
    let mut postgres = Postgres::start(postgres_in(&home)).await.unwrap();
    assert_eq!(psql(&postgres.dsn("postgres"), "SELECT 1"), "1");
    assert!(!home.join("unfinished-1").exists());

    psql(&postgres.dsn("postgres"), "CREATE TABLE kept AS SELECT 7 AS value");
    let dsn = postgres.dsn("postgres");
    postgres.kill_9().await;
    assert!(!answers(postgres.port()));
    postgres.restart().await.unwrap();
    assert_eq!(psql(&dsn, "SELECT value FROM kept"), "7");

    an_open_session_is_frozen_while_the_server_is_paused(&mut postgres).await;
    // A paused server can be stopped.
    postgres.pause().await;
    postgres.stop().await;
    assert!(!answers(postgres.port()));

    let mut options = postgres_in(&home);
    options.settings.push(("shared_buffers".into(), "lots".into()));
    let error = Postgres::start(options).await.unwrap_err().to_string();
    assert!(error.contains("invalid value for parameter \"shared_buffers\""), "{error}");
}

/// An open session stays open while the server is paused, and gets a response when the server is resumed.
async fn an_open_session_is_frozen_while_the_server_is_paused(postgres: &mut Postgres) {
    let dsn = postgres.dsn("postgres");
    let mut session =
        Command::new("psql").args(["-XAtq", "-d", &dsn]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = session.stdin.take().unwrap();
    let mut output = session.stdout.take().unwrap();
    writeln!(input, "SELECT 'before';").unwrap();
    let mut line = [0; 7];
    output.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"before\n");

    postgres.pause().await;
    writeln!(input, "SELECT 'after!';").unwrap();
    let reader = std::thread::spawn(move || {
        output.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"after!\n");
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!reader.is_finished(), "a paused server responded");
    postgres.resume();
    reader.join().unwrap();
    drop(input);
    session.wait().unwrap();
}

#[tokio::test]
async fn a_broker_restarts_on_its_port_and_keeps_connections_while_it_is_paused() {
    let folder = scratch();
    let mut nats = NatsServer::start(NatsOptions::new(folder.path().join("nats"))).await.unwrap();
    nats.kill_9().await;
    assert!(!answers(nats.port()));
    nats.restart().await.unwrap();
    assert!(answers(nats.port()));

    let mut client = TcpStream::connect(("127.0.0.1", nats.port())).unwrap();
    let mut answer = [0; 4096];
    assert!(client.read(&mut answer).unwrap() > 0);
    nats.pause().await;
    client.write_all(b"PING\r\n").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(client.read(&mut answer).is_err());
    nats.resume();
    client.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    let length = client.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"PONG"));
    nats.stop().await;
}

#[test]
fn a_user_without_root_rights_can_start_the_servers() {
    if !geteuid().is_root() {
        return; // All other tests run as a normal user already.
    }
    let folder = scratch();
    // Other users may not have access to the build's folder.
    let program = folder.path().join("noetl-graphql");
    fs::copy(binary(), &program).unwrap();
    let data_dir = folder.path().join("data");
    fs::create_dir(&data_dir).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    chown(&data_dir, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();

    let mut command = Dev::command(&program, &data_dir);
    command
        .uid(nobody.uid.as_raw())
        .gid(nobody.gid.as_raw())
        .current_dir(folder.path())
        .env("HOME", "/nonexistent")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let mut dev = Dev::start(command, &data_dir);
    assert_eq!(psql(&cluster_dsn(&dev), "SELECT 1"), "1");
    assert_eq!(fs::metadata(data_dir.join("postgres/data")).unwrap().uid(), nobody.uid.as_raw());
    dev.signal(Signal::SIGTERM);
    assert!(dev.process.wait().unwrap().success());
}

#[tokio::test]
async fn root_can_keep_data_below_a_folder_that_other_users_cannot_access() {
    if !geteuid().is_root() {
        return; // A normal user's server runs as that user.
    }
    let folder = scratch_with_mode(0o700);
    let home = folder.path().join(".noetl/postgres");
    let mut postgres = Postgres::start(postgres_in(&home)).await.unwrap();
    psql(&postgres.dsn("postgres"), "CREATE TABLE kept AS SELECT 7 AS value");
    postgres.stop().await;
    let elsewhere = fs::read_link(home.join("data")).unwrap();

    let mut postgres = Postgres::start(postgres_in(&home)).await.unwrap();
    assert_eq!(psql(&postgres.dsn("postgres"), "SELECT value FROM kept"), "7");
    postgres.stop().await;

    // Deleting the project's data folder must lead to an empty start.
    fs::remove_dir_all(&home).unwrap();
    let mut postgres = Postgres::start(postgres_in(&home)).await.unwrap();
    let tables = psql(&postgres.dsn("postgres"), "SELECT count(*) FROM pg_tables WHERE tablename = 'kept'");
    assert_eq!(tables, "0");
    postgres.stop().await;
    fs::remove_dir_all(elsewhere.parent().unwrap()).unwrap();
}

fn cluster_dsn(dev: &Dev) -> String {
    dev.env().lines().find_map(|line| line.strip_prefix("NOETL_CLUSTER_DSN=")).unwrap().to_owned()
}

fn group_members(group: Pid) -> Vec<Pid> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,pgid="]).output().unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(|number| number.parse().ok().map(Pid::from_raw));
            let (pid, its_group) = (numbers.next()??, numbers.next()??);
            (its_group == group).then_some(pid)
        })
        .collect()
}
