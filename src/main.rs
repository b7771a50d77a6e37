//! The command line of noetl-graphql.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use noetl_graphql::commands::{Cli, run};

/// The system's allocator takes a fifth of the time of a request, mostly in small allocations.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

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
