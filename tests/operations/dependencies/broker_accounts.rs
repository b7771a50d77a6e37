//! Accounts at a NATS of others: a user with few rights or inboxes of its own, a domain of JetStream, an imported
//! JetStream, and an account that requires a size of each stream.

use std::fs;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, ServerAddr};
use noetl_testkit::broker_cluster::free_ports;
use noetl_testkit::{Deployment, Server, eventually, repository};
use tempfile::NamedTempFile;

use super::broker::{broker, configured};
use super::database::serves;

/// Streams of a deployment with one shard, and their subjects.
const STREAMS: [(&str, &str); 2] = [("noetl_events", "noetl.events.>"), ("noetl_executions", "noetl.executions.>")];

/// Returns the configuration of an account with JetStream and two users, of whom `noetl` has these permissions.
fn account(jetstream: &str, permissions: &str) -> String {
    format!(
        "accounts {{ NOETL {{
            jetstream: {jetstream}
            users: [ {{ user: admin, password: x }}, {{ user: noetl, password: x{permissions} }} ]
        }} }}"
    )
}

/// Returns the text of docs/operations/infrastructure.md.
fn page() -> String {
    fs::read_to_string(repository().join("docs/operations/infrastructure.md")).unwrap()
}

/// Returns the rights of the table in docs/operations/infrastructure.md as a part of a user's configuration.
/// `creates`: with the rights to create streams.
fn documented_permissions(creates: bool) -> String {
    let (page, mut publish, mut subscribe) = (page(), Vec::new(), Vec::new());
    for row in page.lines().filter(|line| line.starts_with("| publish")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let subjects: Vec<String> = cells[2].split('`').skip(1).step_by(2).map(|part| format!("{part:?}")).collect();
        match cells[1] {
            "publish, subscribe" => {
                subscribe.extend(subjects.clone());
                publish.extend(subjects);
            }
            "publish" => publish.extend(subjects),
            "publish, to create the streams" if creates => publish.extend(subjects),
            _ => {}
        }
    }
    let [publish, subscribe] = [publish, subscribe].map(|subjects| subjects.join(", "));
    format!(", permissions: {{ publish: {{ allow: [{publish}] }}, subscribe: {{ allow: [{subscribe}] }} }}")
}

/// Returns the address of a user's broker.
fn url(user: &str, port: u16) -> String {
    format!("nats://{user}:x@127.0.0.1:{port}")
}

/// Connects to a broker that starts.
async fn connected(url: &str) -> Context {
    let address: ServerAddr = url.parse().unwrap();
    // The client does not use the login in an address.
    let options = || match address.username() {
        Some(user) => ConnectOptions::with_user_and_password(user.to_owned(), "x".to_owned()),
        None => ConnectOptions::new(),
    };
    jetstream::new(eventually("the broker listens", async || options().connect(address.clone()).await.ok()).await)
}

/// Starts a replica whose log is in a file.
async fn logged(deployment: &Deployment, settings: &[(&str, &str)]) -> (Server, NamedTempFile) {
    let log = NamedTempFile::new().unwrap();
    let mut command = deployment.command("serve");
    command.envs(settings.iter().copied()).env("NOETL_LOG_FORMAT", "json").stderr(log.reopen().unwrap());
    (Server::spawn(command).await, log)
}

/// Waits until the log has all these parts.
async fn says(log: &NamedTempFile, parts: &[&str]) {
    eventually("the log has the reason", async || {
        let text = fs::read_to_string(log.path()).unwrap();
        parts.iter().all(|part| text.contains(part)).then_some(())
    })
    .await;
}

/// Panics unless the event of an execution reaches the stream and a live reader, and its outbox row is relayed.
async fn works(deployment: &Deployment, server: &Server, context: &Context) {
    serves(server).await;
    deployment.until_relayed(1).await;
    eventually("the event is in the stream", async || {
        let events = context.get_stream("noetl_events").await.ok()?;
        (events.cached_info().state.messages > 0).then_some(())
    })
    .await;
}

/// Panics unless the relay refuses an outbox row whose subject begins with a prefix of the API or of inboxes.
async fn refuses_row_under(deployment: &Deployment, prefix: &str) {
    let subject = format!("{prefix}.STREAM.MSG.DELETE.noetl_events");
    let insert = format!(
        "INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec)
         VALUES (1, 1, '{subject}', '{{\"seq\": 1}}', 'json')"
    );
    deployment.on_shard(0, &insert).await;
    let error = eventually("the row is tried", async || {
        let rows = deployment.outbox(0).await;
        rows.into_iter().find(|row| row.execution_id == Some(1)).and_then(|row| row.last_error)
    })
    .await;
    assert!(error.contains("can't be published"), "{error}");
}

/// Panics unless a server works at a broker with these accounts, which refuses none of its subjects. `setting`: a prefix
/// besides the address. Outbox rows may not have subjects under it.
async fn works_at(accounts: &str, setting: (&str, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let (_broker, port) = broker(folder.path(), accounts);
    let (deployment, context) = tokio::join!(Deployment::start(0), async { connected(&url("admin", port)).await });
    let url = url("noetl", port);
    let (server, log) = logged(&deployment, &[("NOETL_NATS_URL", &url), setting]).await;
    works(&deployment, &server, &context).await;
    refuses_row_under(&deployment, setting.1).await;
    let text = fs::read_to_string(log.path()).unwrap();
    assert!(!text.contains("Permissions Violation"), "{text}");
}

/// Other tests use the prefix `_INBOX`, which is the default.
#[tokio::test]
async fn the_documented_rights_are_enough_for_a_server_that_creates_its_streams_with_inboxes_of_its_own() {
    let permissions = documented_permissions(true).replace("_INBOX.>", "_INBOX_noetl.>");
    works_at(&account("enabled", &permissions), ("NOETL_NATS_INBOX_PREFIX", "_INBOX_noetl")).await;
}

/// The accounts are those of the page. The user has the rights of the table.
#[tokio::test]
async fn streams_of_another_account_are_used_through_its_imported_api() {
    let page = page();
    let accounts = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let permissions = documented_permissions(true).replace("$JS.API", "JS.shared.API");
    let (user, password) = ("user: noetl, password: ", "\"…\"");
    assert!(accounts.contains(&format!("{user}{password}")), "{accounts}");
    let accounts = accounts.replace(password, "x").replace(&format!("{user}x"), &format!("{user}x{permissions}"));
    works_at(&accounts, ("NOETL_NATS_API_PREFIX", "JS.shared.API")).await;
}

#[tokio::test]
async fn a_user_that_may_not_create_or_change_streams_uses_those_made_by_hand_and_the_log_names_missing_ones_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_broker, port) = broker(folder.path(), &account("enabled", &documented_permissions(false)));
    let (deployment, context) = tokio::join!(Deployment::start(0), async { connected(&url("admin", port)).await });
    let url = url("noetl", port);
    let settings = [("NOETL_NATS_URL", url.as_str()), ("NOETL_EVENT_STREAM_REPLICAS", "3")];
    let (server, log) = logged(&deployment, &settings).await;
    for (name, subjects) in STREAMS {
        says(&log, &[&format!("nats stream add {name} --subjects='{subjects}' --storage=file --retention=limits")])
            .await;
    }
    let fence = "SELECT fence FROM noetl.tail_cursor";
    let first = deployment.sum_over_shards(fence).await;
    eventually("the leader has tried again", async || {
        (deployment.sum_over_shards(fence).await > first + 1).then_some(())
    })
    .await;
    for (name, subjects) in STREAMS {
        let config = Config { name: name.to_owned(), subjects: vec![subjects.to_owned()], ..Config::default() };
        context.create_stream(config).await.unwrap();
    }
    works(&deployment, &server, &context).await;

    // The stream has fewer copies than the settings, and the user may not add some.
    says(&log, &["the stream can't get more replicas"]).await;
    let text = fs::read_to_string(log.path()).unwrap();
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    for (name, _) in STREAMS {
        assert_eq!(lines(&format!("the stream {name} does not exist and can't be created")), 1, "{text}");
        assert_eq!(
            lines(&format!("Permissions Violation for Publish to \\\"$JS.API.STREAM.CREATE.{name}")),
            1,
            "{text}"
        );
    }
    assert_eq!(lines("the user lacks a right at the broker"), 3, "{text}");
}

/// The server connects to a leaf node without JetStream. The streams are in the domain of the hub.
#[tokio::test]
async fn streams_in_another_domain_of_jetstream_are_used() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (store, leaves) = (folders[0].path().join("store"), free_ports(1)[0]);
    let hub =
        format!("jetstream {{ store_dir: {store:?}, domain: hub }}\nleafnodes {{ listen: \"127.0.0.1:{leaves}\" }}\n");
    let (_hub, hub) = configured(folders[0].path(), &hub);
    let leaf = format!("leafnodes {{ remotes: [ {{ url: \"nats-leaf://127.0.0.1:{leaves}\" }} ] }}\n");
    let (_leaf, leaf) = configured(folders[1].path(), &leaf);
    let hub = format!("nats://127.0.0.1:{hub}");
    let (deployment, context) = tokio::join!(Deployment::start(0), connected(&hub));
    let leaf = format!("nats://127.0.0.1:{leaf}");
    let settings = [("NOETL_NATS_URL", leaf.as_str()), ("NOETL_NATS_JETSTREAM_DOMAIN", "hub")];
    let server = deployment.replica_with(&settings).await;
    works(&deployment, &server, &context).await;
}

#[tokio::test]
async fn an_account_that_requires_a_size_gets_streams_of_the_configured_size() {
    let folder = tempfile::tempdir().unwrap();
    let (_broker, port) = broker(folder.path(), &account("{ max_bytes_required: true }", ""));
    let url = url("noetl", port);
    let (deployment, context) = tokio::join!(Deployment::start(0), connected(&url));
    let (server, log) = logged(&deployment, &[("NOETL_NATS_URL", &url)]).await;
    let reason = "account requires a stream config to have max bytes set";
    for (name, _) in STREAMS {
        says(&log, &[&format!("the stream {name} does not exist and can't be created: {reason}")]).await;
    }
    says(&log, &["set NOETL_EVENT_STREAM_MAX_BYTES"]).await;
    assert!(server.stop().await.success());

    let settings = [("NOETL_NATS_URL", url.as_str()), ("NOETL_EVENT_STREAM_MAX_BYTES", "1048576")];
    let server = deployment.replica_with(&settings).await;
    works(&deployment, &server, &context).await;
    // Notifications are never dropped to make room.
    for ((name, _), discard) in STREAMS.into_iter().zip([DiscardPolicy::Old, DiscardPolicy::New]) {
        let stream = context.get_stream(name).await.unwrap();
        let config = &stream.cached_info().config;
        assert_eq!((config.max_bytes, config.discard), (1 << 20, discard), "{name}");
    }
}
