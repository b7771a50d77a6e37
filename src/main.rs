//! The command line of noetl-graphql.

use std::process::ExitCode;

use clap::Parser;
use noetl_graphql::commands::{Cli, run};

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
