//! The command line of noetl-graphql.

use std::process::ExitCode;

use clap::Parser;
use noetl_graphql::commands::{Cli, run};

/// A request allocates thousands of small values. jemalloc needs less CPU for them than the allocator of the C library
/// (docs/benchmarks.md), and gives free memory back to the system.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("noetl-graphql: {failure}");
            failure.exit_code()
        }
    }
}
