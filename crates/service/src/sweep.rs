//! Result of a sweeper, which finishes what crashed callers left behind.

use std::fmt;

/// Numbers of abandoned objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Number that was found.
    pub found: usize,
    /// Number of these that are finished now.
    pub finished: usize,
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "finished {} of {} abandoned", self.finished, self.found)
    }
}
