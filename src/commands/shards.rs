//! `shards`: shows the shards, adds shards, and plans an even distribution of the buckets.

use std::fmt::Write;

use clap::{Args, Subcommand};

use super::{Failure, output};
use crate::app::{self, ShardState, ShardStatus};
use crate::config::Config;
use noetl_domain::rebalance::{BucketMove, BucketSeries};
use noetl_domain::shard::{BUCKETS, ShardIndex};
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
}

/// Runs the command, or shows the shards.
pub(super) async fn run(config: &Config, options: Options) -> Result<(), Failure> {
    let text = match options.command {
        None => shown(&app::shards(config).await?),
        Some(Command::Add { dry_run }) => added(&app::add_shards(config, dry_run).await?, dry_run),
        Some(Command::Rebalance { plan: _ }) => plan(&app::rebalance_plan(config).await?),
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

fn plan(moves: &[BucketMove]) -> String {
    let mut text = String::new();
    for BucketMove { from, to, buckets } in moves {
        let _ = writeln!(text, "{} buckets from shard {from} to shard {to}: {}", buckets.len(), BucketSeries(buckets));
    }
    let total: usize = moves.iter().map(|of| of.buckets.len()).sum();
    let _ = writeln!(text, "{total} of {BUCKETS} buckets move");
    text
}
