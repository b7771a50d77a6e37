//! Pages of a list in one total order, cut by keys (Relay, "GraphQL Cursor Connections Specification").

/// The largest page.
pub const MAX_PAGE: u32 = 100;
/// The page when the caller names no size.
pub const DEFAULT_PAGE: u32 = 25;

/// Which page of a list: what lies strictly between two keys, from its start or, backwards, from its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageRequest<K> {
    /// 1 to [`MAX_PAGE`] items.
    pub limit: u32,
    /// Take the last items rather than the first.
    pub backwards: bool,
    /// Only items behind this key in the list's order.
    pub after: Option<K>,
    /// Only items ahead of this key in the list's order.
    pub before: Option<K>,
}

/// One page, in the list's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// At most as many as asked for.
    pub items: Vec<T>,
    /// Whether items follow.
    pub has_next: bool,
    /// Whether items precede.
    pub has_previous: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), has_next: false, has_previous: false }
    }
}

impl<K> PageRequest<K> {
    /// How many rows a source must give so that the page is right and it is known whether more follow.
    #[must_use]
    pub fn probe(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    /// The page from candidates that begin where the request says, read in its direction: forwards the list's order,
    /// backwards its reverse.
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

/// The ids of a page as a range and a direction of reading, as SQL takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// Exclusive.
    pub above: i64,
    /// Exclusive; `None` for no bound, as the largest id is a valid one.
    pub below: Option<i64>,
    /// Read from the largest id down.
    pub descending: bool,
    /// Rows to read.
    pub limit: i64,
}

impl PageRequest<i64> {
    /// For a list with the smallest id first.
    #[must_use]
    pub fn oldest_first(&self) -> IdRange {
        IdRange { above: self.after.unwrap_or(-1), below: self.before, descending: self.backwards, limit: self.probe() }
    }

    /// For a list with the largest id first.
    #[must_use]
    pub fn newest_first(&self) -> IdRange {
        IdRange {
            above: self.before.unwrap_or(-1),
            below: self.after,
            descending: !self.backwards,
            limit: self.probe(),
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

    proptest! {
        #[test]
        fn pages_in_either_direction_cover_the_list_once(count in 0i64..50, limit in 1u32..7, backwards: bool) {
            let ids: Vec<i64> = (0..count).collect();
            let newest_first: Vec<i64> = ids.iter().rev().copied().collect();
            let mut request = PageRequest { limit, backwards, after: None, before: None };
            let mut seen = Vec::new();
            loop {
                let page = request.cut(read(&ids, request.newest_first()));
                let more = if backwards { page.has_previous } else { page.has_next };
                if backwards {
                    seen.splice(0..0, page.items.iter().copied());
                    request.before = page.items.first().copied();
                } else {
                    seen.extend(page.items.iter().copied());
                    request.after = page.items.last().copied();
                }
                if !more { break; }
            }
            prop_assert_eq!(seen, newest_first);
        }
    }
}
