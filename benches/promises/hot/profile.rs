//! Profiles of the server while it carries out a hot path. `perf` writes them into the build's folder, and
//! `perf report -i FILE` shows one.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::load::Side;
use super::message::Protocol;
use super::{Stage, execute, message, outbox, project, reads};
use crate::report;

const TIME: Duration = Duration::from_secs(6);

/// Records a profile of each hot path.
pub async fn record(stage: &Stage) {
    one(stage, "execute", &mut execute::sides(stage, 64).await[0]).await;
    let [batch, ..] = &mut project::whole(stage, 1).await[..] else { unreachable!() };
    one(stage, "projectEvents", batch).await;
    outbox::fill(stage).await;
    one(stage, "outbox", &mut Side::new("", stage.of_server(), outbox::callers(stage, 1).await)).await;
    reads::fill(stage).await;
    let list = vec![reads::LIST.to_owned()].into();
    let list = reads::reader(&stage.server.url, "/graphql", &list, "", 16).await;
    one(stage, "list", &mut Side::new("", stage.of_server(), list)).await;
    let details = reads::details(stage).await.into();
    let details = reads::reader(&stage.server.url, "/graphql", &details, "", 16).await;
    one(stage, "detail", &mut Side::new("", stage.of_server(), details)).await;
}

/// Records a profile of whole messages; the stage has background work.
pub async fn record_messages(stage: &Stage, protocol: Protocol) {
    let (sources, _tasks) = message::sources(stage, protocol).await;
    let name = match protocol {
        Protocol::Relay => "message",
        Protocol::Claims => "message-of-claims",
    };
    one(stage, name, &mut Side::new("", stage.of_server(), sources)).await;
}

async fn one(stage: &Stage, name: &str, side: &mut Side) {
    side.callers.run(TIME / 6).await;
    let folder = report::target().join("profile");
    std::fs::create_dir_all(&folder).unwrap();
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "-p", &stage.server.pid().to_string(), "-o"]);
    perf.arg(folder.join(format!("{name}.data"))).args(["--", "sleep", &TIME.as_secs().to_string()]);
    let mut perf = perf.stdin(Stdio::null()).spawn().expect("perf is installed");
    side.callers.run(TIME).await;
    perf.wait().await.unwrap();
    println!("profile of {name}: target/profile/{name}.data");
}
