//! Order of the list of catalog entries.

use async_graphql::Enum;

use noetl_domain::cursor::CursorKind;
use noetl_storage::catalog::EntryTime;

/// Order of the list of catalog entries. Entries with equal times are ordered by `catalogId`, in the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum CatalogOrder {
    /// By path, then by version. Of the filter's conditions, those on times are not allowed.
    Path,
    /// By `createdAt`, newest first. All versions are in the list, retired or not. Of the filter's conditions, `path`,
    /// `createdAfter` and `createdBefore` are allowed.
    Newest,
    /// By `archivedAt`, last first. All retired versions are in the list. Of the filter's conditions, `path`,
    /// `archivedAfter` and `archivedBefore` are allowed.
    LastRetired,
}

impl CatalogOrder {
    /// Returns the name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "PATH",
            Self::Newest => "NEWEST",
            Self::LastRetired => "LAST_RETIRED",
        }
    }

    /// Returns the time by which the list is ordered, with the kind of its cursors. `None`: it is ordered by path.
    #[must_use]
    pub const fn time(self) -> Option<(EntryTime, CursorKind)> {
        match self {
            Self::Path => None,
            Self::Newest => Some((EntryTime::Registration, CursorKind::CatalogNewest)),
            Self::LastRetired => Some((EntryTime::Retirement, CursorKind::CatalogLastRetired)),
        }
    }
}
