//! `maintain`: runs the housekeeping tasks once.

use super::{Failure, output};
use crate::app;
use crate::config::Config;
use noetl_runtime::causes::WithCauses;

/// Runs every housekeeping task once and prints its result.
pub(super) async fn run(config: &Config) -> Result<(), Failure> {
    let (mut failed, mut printed) = (0, Ok(()));
    let run = app::maintain(config, |done| {
        let summary = done.outcome.unwrap_or_else(|error| {
            failed += 1;
            format!("FAILED: {}", WithCauses(&error))
        });
        if printed.is_ok() {
            printed = output::print(&format!("{}: {}: {summary}\n", done.database, done.task));
        }
    });
    run.await?;
    printed?;
    if failed == 0 { Ok(()) } else { Err(Failure::HousekeepingTasks(failed)) }
}
