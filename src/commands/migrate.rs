//! `migrate`: changes the tables of the databases, or prints what it would change.

use clap::Args;

use super::{Failure, output};
use crate::app;
use crate::config::Config;

/// Options of `migrate`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Print the changes of each database in their order, and change nothing.
    #[arg(long)]
    plan: bool,
    /// Grant this role of PostgreSQL the rights that servers need, in each database. It need not own the tables. For the
    /// rights that it has already, nothing is changed.
    #[arg(long, value_name = "ROLE", conflicts_with = "plan")]
    grant_to: Option<String>,
}

/// Migrates the configured databases, or prints the plan.
pub(super) async fn run(config: &Config, options: Options) -> Result<(), Failure> {
    if !options.plan {
        return Ok(app::migrate(config, options.grant_to.as_deref()).await?);
    }
    for (database, steps) in app::migration_plan(config).await? {
        if steps.is_empty() {
            output::print(&format!("{database}: nothing to change\n"))?;
        }
        for step in steps {
            output::print(&format!("{database}: {step}\n"))?;
        }
    }
    Ok(())
}
