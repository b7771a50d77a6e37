//! Inputs of the catalog.

use async_graphql::{ID, InputObject, OneofObject};

use super::kind::CatalogKind;
use crate::filters::{check_list, check_prefix};
use noetl_storage::catalog;
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
}

impl CatalogFilter {
    /// Converts the input to the storage layer's filter.
    pub fn parse(self) -> Result<catalog::CatalogFilter, Rejection> {
        self.kinds.as_ref().map_or(Ok(()), |kinds| check_list("filter.kinds", kinds))?;
        Ok(catalog::CatalogFilter {
            kinds: self.kinds.map(|kinds| kinds.into_iter().map(Into::into).collect()),
            path_prefix: check_prefix("filter.pathPrefix", self.path_prefix)?,
            text: self.text.map(searched).transpose()?,
            latest_only: self.latest_only.unwrap_or(true),
            include_archived: self.include_archived.unwrap_or(false),
        })
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
    /// Catalog path (1 to 512 bytes; default: `metadata.path` of the content, else `metadata.name`). If the content has
    /// `metadata.path`, it must be the same path.
    pub path: Option<String>,
    /// Kind (default: the `kind` in the content). `UNKNOWN` is refused.
    kind: Option<CatalogKind>,
    /// Document, a map in YAML or JSON (at most 4 MiB), in the form that NoETL reads. The `spec` of a source subscription
    /// is checked.
    content: String,
    /// Whether to add no version if the newest version of the path that is not retired has the same kind and the same
    /// content, character by character (default false).
    #[graphql(default = false)]
    pub only_if_changed: bool,
}

impl From<RegisterCatalogEntryInput> for Registration {
    fn from(input: RegisterCatalogEntryInput) -> Self {
        let RegisterCatalogEntryInput { path, kind, content, only_if_changed: _ } = input;
        Self { path, kind: kind.map(Into::into), content }
    }
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
    /// Catalog path (1 to 512 bytes; default: `metadata.path` of the content, else `metadata.name`). If the content has
    /// `metadata.path`, it must be the same path.
    path: Option<String>,
    /// Kind (default: the `kind` in the content). `UNKNOWN` is refused.
    kind: Option<CatalogKind>,
    /// Document, a map in YAML or JSON (at most 4 MiB), in the form that NoETL reads. The `spec` of a source subscription
    /// is checked.
    content: String,
}

impl From<ValidateCatalogEntryInput> for Registration {
    fn from(ValidateCatalogEntryInput { path, kind, content }: ValidateCatalogEntryInput) -> Self {
        Self { path, kind: kind.map(Into::into), content }
    }
}
