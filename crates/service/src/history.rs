//! Computation of the history of executions on a shard: the rows of the minutes, hours and days that are closed, and those
//! of hours with late changes again.
//!
//! Each step is a transaction, so a run can be cancelled at any point, and the next one continues. The history is right
//! without this work: reads count the executions since the last closed minute, and those of hours with late changes.

use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::execution_history_close::Closing;
use noetl_storage::pools::Databases;
use noetl_use_cases::error::ServiceError;

/// Maximum number of steps of a run, each of an hour or an old day, or of an hour with late changes. The next run uses the
/// bucket map of its time.
const STEPS: usize = 48;

/// Computes the rows that are due on a shard, and returns what was done. The index must be one of a shard.
#[tracing::instrument(level = "debug", name = "history.close", skip_all, fields(shard = index))]
pub async fn close(databases: &Databases, index: ShardIndex) -> Result<String, ServiceError> {
    let Some(mut closing) = Closing::take(databases.view(index)).await? else {
        return Ok("another process computes the history of this shard".to_owned());
    };
    closing.plan().await?;
    let mut open = closing.open().await?;
    let (closed, mut steps, mut late) = (open.is_some(), 0, 0);
    loop {
        // Before the hours with late changes, so that many of them do not keep minutes from being closed.
        if let Some(next) = open {
            open = closing.close(next).await?;
            steps += 1;
        }
        let repeated = repeat_late(&mut closing, STEPS.saturating_sub(steps)).await?;
        late += repeated;
        steps += repeated;
        if open.is_none() || steps >= STEPS {
            break;
        }
    }
    closing.end().await?;
    // None are closed while a transaction from before the last run is in progress.
    let minutes = if closed { "closed the minutes that were due" } else { "closed no minutes" };
    Ok(format!("{minutes}, and computed {late} hours with late changes again"))
}

/// Computes up to `most` of the hours with late changes again. Returns their number.
async fn repeat_late(closing: &mut Closing<'_>, most: usize) -> Result<usize, StorageError> {
    let hours = closing.late(most).await?;
    for hour in &hours {
        closing.repeat(*hour).await?;
    }
    Ok(hours.len())
}
