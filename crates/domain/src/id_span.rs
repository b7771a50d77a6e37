//! The span of a list of execution ids.
//!
//! Events are partitioned by the execution id. Before a statement begins, PostgreSQL does not know the ids in an array or
//! from a join, so it would open every partition with its indexes, and each statement would cost more with each quarter.
//! So a statement on the events of given executions also compares the execution id with the span of the ids: two
//! parameters, by which PostgreSQL opens only the partitions in the span.

/// The smallest and the largest of some execution ids. No id is in the span of no ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdSpan {
    /// The smallest id.
    pub first: i64,
    /// The largest id.
    pub last: i64,
}

impl IdSpan {
    /// Returns the span of these ids.
    #[must_use]
    pub fn of(ids: &[i64]) -> Self {
        Self {
            first: ids.iter().copied().min().unwrap_or(i64::MAX),
            last: ids.iter().copied().max().unwrap_or(i64::MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IdSpan;

    #[test]
    fn a_span_has_exactly_the_ids_between_its_ends() {
        assert_eq!(IdSpan::of(&[7, 3, 5]), IdSpan { first: 3, last: 7 });
        let empty = IdSpan::of(&[]);
        assert!(empty.first > empty.last);
    }
}
