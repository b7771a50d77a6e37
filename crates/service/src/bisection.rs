//! Writing many items to one database: one statement, unless the database refuses the values of some items.
//!
//! The tables of an existing NoETL database can have additional constraints. The items of a refused statement are split
//! in halves until each refused item is alone, and the others are written. The work is bounded: after a maximum number
//! of statements or a maximum time, the remaining items are reported as not tried. The caller runs the statements:
//!
//! ```text
//! let mut search = Bisection::of(items.len());
//! while let Some(part) = search.next_part() {
//!     let outcome = write(&items[part.clone()]).await;
//!     search.record(part, outcome);
//! }
//! ```

use std::ops::Range;
use std::time::{Duration, Instant};

use noetl_storage::error::StorageError;
use noetl_storage::pools::Database;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

/// Maximum number of statements for one list of items. It is enough to find any 60 refused items among 5000.
const MAX_STATEMENTS: usize = 1000;
/// Time after which no further statement is tried. The last one still ends within the default of
/// `NOETL_OPERATION_DEADLINE_SECS`.
const TIME_LIMIT: Duration = Duration::from_secs(6);

/// Items that were not written, and the reason.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// Positions of the items.
    pub(super) positions: Vec<usize>,
    /// Reason that they were not written.
    pub(super) cause: Cause,
}

/// Reason that items were not written.
#[derive(Debug)]
pub(super) enum Cause {
    /// The database refuses the values of this item.
    Refused(StorageError),
    /// The statement failed for another reason, so no further one was tried.
    Failed(StorageError),
    /// The search reached its limit before.
    NotTried,
}

/// Search for the items that a database refuses.
#[derive(Debug)]
pub(super) struct Bisection {
    /// A stack: the last part is tried next.
    parts: Vec<Range<usize>>,
    statements: usize,
    begun: Instant,
    unwritten: Vec<Unwritten>,
}

impl Bisection {
    /// Creates the search for a list of items.
    pub(super) fn of(items: usize) -> Self {
        let parts = std::iter::once(0..items).filter(|all| !all.is_empty()).collect();
        Self { parts, statements: 0, begun: Instant::now(), unwritten: Vec::new() }
    }

    /// Returns the positions of the items that the next statement writes. `None`: there is no further statement.
    pub(super) fn next_part(&mut self) -> Option<Range<usize>> {
        let is_over = self.statements >= MAX_STATEMENTS || (self.statements > 0 && self.begun.elapsed() > TIME_LIMIT);
        if is_over {
            return None;
        }
        self.statements += 1;
        self.parts.pop()
    }

    /// Records the outcome of the statement that wrote a part.
    pub(super) fn record(&mut self, part: Range<usize>, outcome: Result<(), StorageError>) {
        let Err(error) = outcome else { return };
        if error.refused_values().is_none() {
            let rest = self.parts.drain(..).chain([part]).flatten().collect();
            self.unwritten.push(Unwritten { positions: rest, cause: Cause::Failed(error) });
        } else if part.len() == 1 {
            self.unwritten.push(Unwritten { positions: part.collect(), cause: Cause::Refused(error) });
        } else {
            let middle = part.start + part.len() / 2;
            self.parts.extend([middle..part.end, part.start..middle]);
        }
    }

    /// Returns the items that were not written.
    pub(super) fn unwritten(mut self, database: &Database) -> Vec<Unwritten> {
        if !self.parts.is_empty() {
            let found = self.unwritten.len();
            tracing::warn!(database = %database.name(), found, "stopped searching for refused items");
            let rest = self.parts.into_iter().flatten().collect();
            self.unwritten.push(Unwritten { positions: rest, cause: Cause::NotTried });
        }
        self.unwritten
    }
}

/// Creates the rejection of an item that was not tried.
pub(super) fn not_tried(database: &Database) -> ServiceError {
    let message = format!(
        "{} refused so many items of this batch that this one was not tried; send it again without the refused ones",
        database.name()
    );
    Rejection::new(RejectionCode::ShardUnavailable, "", message).into()
}
