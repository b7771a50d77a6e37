//! The commands of the command line. A command that does more than call the application has its own file.

mod admin;
mod check;
mod client;
pub mod demo;
mod dev;
mod documents;
mod maintain;
mod migrate;
pub mod output;
pub mod reference;
mod shards;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;

use crate::VERSION;
use crate::app::{self, App, AppError};
use crate::config::{Config, ConfigError, RequiredSettings, Sources};
use crate::telemetry::{self, LogFilter, Telemetry, TelemetryError};
use client::ClientError;
use noetl_api::schema;
use noetl_local::LocalError;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::supervisor::{EndedEarly, Interrupted, Signals};

/// Name of the program.
const NAME: &str = "noetl-graphql";

/// The GraphQL control plane of NoETL.
#[derive(Debug, Parser)]
#[command(version = VERSION, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything for development: a private Postgres and NATS, sample data, the server and its console.
    Dev(dev::Options),
    /// Serve, with the configured databases and broker.
    Serve,
    /// Migrate the configured databases to the schema that this version needs.
    Migrate(migrate::Options),
    /// Show the shards of the deployment, or change them.
    Shards(shards::Options),
    /// Run every housekeeping task once, on all databases: create the next event partitions, drop partitions that are
    /// older than the retention, fill the list of executions, finish abandoned claims, registrations and moves of buckets,
    /// delete the rows that moved buckets left, purge expired claims and delivered outbox rows, count outbox rows, and
    /// read the names of the catalog. Running servers do the same at intervals, and the command may run at the same time. Prints a line for each
    /// task and database; fails if one failed.
    Maintain,
    /// Compare the cluster database, the shards and the streams, and print their differences. Running servers are not
    /// disturbed, and their work in progress is no difference. Exit code: 0 without differences, 1 with differences, 2 if
    /// a part could not be checked. With `--repair`, differences that are repaired, or that the servers handle when they
    /// run, do not count.
    Check(check::Options),
    /// Check the settings and print what is wrong with them.
    CheckConfig,
    /// Print the GraphQL schema.
    Schema,
    /// Print a generated page of the documentation.
    #[command(hide = true)]
    Reference {
        /// The page.
        page: reference::Page,
    },
    /// Print the completions of this command line for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages of this command line into a folder.
    #[command(hide = true)]
    Manual {
        /// The folder, which must exist.
        folder: PathBuf,
    },
    /// Create static tokens for callers.
    #[command(subcommand)]
    Token(token::Token),
    /// Create manifests of trusted documents.
    #[command(subcommand)]
    Documents(documents::Documents),
    /// List, show and cancel executions, on a running server.
    Executions(admin::Executions),
    /// List, retry and discard outbox entries, on a running server.
    Outbox(admin::Outbox),
    /// List source subscriptions and change their states, on a running server.
    Subscriptions(admin::Subscriptions),
    /// Take messages from a source and run an execution for each, on a running server.
    Demo(demo::Options),
}

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The settings can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Logging or metrics could not be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Signals can't be received.
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
    /// The private servers of `dev` failed.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The demo stopped with an error.
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    /// A request to a running server failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No token was created.
    #[error(transparent)]
    Token(#[from] token::TokenError),
    /// No manifest of trusted documents was created.
    #[error(transparent)]
    Documents(#[from] documents::DocumentsError),
    /// The manual pages could not be written.
    #[error("the manual pages can't be written: {0}")]
    Manual(std::io::Error),
    /// The result could not be printed.
    #[error("the output can't be written: {0}")]
    Output(std::io::Error),
    /// Housekeeping tasks failed.
    #[error("{0} of the housekeeping tasks failed")]
    HousekeepingTasks(usize),
    /// Databases or streams differ.
    #[error("{0} differences")]
    Differences(u64),
    /// Parts could not be checked.
    #[error("{0} parts could not be checked")]
    Unchecked(usize),
    /// Nothing could be checked.
    #[error("could not check: {}", WithCauses(.0))]
    CannotCheck(#[source] AppError),
    /// The application failed.
    #[error("{}", WithCauses(.0))]
    App(#[from] AppError),
}

impl Failure {
    /// Returns the exit code: 2 for settings and options that can't be used and for a check that is not complete, 1 for
    /// other failures.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_)
            | Self::Telemetry(TelemetryError::Filter(_))
            | Self::Unchecked(_)
            | Self::CannotCheck(_)
            | Self::App(
                AppError::ShardMap(_)
                | AppError::WrongDatabase { .. }
                | AppError::UnknownShard { .. }
                | AppError::UnknownRole { .. }
                | AppError::Certificate(_),
            ) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs a command until it ends.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Dev(options) => dev::run(options).await,
        Command::Serve => {
            let (sources, telemetry) = start_logging()?;
            let outcome = serve(&sources.check(RequiredSettings::Servers)?, &telemetry).await;
            telemetry.finish().await;
            outcome
        }
        Command::Migrate(options) => migrate::run(&configured(RequiredSettings::Databases)?, options).await,
        Command::Shards(options) => shards::run(&configured(RequiredSettings::Databases)?, options).await,
        Command::Maintain => maintain::run(&configured(RequiredSettings::Databases)?).await,
        Command::Check(options) => check::run(&configured(RequiredSettings::Servers)?, options).await,
        Command::CheckConfig => {
            let sources = Sources::read()?;
            sources.check(RequiredSettings::Servers)?;
            let unknown =
                sources.unknown().iter().map(|name| format!("ignored, because it is not a setting: {name}\n"));
            output::print(&format!("the settings are valid\n{}", unknown.collect::<String>()))
        }
        Command::Token(command) => Ok(token::run(command)?),
        Command::Executions(command) => command.run().await,
        Command::Outbox(command) => command.run().await,
        Command::Subscriptions(command) => command.run().await,
        Command::Demo(options) => Ok(demo::run(options).await?),
        Command::Documents(command) => Ok(documents::run(command)?),
        Command::Reference { page } => output::print(&reference::page(page)),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
            output::print(&String::from_utf8_lossy(&text))
        }
        Command::Manual { folder } => clap_mangen::generate_to(Cli::command(), folder).map_err(Failure::Manual),
        Command::Schema => output::print(&schema::sdl()),
    }
}

fn start_logging() -> Result<(Sources, Telemetry), Failure> {
    let sources = Sources::read()?;
    let telemetry = telemetry::start(&sources.log(), sources.otlp().as_ref())?;
    Ok((sources, telemetry))
}

/// Starts the log, and returns the settings of a command that serves no requests.
fn configured(needs: RequiredSettings) -> Result<Config, Failure> {
    let (sources, _) = start_logging()?;
    Ok(sources.check(needs)?)
}

async fn serve(config: &Config, telemetry: &Telemetry) -> Result<(), Failure> {
    let (mut signals, hangups) = (Signals::listen()?, signal(SignalKind::hangup())?);
    let metrics = telemetry.metrics.clone();
    let start = async { Ok::<_, AppError>((App::start(config, metrics).await?, app::bind(config).await?)) };
    let (app, listener) = match signals.interrupt(start).await {
        Ok(started) => started?,
        Err(Interrupted) => return Ok(()),
    };
    let port = listener.local_addr().map_or(config.server.port, |address| address.port());
    let address = std::net::SocketAddr::new(config.server.host, port);
    let text = format!("listening on {}://{address}", config.connections.scheme());
    println!("{}", telemetry::line(Level::INFO, &text));
    Ok(app.serve(listener, signals, reload(hangups, telemetry.filter.clone())).await?)
}

/// Reads the filter of the log again after each SIGHUP. The files of tokens, certificates and passwords need no signal.
async fn reload(mut hangups: Signal, filter: LogFilter) -> EndedEarly {
    while hangups.recv().await.is_some() {
        let replaced = Sources::read().map_err(Failure::from).and_then(|sources| {
            let text = sources.log().filter;
            filter.set(&text)?;
            Ok(text)
        });
        match replaced {
            Ok(text) => tracing::info!(filter = text, "read the filter of the log again"),
            Err(error) => tracing::error!(error = %WithCauses(&error), "the filter of the log stays as it was"),
        }
    }
    std::future::pending().await
}
