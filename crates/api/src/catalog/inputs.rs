//! Inputs of the catalog.

use async_graphql::{ID, InputObject, OneofObject};
use chrono::{DateTime, Utc};

use super::kind::CatalogKind;
use super::order::CatalogOrder;
use crate::filters::{check_list, checked_text, time_bound};
use noetl_storage::catalog::{self, EntryTime, TimeFilter};
use noetl_use_cases::bounds::check_text;
use noetl_use_cases::catalog::Registration;
use noetl_use_cases::error::Rejection;

/// Maximum number of characters of a text that is searched for.
const MAX_TEXT: usize = 256;

/// Filter for catalog entries. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct CatalogFilter {
    /// Only entries of these kinds (at most 1000).
    kinds: Option<Vec<CatalogKind>>,
    /// Only entries with this path.
    path: Option<String>,
    /// Only entries whose path begins with this text.
    path_prefix: Option<String>,
    /// Only entries whose path or name contains this text (1 to 256 characters). Letters match in upper and lower case;
    /// those beyond ASCII only if the locale of the database knows them. An entry that NoETL's own server registered is
    /// found by its name a few seconds later.
    text: Option<String>,
    /// Whether to return only the newest version of each path that is not retired (default true). With
    /// `includeArchived`, a path with only retired versions has the newest of them.
    latest_only: Option<bool>,
    /// Whether to return retired entries too (default false).
    include_archived: Option<bool>,
    /// Only entries that were registered at this time or later. It needs the order `NEWEST`.
    created_after: Option<DateTime<Utc>>,
    /// Only entries that were registered before this time. It needs the order `NEWEST`.
    created_before: Option<DateTime<Utc>>,
    /// Only entries that were retired at this time or later. It needs the order `LAST_RETIRED`.
    archived_after: Option<DateTime<Utc>>,
    /// Only entries that were retired before this time. It needs the order `LAST_RETIRED`.
    archived_before: Option<DateTime<Utc>>,
}

impl CatalogFilter {
    /// Converts the input to the storage layer's filter of the list by path.
    pub fn parse(self) -> Result<catalog::CatalogFilter, Rejection> {
        self.check(CatalogOrder::Path)?;
        self.kinds.as_ref().map_or(Ok(()), |kinds| check_list("filter.kinds", kinds))?;
        Ok(catalog::CatalogFilter {
            kinds: self.kinds.map(|kinds| kinds.into_iter().map(Into::into).collect()),
            path: checked_text("filter.path", self.path)?,
            path_prefix: checked_text("filter.pathPrefix", self.path_prefix)?,
            text: self.text.map(searched).transpose()?,
            latest_only: self.latest_only.unwrap_or(true),
            include_archived: self.include_archived.unwrap_or(false),
        })
    }

    /// Converts the input to the storage layer's filter of a list by time.
    pub fn parse_by_time(self, order: CatalogOrder, time: EntryTime) -> Result<TimeFilter, Rejection> {
        self.check(order)?;
        let (after, before) = match time {
            EntryTime::Registration => (self.created_after, self.created_before),
            EntryTime::Retirement => (self.archived_after, self.archived_before),
        };
        let path = checked_text("filter.path", self.path)?;
        Ok(TimeFilter { time, path, after: after.map(time_bound), before: before.map(time_bound) })
    }

    /// Refuses a condition with which no index has the order.
    fn check(&self, order: CatalogOrder) -> Result<(), Rejection> {
        let Self {
            kinds,
            path: _,
            path_prefix,
            text,
            latest_only,
            include_archived,
            created_after,
            created_before,
            archived_after,
            archived_before,
        } = self;
        let conditions = [
            ("kinds", kinds.is_some(), CatalogOrder::Path),
            ("pathPrefix", path_prefix.is_some(), CatalogOrder::Path),
            ("text", text.is_some(), CatalogOrder::Path),
            ("latestOnly", latest_only.is_some(), CatalogOrder::Path),
            ("includeArchived", include_archived.is_some(), CatalogOrder::Path),
            ("createdAfter", created_after.is_some(), CatalogOrder::Newest),
            ("createdBefore", created_before.is_some(), CatalogOrder::Newest),
            ("archivedAfter", archived_after.is_some(), CatalogOrder::LastRetired),
            ("archivedBefore", archived_before.is_some(), CatalogOrder::LastRetired),
        ];
        let Some((condition, _, offered)) = conditions.into_iter().find(|(_, is_set, with)| *is_set && *with != order)
        else {
            return Ok(());
        };
        let message = format!(
            "{} is not offered with the condition {condition}; leave it out, or use {}",
            order.as_str(),
            offered.as_str()
        );
        Err(Rejection::invalid("order", message))
    }
}

/// Checks a text that is searched for.
fn searched(text: String) -> Result<String, Rejection> {
    let count = text.chars().count();
    if !(1..=MAX_TEXT).contains(&count) {
        let message = format!("a text to search for has 1 to {MAX_TEXT} characters, not {count}");
        return Err(Rejection::invalid("filter.text", message));
    }
    check_text("filter.text", &text).map(|()| text)
}

/// Key of a catalog entry.
#[derive(Debug, OneofObject)]
pub enum CatalogEntryKey {
    /// Id of the entry, which may be retired.
    Id(ID),
    /// Path of the entry, for its newest version that is not retired.
    Path(String),
    /// Path and version of the entry, which may be retired.
    PathVersion(CatalogPathVersion),
}

/// Path and version of a catalog entry.
#[derive(Debug, InputObject)]
pub struct CatalogPathVersion {
    /// Catalog path.
    pub path: String,
    /// Version of the path, counted from 1.
    pub version: i32,
}

/// Catalog entry to register.
#[derive(Debug, InputObject)]
pub struct RegisterCatalogEntryInput {
    #[graphql(flatten)]
    pub(super) entry: EntryInput,
    /// Whether to add no version if the newest version of the path that is not retired has the same kind and the same
    /// content, character by character (default false).
    #[graphql(default = false)]
    pub(super) only_if_changed: bool,
}

/// Versions of a catalog path to retire or to restore.
#[derive(Debug, InputObject)]
pub struct CatalogArchivingInput {
    /// Id of a catalog entry, which is one version of a path.
    pub catalog_id: ID,
    /// Whether all versions of its path are changed, and not only this one (default false).
    pub all_versions: Option<bool>,
}

/// Catalog entry to check.
#[derive(Debug, InputObject)]
pub struct ValidateCatalogEntryInput {
    #[graphql(flatten)]
    pub(super) entry: EntryInput,
}

/// Catalog entry, as both inputs contain it.
#[derive(Debug, InputObject)]
pub(super) struct EntryInput {
    /// Catalog path (1 to 512 bytes; default: `metadata.path` of the content, else `metadata.name`). If the content has
    /// `metadata.path`, it must be the same path.
    pub(super) path: Option<String>,
    /// Kind (default: the `kind` in the content). `UNKNOWN` is refused.
    kind: Option<CatalogKind>,
    /// Document, a map in YAML or JSON (at most 4 MiB), in the form that NoETL reads. The `spec` of a source subscription
    /// is checked.
    content: String,
}

impl From<EntryInput> for Registration {
    fn from(EntryInput { path, kind, content }: EntryInput) -> Self {
        Self { path, kind: kind.map(Into::into), content }
    }
}
