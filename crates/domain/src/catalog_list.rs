//! Lists of catalog entries: their order, and the part of a list that a statement reads along the index.

/// Position in a list: path, then version, ascending. Paths are ordered by their characters' numbers, in Rust as in the
/// collation "C".
pub type CatalogKey = (String, i16);

/// Part of a list between two keys, both excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// Key after which the part begins.
    pub above: CatalogKey,
    /// Key before which the part ends; `None`: at the end of the list.
    pub below: Option<CatalogKey>,
}

impl Between {
    /// Returns the part with a path, or without it with the paths that have a prefix, between the cursors of a page.
    #[must_use]
    pub fn of(path: Option<&str>, prefix: Option<&str>, after: Option<CatalogKey>, before: Option<CatalogKey>) -> Self {
        let first = (path.or(prefix).unwrap_or_default().to_owned(), i16::MIN);
        let end = path.map_or_else(|| prefix.and_then(end_of_prefix), |path| Some(end_of_path(path)));
        let end = end.map(|path| (path, i16::MIN));
        let below = end.into_iter().chain(before).min();
        Self { above: after.map_or(first.clone(), |after| after.max(first)), below }
    }
}

/// Returns the first path after this one. No path contains NUL, so none is between the two.
fn end_of_path(path: &str) -> String {
    format!("{path}\u{1}")
}

/// Returns a path after all paths with this prefix; `None`: there is none. The path has only characters that every
/// encoding of a database knows, so other paths can be before it.
fn end_of_prefix(prefix: &str) -> Option<String> {
    let mut path = prefix.to_owned();
    while let Some(last) = path.pop() {
        if let Some(next) = u8::try_from(last).ok().filter(|last| *last < b'~') {
            path.push(char::from(next + 1));
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_after_all_paths_with_the_prefix() {
        let ends = [("team/", Some("team0")), ("a~", Some("b")), ("aé", Some("b")), ("~~", None), ("", None)];
        for (prefix, end) in ends {
            assert_eq!(end_of_prefix(prefix).as_deref(), end, "{prefix:?}");
            let path = format!("{prefix}\u{10ffff}");
            assert!(end.is_none_or(|end| path.as_str() < end && prefix < end), "{prefix:?}");
        }
    }

    #[test]
    fn a_page_is_within_its_prefix_and_its_cursors() {
        let key = |path: &str, version| (path.to_owned(), version);
        let whole = Between::of(None, Some("b"), Some(key("a", 3)), Some(key("x", 1)));
        assert_eq!((whole.above, whole.below), (key("b", i16::MIN), Some(key("c", i16::MIN))));
        let part = Between::of(None, Some("b"), Some(key("b1", 3)), Some(key("b7", 1)));
        assert_eq!((part.above, part.below), (key("b1", 3), Some(key("b7", 1))));
        let one = Between::of(Some("b1"), Some("b"), None, None);
        assert_eq!((one.above, one.below), (key("b1", i16::MIN), Some(key("b1\u{1}", i16::MIN))));
        let all = Between::of(None, None, None, None);
        assert_eq!((all.above, all.below), (key("", i16::MIN), None));
    }
}
