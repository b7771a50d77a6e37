//! The commands, one file for each that does more than call the application.

mod demo;
mod dev;
mod documents;
mod maintain;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::app::{self, App, AppError};
use crate::config::{Config, ConfigError, Needs, Sources};
use crate::graphql::schema;
use crate::local::LocalError;
use crate::supervisor::{EndedEarly, Interrupted, Signals};
use crate::telemetry::{self, Telemetry, TelemetryError};

/// The GraphQL control plane of NoETL.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything for development: a private Postgres and NATS, sample data, the server and its console.
    Dev(dev::Options),
    /// Serve, with databases and a broker that run elsewhere.
    Serve,
    /// Bring the configured databases to the shape that this version needs.
    Migrate,
    /// Do every duty of housekeeping once, now, on all databases: make the coming event partitions, drop the ones past
    /// the retention, finish abandoned claims and registrations, purge expired claims. Servers do the same by
    /// themselves; it is safe beside them. Prints a line for each duty and database; fails if one failed.
    Maintain,
    /// Check the settings and say what is wrong with them.
    CheckConfig,
    /// Print the GraphQL schema.
    Schema,
    /// Make static tokens for callers.
    #[command(subcommand)]
    Token(token::Token),
    /// Trusted documents.
    #[command(subcommand)]
    Documents(documents::Documents),
    /// Take messages from a source and run each through a server that runs already.
    Demo(demo::Options),
}

/// Why a command failed.
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
    /// The private servers of `dev`.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The demo.
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    /// No token was made.
    #[error(transparent)]
    Token(#[from] token::TokenError),
    /// Trusted documents.
    #[error(transparent)]
    Documents(#[from] documents::DocumentsError),
    /// Duties of housekeeping.
    #[error("{0} of the duties failed")]
    Duties(usize),
    /// The application.
    #[error("{}", chain(.0))]
    App(#[from] AppError),
}

impl Failure {
    /// 2 for settings that can't be used, 1 for everything else.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_)
            | Self::Telemetry(TelemetryError::Filter(_))
            | Self::App(AppError::ShardMap(_) | AppError::WrongDatabase { .. } | AppError::Certificate(_)) => {
                ExitCode::from(2)
            }
            _ => ExitCode::FAILURE,
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Runs a command to its end.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Dev(options) => dev::run(options).await,
        Command::Serve => {
            let (sources, telemetry) = start_logging()?;
            let outcome = serve(&sources.check(Needs::Servers)?, telemetry.metrics.clone()).await;
            telemetry.finish().await;
            outcome
        }
        Command::Migrate => {
            let (sources, _) = start_logging()?;
            Ok(app::migrate(&sources.check(Needs::Databases)?).await?)
        }
        Command::Maintain => {
            let (sources, _) = start_logging()?;
            maintain::run(&sources.check(Needs::Databases)?).await
        }
        Command::CheckConfig => {
            Sources::read()?.check(Needs::Servers)?;
            println!("the settings are in order");
            Ok(())
        }
        Command::Token(command) => Ok(token::run(command)?),
        Command::Demo(options) => Ok(demo::run(options).await?),
        Command::Documents(command) => Ok(documents::run(command)?),
        Command::Schema => {
            print!("{}", schema::sdl());
            Ok(())
        }
    }
}

fn start_logging() -> Result<(Sources, Telemetry), Failure> {
    let sources = Sources::read()?;
    let telemetry = telemetry::start(&sources.log(), sources.otlp().as_ref())?;
    Ok((sources, telemetry))
}

async fn serve(config: &Config, metrics: PrometheusHandle) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let start = async { Ok::<_, AppError>((App::start(config, metrics).await?, app::bind(config).await?)) };
    let (app, listener) = match signals.interrupt(start).await {
        Ok(started) => started?,
        Err(Interrupted) => return Ok(()),
    };
    let port = listener.local_addr().map_or(config.server.port, |address| address.port());
    println!("listening on {}://{}", config.connections.scheme(), std::net::SocketAddr::new(config.server.host, port));
    Ok(app.serve(listener, signals, std::future::pending::<EndedEarly>()).await?)
}
