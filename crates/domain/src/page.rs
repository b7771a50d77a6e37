//! Pages of a totally ordered list, bounded by keys (Relay, "GraphQL Cursor Connections Specification").

/// Maximum number of items in a page.
pub const MAX_PAGE: u32 = 100;
/// Number of items in a page if the caller sets none.
pub const DEFAULT_PAGE: u32 = 25;
/// Maximum number up to which the items of a list are counted.
pub const MAX_COUNT: u32 = 100_000;
/// Number up to which they are counted if the caller sets none.
pub const DEFAULT_COUNT: u32 = 10_000;

/// Request for a page: the first or the last items strictly between two keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageRequest<K> {
    /// Maximum number of items (1 to [`MAX_PAGE`]).
    pub limit: u32,
    /// Whether to return the last items instead of the first.
    pub backwards: bool,
    /// Key after which the items lie in the list's order.
    pub after: Option<K>,
    /// Key before which the items lie in the list's order.
    pub before: Option<K>,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Items in the list's order, at most the requested number.
    pub items: Vec<T>,
    /// Whether there are items after this page.
    pub has_next: bool,
    /// Whether there are items before this page.
    pub has_previous: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), has_next: false, has_previous: false }
    }
}

impl<K> PageRequest<K> {
    /// Returns the number of rows to read: one more than the page has, to find out whether there are further items.
    #[must_use]
    pub fn rows_to_read(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// Returns the request with other keys.
    #[must_use]
    pub fn between<L>(&self, after: Option<L>, before: Option<L>) -> PageRequest<L> {
        PageRequest { limit: self.limit, backwards: self.backwards, after, before }
    }

    /// Returns the page from candidate rows, which must be read between the request's keys and in its direction: in the
    /// list's order, or in reverse order if `backwards` is set.
    #[must_use]
    pub fn cut<T>(&self, mut candidates: Vec<T>) -> Page<T> {
        let limit = self.limit as usize;
        let more = candidates.len() > limit;
        candidates.truncate(limit);
        if self.backwards {
            candidates.reverse();
            return Page { items: candidates, has_previous: more, has_next: self.before.is_some() };
        }
        Page { items: candidates, has_next: more, has_previous: self.after.is_some() }
    }
}

/// Number of items of a list, counted up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// Number of items; the limit if the list has more.
    pub value: i64,
    /// Whether the list has more items.
    pub capped: bool,
}

impl Total {
    /// Returns the total for a count that may go beyond the limit.
    #[must_use]
    pub fn of(counted: i64, limit: i64) -> Self {
        Self { value: counted.min(limit), capped: counted > limit }
    }
}

/// Range of keys and reading direction of a page, as SQL parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange<K> {
    /// Exclusive lower bound.
    pub above: K,
    /// Exclusive upper bound.
    pub below: K,
    /// Whether to read from the largest key to the smallest.
    pub descending: bool,
    /// Maximum number of rows to read.
    pub limit: i64,
}

/// Range of ids and reading direction of a page, as SQL parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// Exclusive lower bound.
    pub above: i64,
    /// Exclusive upper bound; `None`: no bound, because the largest number is a valid id.
    pub below: Option<i64>,
    /// Whether to read from the largest id to the smallest.
    pub descending: bool,
    /// Maximum number of rows to read.
    pub limit: i64,
}

impl PageRequest<i64> {
    /// Returns the range for a list with the smallest id first.
    #[must_use]
    pub fn oldest_first(&self) -> IdRange {
        IdRange {
            above: self.after.unwrap_or(-1),
            below: self.before,
            descending: self.backwards,
            limit: self.rows_to_read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(ids: &[i64], range: IdRange) -> Vec<i64> {
        let within = |id: &i64| *id > range.above && range.below.is_none_or(|below| *id < below);
        let mut found: Vec<i64> = ids.iter().copied().filter(within).collect();
        if range.descending {
            found.reverse();
        }
        found.truncate(usize::try_from(range.limit).unwrap());
        found
    }

    #[test]
    fn a_total_beyond_the_limit_is_the_limit_and_capped() {
        for (counted, value, capped) in [(0, 0, false), (9, 9, false), (10, 10, false), (11, 10, true)] {
            assert_eq!(Total::of(counted, 10), Total { value, capped });
        }
    }

    proptest! {
        #[test]
        fn pages_in_either_direction_cover_the_list_once(
            count in 0i64..50,
            limit in 1u32..7,
            backwards: bool,
        ) {
            let list: Vec<i64> = (0..count).collect();
            let mut request = PageRequest { limit, backwards, after: None, before: None };
            let mut seen = Vec::new();
            loop {
                let page = request.cut(read(&list, request.oldest_first()));
                let more = if backwards { page.has_previous } else { page.has_next };
                if backwards {
                    seen.splice(0..0, page.items.iter().copied());
                    request.before = page.items.first().copied();
                } else {
                    seen.extend(page.items.iter().copied());
                    request.after = page.items.last().copied();
                }
                prop_assert_eq!(more, seen.len() < list.len());
                if !more { break; }
            }
            prop_assert_eq!(seen, list);
        }
    }
}
