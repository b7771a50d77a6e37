//! Behind a pooler, the server works if each connection has a session of its own, and says so otherwise. The pooler is
//! PgBouncer.

use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Stdio;

use nix::unistd::Uid;
use noetl_local::free_port;
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually};
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// User and group of a pooler that root starts; PgBouncer refuses to run as root.
const NOBODY: u32 = 65_534;

struct PgBouncer {
    port: u16,
    _process: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pooler for all databases of a PostgreSQL server.
    async fn start(server: &PgConnectOptions, mode: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, port) = (folder.path().join("pgbouncer.ini"), free_port().unwrap());
        let settings = format!(
            "[databases]\n* = host={} port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 50\n{more}\n",
            server.get_host(),
            server.get_port(),
            server.get_username(),
        );
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("pgbouncer");
        // Debian installs the binary in a folder that is not in a user's PATH.
        command.env("PATH", format!("{}:/usr/local/sbin:/usr/sbin", std::env::var("PATH").unwrap()));
        if Uid::effective().is_root() {
            command.uid(NOBODY).gid(NOBODY);
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let process = command.arg("--quiet").arg(&file).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        eventually("the pooler accepts connections", async || TcpStream::connect(("127.0.0.1", port)).ok()).await;
        Self { port, _process: process, _folder: folder }
    }
}

/// Lets the server reach the databases of a deployment through a pooler.
fn through(deployment: &mut Deployment, pooler: &PgBouncer) {
    for (name, value) in &mut deployment.env {
        if name == "NOETL_CLUSTER_DSN" || name == "NOETL_SHARDS" {
            let address = |dsn: &str| {
                let database = dsn.rsplit('/').next().unwrap();
                format!("postgres://noetl@127.0.0.1:{}/{database}", pooler.port)
            };
            *value = value.split(',').map(address).collect::<Vec<_>>().join(",");
        }
    }
}

#[tokio::test]
async fn a_pooler_that_keeps_sessions_is_used_and_the_settings_of_sessions_hold() {
    let mut deployment = Deployment::start(1).await;
    let mut shard = deployment.shard(0).await;
    // PgBouncer drops the options of connections, and the database has other settings.
    run(
        &mut shard,
        "
        CREATE FUNCTION public.require_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (current_setting('synchronous_commit'), current_setting('statement_timeout')) <> ('on', '8s') THEN
                RAISE 'the settings of the session do not hold';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER require_settings BEFORE INSERT ON noetl.execution EXECUTE FUNCTION public.require_settings();
        CREATE FUNCTION public.require_own_setting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('noetl.moves_buckets', true) IS DISTINCT FROM 'on' THEN
                RAISE 'the setting of this server does not hold';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER require_own_setting BEFORE INSERT ON noetl.tail_cursor
            EXECUTE FUNCTION public.require_own_setting();
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$",
    )
    .await;
    let options = deployment.cluster_dsn.parse().unwrap();
    let pooler = PgBouncer::start(&options, "session", "ignore_startup_parameters = options,extra_float_digits").await;
    through(&mut deployment, &pooler);
    deployment.migrate().await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let started = server.execute(json!({ "path": "none" })).await;
    assert_eq!(started["userErrors"][0]["code"], "NOT_FOUND", "{started}");
    let id = server.start_execution().await;
    eventually("the execution is listed", async || {
        let listed = server.data("{ executions { nodes { id } } }", json!(null)).await;
        (listed["executions"]["nodes"][0]["id"] == json!(id.to_string())).then_some(())
    })
    .await;
    let (code, found) = deployment.check(&[]).await;
    assert_eq!(code, 0, "{found}");
    deployment.maintain(&[]).await;
}

#[tokio::test]
async fn a_pooler_that_shares_sessions_is_refused_before_anything_is_changed() {
    let mut deployment = Deployment::unmigrated(1).await;
    let options = deployment.cluster_dsn.parse().unwrap();
    for (mode, more) in [
        ("transaction", ""),
        ("transaction", "server_round_robin = 1"),
        ("transaction", "default_pool_size = 1"),
        ("statement", ""),
    ] {
        let more = format!("{more}\nignore_startup_parameters = options,extra_float_digits");
        let pooler = PgBouncer::start(&options, mode, &more).await;
        through(&mut deployment, &pooler);
        for command in ["migrate", "serve"] {
            let output = deployment.command(command).output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("pooler"), "{mode} {more}: {command}: {said}");
        }
        let exists = sqlx::query_scalar("SELECT to_regnamespace('noetl') IS NOT NULL");
        let exists: bool = exists.fetch_one(&mut deployment.cluster().await).await.unwrap();
        assert!(!exists, "{mode} {more}");
    }
}
