//! Benchmark of the promised figures. Many figures have a limit, or are a ratio to the bare work in the same run, so
//! that they depend less on the machine. The benchmark prints a table and writes JSON to `target/bench.json`. Arguments
//! select parts: `fanout` measures only that part. `quick` measures the hot paths for a shorter time.
//!
//! The hot paths have Postgres servers of their own, with and without fsync. The other parts need that of
//! `NOETL_TEST_PG`, as the tests do; `make bench` starts it, without fsync.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]
#![allow(missing_docs, unreachable_pub, reason = "a benchmark has no public API")]

mod backlog;
mod check;
mod fanout;
mod feed;
mod held_open;
mod hot;
mod many_readers;
mod projection;
mod rate;
mod report;

use noetl_testkit::Deployment;
use report::Report;

/// Argument for shorter measurements.
const QUICK: &str = "quick";

/// Returns true if a part is to be measured: all parts by default, with `cargo bench -- feed` only that part.
fn wanted(part: &str) -> bool {
    let mut named = named();
    named.retain(|name| name != QUICK);
    named.is_empty() || named.iter().any(|name| name == part)
}

/// Returns true if an argument names a part that does not run otherwise.
fn is_named(part: &str) -> bool {
    named().iter().any(|name| name == part)
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
    match &named()[..] {
        [mode] if mode == rate::BARE => return rate::serve_bare().await,
        [mode, dsns @ ..] if mode == hot::bare_reads::NAME => return hot::bare_reads::serve(dsns).await,
        _ => {}
    }
    let mut report = Report::default();
    Box::pin(hot::measure(&mut report, is_named(QUICK), wanted, is_named)).await;
    others(&mut report).await;
    report.print();
}

/// Measures the other promises.
async fn others(report: &mut Report) {
    if wanted("fanout") {
        fanout::measure(report).await;
    }
    if wanted("readers") {
        many_readers::measure(report).await;
    }
    if ["feed", "rate"].into_iter().any(wanted) {
        measure_on_one_server(report).await;
    }
    if wanted("held") {
        held_open::measure(report).await;
    }
    if wanted("projection") {
        projection::measure(report).await;
    }
    if wanted("feed") {
        feed::measure_takeover(report).await;
        feed::measure_backlog(report, feed::BACKLOG).await;
    }
    if wanted("backlog") {
        backlog::measure_first_publish(report).await;
        backlog::measure_polls(report).await;
    }
    if is_named("huge") {
        feed::measure_backlog(report, 10 * feed::BACKLOG).await;
    }
    if is_named("check") {
        check::measure(report).await;
    }
}

/// Measures the parts that use one server.
async fn measure_on_one_server(report: &mut Report) {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica().await;
    report.figure("server, idle: resident memory", report::resident_mib(&server), "MiB", None);
    if wanted("feed") {
        feed::measure_idling(&server, report).await;
    }
    if wanted("rate") {
        rate::measure(&deployment, report).await;
    }
    if wanted("feed") {
        feed::measure_latency(&deployment, &server, report).await;
    }
    report.figure("server, after all of it: resident memory", report::resident_mib(&server), "MiB", None);
}
