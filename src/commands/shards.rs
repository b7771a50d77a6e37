//! `shards`: shows the shards, adds shards, plans an even distribution of the buckets, and moves buckets.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::{Failure, output};
use crate::app::{self, PlannedMove, ShardState, ShardStatus};
use crate::config::Config;
use noetl_domain::rebalance::{self, BucketMove, BucketSeries, MalformedBuckets};
use noetl_domain::shard::{BUCKETS, ShardIndex};
use noetl_service::moves::Progress;
use noetl_storage::shard_map::Size;

/// Options of `shards`. Without a command, it shows the shards.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare the databases that `NOETL_SHARDS` names after the existing shards. They must be empty. The command can
    /// be repeated, and running servers are not affected.
    Add {
        /// Check that the databases can be added, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Plan an even distribution of the buckets over the configured shards.
    Rebalance {
        /// Print the moves, and change nothing.
        #[arg(long, required = true)]
        plan: bool,
    },
    /// Move buckets to another shard while servers run. Writers of a bucket wait for less than a second. The command can
    /// be interrupted, and continues when it is repeated; a move back is the same command with the other shard. It prints
    /// its progress to standard error.
    Move {
        /// The buckets, as `rebalance --plan` prints them: single buckets and series such as `2-5036/6`, separated by
        /// commas.
        #[arg(long, value_parser = parse_buckets)]
        buckets: Buckets,
        /// Index of the shard that gets the buckets.
        #[arg(long)]
        to: ShardIndex,
        /// Print what would be moved, and change nothing.
        #[arg(long, conflicts_with = "abort")]
        dry_run: bool,
        /// Give up the moves of these buckets that were not switched: delete the copied rows, and leave the buckets where
        /// they are.
        #[arg(long)]
        abort: bool,
    },
}

/// Buckets of an option, ascending.
#[derive(Debug, Clone)]
struct Buckets(Vec<u16>);

fn parse_buckets(text: &str) -> Result<Buckets, MalformedBuckets> {
    rebalance::parse_buckets(text).map(Buckets)
}

/// Runs the command, or shows the shards.
pub(super) async fn run(config: &Config, options: Options) -> Result<(), Failure> {
    let text = match options.command {
        None => shown(&app::shards(config).await?),
        Some(Command::Add { dry_run }) => added(&app::add_shards(config, dry_run).await?, dry_run),
        Some(Command::Rebalance { plan: _ }) => plan(&app::rebalance_plan(config).await?),
        Some(Command::Move { buckets: Buckets(buckets), to, dry_run: true, .. }) => {
            planned(&app::planned_moves(config, buckets, to).await?, to)
        }
        Some(Command::Move { buckets: Buckets(buckets), to, abort: true, .. }) => {
            format!("{} moves of buckets to shard {to} aborted\n", app::abort_moves(config, buckets, to).await?)
        }
        Some(Command::Move { buckets: Buckets(buckets), to, .. }) => {
            let count = buckets.len();
            let shown = Mutex::new(None);
            Box::pin(app::move_buckets(config, buckets, to, &|from, to, progress| show(&shown, from, to, progress)))
                .await?;
            format!("{count} buckets are on shard {to}\n")
        }
    };
    output::print(&text)
}

fn shown(shards: &[ShardStatus]) -> String {
    let mut text = format!(
        "{:>5}  {:<11}  {:>7}  {:>14}  {:>14}  {:>10}\n",
        "shard", "state", "buckets", "events", "executions", "MiB"
    );
    for ShardStatus { shard, state, buckets } in shards {
        let (state, size) = match state {
            ShardState::Ready(size) => ("ready", Some(size)),
            ShardState::Unavailable => ("unavailable", None),
            ShardState::New => ("new", None),
        };
        let column = |value: fn(&Size) -> i64| size.map_or_else(|| "-".to_owned(), |size| value(size).to_string());
        let (events, executions) = (column(|size| size.events), column(|size| size.executions));
        let mib = column(|size| size.bytes / (1024 * 1024));
        let _ = writeln!(text, "{shard:>5}  {state:<11}  {buckets:>7}  {events:>14}  {executions:>14}  {mib:>10}");
    }
    text.push_str("Events and executions are estimates by PostgreSQL's statistics.\n");
    if shards.iter().any(|shard| shard.state == ShardState::New) {
        text.push_str("A new shard is not a part of the deployment yet: `noetl-graphql shards add` adds it.\n");
    }
    text
}

fn added(shards: &[ShardIndex], dry_run: bool) -> String {
    let outcome = if dry_run { "can be added" } else { "added, with 0 buckets" };
    let mut text = String::new();
    for shard in shards {
        let _ = writeln!(text, "shard {shard}: {outcome}");
    }
    match (shards.is_empty(), dry_run) {
        (true, _) => text.push_str("every configured shard is a part of the deployment\n"),
        (false, true) => {}
        (false, false) => text.push_str("Restart the replicas one by one with this NOETL_SHARDS.\n"),
    }
    text
}

fn planned(moves: &[PlannedMove], to: ShardIndex) -> String {
    let mut text = String::new();
    for PlannedMove { source, buckets, of, size } in moves {
        let share = |whole: i64| whole.saturating_mul(count(buckets.len())) / count(*of).max(1);
        let (events, executions, mib) = (share(size.events), share(size.executions), share(size.bytes / (1024 * 1024)));
        let _ = writeln!(
            text,
            "{} buckets from shard {source} to shard {to}: about {events} events, {executions} executions, {mib} MiB",
            buckets.len()
        );
    }
    if moves.is_empty() {
        let _ = writeln!(text, "the buckets are on shard {to}");
    }
    text
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Shortest time between two lines about copied rows or a wait.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Prints the progress of a move to standard error. Lines that repeat often are printed once per second.
fn show(shown: &Mutex<Option<Instant>>, from: ShardIndex, to: ShardIndex, progress: Progress) {
    let mut last = shown.lock().unwrap_or_else(PoisonError::into_inner);
    let is_frequent = matches!(progress, Progress::Copied { .. } | Progress::Waiting);
    if is_frequent && last.is_some_and(|last| last.elapsed() < LINE_EVERY) {
        return;
    }
    *last = Some(Instant::now());
    let line = match progress {
        Progress::Waiting => "waiting for another move or the retention".to_owned(),
        Progress::Announced => "the replicas know of the move".to_owned(),
        Progress::Copied { executions, events } => format!("copied {executions} executions, {events} events"),
        Progress::Postponed(reason) => format!("a switch is tried again: {reason}"),
        Progress::Switched { done, of, pause_ms } => {
            format!("{done} of {of} buckets have moved (writers waited for up to {pause_ms} ms)")
        }
    };
    output::note(&format!("shard {from} to shard {to}: {line}"));
}

fn plan(moves: &[BucketMove]) -> String {
    let mut text = String::new();
    for BucketMove { from, to, buckets } in moves {
        let _ = writeln!(text, "{} buckets from shard {from} to shard {to}: {}", buckets.len(), BucketSeries(buckets));
    }
    let total: usize = moves.iter().map(|of| of.buckets.len()).sum();
    let _ = writeln!(text, "{total} of {BUCKETS} buckets move");
    text
}
