//! Benchmark of the promised figures. Many figures have a limit, or are a ratio to the bare work in the same run, so
//! that they depend less on the machine. The benchmark prints a table and writes JSON to `target/bench.json`. Arguments
//! select parts: `fanout` measures only that part.
//!
//! It needs the Postgres server of `NOETL_TEST_PG`, as the tests do; `make bench` starts one without fsync.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]
#![allow(missing_docs, unreachable_pub, reason = "a benchmark has no public API")]

mod execute;
mod fanout;
mod feed;
mod lists;
mod many_readers;
mod outbox;
mod project;
mod projection;
mod rate;
mod report;

use noetl_testkit::Deployment;
use report::Report;

/// Returns true if a part is to be measured: all parts by default, with `cargo bench -- feed` only that part.
fn wanted(part: &str) -> bool {
    named().is_empty() || named().iter().any(|name| name == part)
}

fn named() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect()
}

#[tokio::main]
async fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` does not, and this program has no tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    if named() == [rate::BARE] {
        return rate::serve_bare().await;
    }
    let mut report = Report::default();
    if wanted("fanout") {
        fanout::measure(&mut report).await;
    }
    if wanted("readers") {
        many_readers::measure(&mut report).await;
    }
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    report.figure("server, idle: resident memory", report::resident_mib(&server), "MiB", None);
    if wanted("feed") {
        feed::measure_idling(&server, &mut report).await;
    }
    if wanted("rate") {
        rate::measure(&deployment, &mut report).await;
    }
    if wanted("execute") {
        execute::measure(&deployment, &server, &mut report).await;
    }
    if wanted("lists") {
        lists::measure(&deployment, &server, &mut report).await;
    }
    if wanted("feed") {
        feed::measure_latency(&deployment, &server, &mut report).await;
    }
    report.figure("server, after all of it: resident memory", report::resident_mib(&server), "MiB", None);
    drop(server);
    if wanted("project") {
        project::measure(&mut report).await;
    }
    if wanted("outbox") {
        outbox::measure(&mut report).await;
    }
    if wanted("projection") {
        projection::measure(&mut report).await;
    }
    if wanted("feed") {
        feed::measure_takeover(&mut report).await;
        feed::measure_backlog(&mut report, feed::BACKLOG).await;
    }
    if named().iter().any(|part| part == "huge") {
        feed::measure_backlog(&mut report, 10 * feed::BACKLOG).await;
    }
    report.print();
}
