//! A DSN that names a primary and its standby: a running server uses the one that accepts writes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use noetl_local::Postgres;
use noetl_storage::error::DatabaseName;
use noetl_storage::login::Login;
use noetl_storage::pools::{Database, Down, Health};
use noetl_testkit::copies::{own_server, standby, until_replayed};
use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, eventually, execute_input};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection, PgConnection};

use super::rights::said;

const EXECUTE: &str = "mutation($input: ExecuteInput!) { execute(input: $input) { outcome userErrors { code } } }";

/// Lets the first server of a DSN fail, and promotes the second one, under the same process.
async fn fail_over(fail: impl AsyncFnOnce(&mut Postgres)) {
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let standby = standby(&primary, &folder.path().join("standby")).await;
    let name = deployment.cluster_dsn.rsplit('/').next().unwrap().to_owned();
    let address = |server: &Postgres| format!("127.0.0.1:{}", server.port());
    let dsn = |first: &Postgres, second: &Postgres| {
        format!("postgres://noetl@{},{}/{name}?target_session_attrs=read-write", address(first), address(second))
    };
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), dsn(&standby, &primary)));
    deployment.migrate().await;
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), dsn(&primary, &standby)));
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    server.register_entry("process", &json!({ "kind": "playbook" })).await;
    until_replayed(&deployment, &standby).await;

    fail(&mut primary).await;
    let (code, text) = said(&deployment, "check", &[]).await;
    assert_ne!(code, 0, "{text}");
    assert!(text.contains(&address(&primary)) && text.contains(&address(&standby)), "{text}");
    let mut promoted = PgConnection::connect(&standby.dsn(&name)).await.unwrap();
    run(&mut promoted, "SELECT pg_promote()").await;
    let input = execute_input(json!({ "path": "process" }));
    eventually("an execution is started on the promoted server", async || {
        let response = server.send(EXECUTE, json!({ "input": input })).await.unwrap();
        (response["data"]["execute"]["outcome"] == "STARTED").then_some(())
    })
    .await;
    deployment.move_to(&standby);
    deployment.until_all_published().await;
    assert!(server.stop().await.success());
    // A frozen server does not stop by itself.
    primary.kill_9().await;
}

#[tokio::test]
async fn a_server_continues_on_the_promoted_standby_after_the_primary_was_killed() {
    fail_over(async |primary: &mut Postgres| primary.kill_9().await).await;
}

#[tokio::test]
async fn a_server_continues_on_the_promoted_standby_while_the_primary_does_not_respond() {
    fail_over(async |primary: &mut Postgres| primary.pause().await).await;
}

#[tokio::test]
async fn a_database_is_up_if_one_server_accepts_writes_and_read_only_if_none_of_them_does() {
    let writable: PgConnectOptions = std::env::var("NOETL_TEST_PG").unwrap().parse().unwrap();
    let read_only = writable.clone().options([("default_transaction_read_only", "on")]);
    let dead = writable.clone().port(1);
    // On a busy machine, a probe can end before each server has responded.
    let becomes = async |servers: Vec<PgConnectOptions>, expected: fn(Health) -> bool| {
        eventually("each server has responded", async || {
            let database = Database::with_login(DatabaseName::Cluster, &Login::new(servers.clone(), None), 1);
            database.probe().await;
            expected(database.health()).then_some(())
        })
        .await;
    };
    becomes(vec![dead.clone(), read_only.clone(), writable], |health| {
        health.down.is_none() && health.latency.is_some()
    })
    .await;
    becomes(vec![read_only.clone(), read_only.clone()], |health| health.down == Some(Down::ReadOnly)).await;
    becomes(vec![dead, read_only], |health| {
        let reasons = [":1: ", "the server is read-only (SQLSTATE 25006)"];
        matches!(health.down, Some(Down::Unreachable(text)) if reasons.iter().all(|reason| text.contains(reason)))
    })
    .await;
}

/// Response of a server to an attempt to connect.
#[derive(Clone, Copy)]
enum Response {
    /// A refusal with this SQLSTATE.
    Refusal(&'static str),
    /// No program listens on the port.
    NoServer,
    /// The connection is closed.
    Closed,
}

/// Returns the options of a server on this machine that responds in this way to every attempt.
fn responding(response: Response) -> PgConnectOptions {
    let options =
        PgConnectOptions::new_without_pgpass().host("127.0.0.1").username("noetl").ssl_mode(PgSslMode::Disable);
    let message = match response {
        Response::NoServer => return options.port(1),
        // ErrorResponse of the protocol: its type, its length, and fields that end with a zero.
        Response::Refusal(code) => {
            let fields = format!("SFATAL\0VFATAL\0C{code}\0Mno\0\0");
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            [b"E".as_slice(), &length, fields.as_bytes()].concat()
        }
        Response::Closed => Vec::new(),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // A client that has gone needs no response.
            drop(client.and_then(|client| respond(client, &message)));
        }
    });
    options.port(port)
}

/// Reads the first message of a client, which begins with its length, and sends the response.
fn respond(mut client: TcpStream, message: &[u8]) -> std::io::Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let rest = usize::try_from(u32::from_be_bytes(length)).unwrap() - length.len();
    client.read_exact(&mut vec![0; rest])?;
    client.write_all(message)
}

/// State of a database after a probe. At its end, a reason has the server whose error says most about a later attempt.
#[derive(Debug, PartialEq)]
enum State {
    Up,
    ReadOnly,
    Unreachable(String),
}

/// Probes a database on two servers, of which the first one counts as the one that accepted writes last. The reason has
/// the servers' names `a` and `b`, and no texts of errors of the system.
async fn probed(first: Response, second: Response) -> State {
    let servers = [first, second].map(responding);
    let names = [("a", &servers[0]), ("b", &servers[1])];
    let name = |reason: &str| {
        let named = |(name, server): (&str, &PgConnectOptions)| {
            let (_, text) = reason.split_once(&format!("127.0.0.1:{}: ", server.get_port()))?;
            Some(if text.starts_with("no (") { format!("{name}: {text}") } else { format!("{name}: lost") })
        };
        names.into_iter().find_map(named).unwrap_or_else(|| panic!("{reason} names no server"))
    };
    let database = Database::with_login(DatabaseName::Cluster, &Login::new(servers.to_vec(), None), 1);
    database.probe().await;
    match database.health().down {
        None => State::Up,
        Some(Down::ReadOnly) => State::ReadOnly,
        Some(down) => State::Unreachable(down.to_string().split("; ").map(name).collect::<Vec<_>>().join("; ")),
    }
}

#[tokio::test]
async fn a_database_is_up_only_if_each_server_or_the_preferred_one_responded_and_the_text_names_each_once() {
    use Response::{Closed, NoServer, Refusal};
    let down = |reason: &str| State::Unreachable(reason.to_owned());
    // On a busy machine, a probe can end before each server has responded.
    for (first, second, expected) in [
        (Refusal("53300"), Refusal("25006"), State::Up),
        (Refusal("57P03"), Refusal("53300"), State::Up),
        (Refusal("57P03"), Refusal("25006"), down("b: no (SQLSTATE 25006); a: no (SQLSTATE 57P03)")),
        (Refusal("25006"), Refusal("25006"), State::ReadOnly),
        (NoServer, Refusal("53300"), down("a: lost; b: no (SQLSTATE 53300)")),
        (Refusal("53300"), NoServer, State::Up),
        (Refusal("25006"), NoServer, down("b: lost; a: no (SQLSTATE 25006)")),
        (NoServer, Refusal("25006"), down("a: lost; b: no (SQLSTATE 25006)")),
        (Closed, Refusal("28P01"), down("a: lost; b: no (SQLSTATE 28P01)")),
        (NoServer, Closed, down("b: lost; a: lost")),
    ] {
        eventually(&format!("the servers make the state {expected:?}"), async || {
            (probed(first, second).await == expected).then_some(())
        })
        .await;
    }
}
