//! Documents that were parsed and validated recently. Most clients send the same few documents again and again.
//!
//! A document is stored with the limits that it kept. Whether it keeps them depends only on its text, except for its
//! cost, which also depends on the variables: [`super::check`] estimates the cost of each request.

use std::sync::Arc;

use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, ast};
use moka::sync::Cache;

use crate::limits::Limits;

/// Maximum size in bytes of the text of a stored document. Larger ones are seldom sent twice.
const MAX_DOCUMENT_BYTES: usize = 4 << 10;
/// Maximum size in bytes of the texts of all stored documents. Their parsed form takes up to 40 times as much memory.
const MAX_BYTES: u64 = 128 << 10;

/// A document that is valid for the schema and keeps the limits.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) syntax: ast::Document,
    pub(super) document: Valid<ExecutableDocument>,
    pub(super) limits: Limits,
}

/// The stored documents, by text.
#[derive(Debug)]
pub(super) struct RecentDocuments(Cache<Arc<str>, Arc<Prepared>>);

impl RecentDocuments {
    pub(super) fn get(&self, text: &str, limits: &Limits) -> Option<Arc<Prepared>> {
        self.0.get(text).filter(|prepared| prepared.limits == *limits)
    }

    pub(super) fn insert(&self, text: &str, prepared: &Arc<Prepared>) {
        if text.len() <= MAX_DOCUMENT_BYTES {
            self.0.insert(text.into(), Arc::clone(prepared));
        }
    }
}

impl Default for RecentDocuments {
    fn default() -> Self {
        let bytes = |text: &Arc<str>, _: &Arc<Prepared>| u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self(Cache::builder().weigher(bytes).max_capacity(MAX_BYTES).build())
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::Variables;

    use super::super::{Selected, TypeSystem, check};
    use super::*;

    const SDL: &str = "type Query { items(first: Int): [Item!]! } type Item { id: ID! }";

    fn types() -> TypeSystem {
        TypeSystem::from_sdl(SDL).unwrap()
    }

    fn checked(types: &TypeSystem, query: &str, variables: &str, limits: &Limits) -> Result<(), &'static str> {
        let variables = Variables::from_json(serde_json::from_str(variables).unwrap());
        let selected = Selected { query, operation: None };
        check(selected, &variables.into(), types, limits).map(drop).map_err(|invalid| invalid.code())
    }

    #[test]
    fn only_valid_documents_are_stored_and_only_for_their_limits() {
        let (types, limits) = (types(), Limits::default());
        for (query, stored) in [("{ items { id } }", true), ("{ items { name } }", false), ("{ items", false)] {
            let first = checked(&types, query, "{}", &limits);
            assert_eq!(first.is_ok(), stored, "{query}");
            assert_eq!(types.recent().get(query, &limits).is_some(), stored, "{query}");
            assert_eq!(checked(&types, query, "{}", &limits), first, "{query}");
        }
        let stricter = Limits { tokens: 3, ..limits };
        assert!(checked(&types, "{ items { id } }", "{}", &stricter).is_err());
    }

    #[test]
    fn cost_of_a_stored_document_depends_on_each_requests_variables() {
        let (types, limits) = (types(), Limits { cost: 50, ..Limits::default() });
        let query = "query($n: Int) { items(first: $n) { id } }";
        assert!(checked(&types, query, r#"{"n": 10}"#, &limits).is_ok());
        assert!(checked(&types, query, r#"{"n": 1000000}"#, &limits).is_err());
        assert!(checked(&types, query, r#"{"n": 10}"#, &limits).is_ok());
    }

    #[test]
    fn large_documents_are_not_stored() {
        let (types, limits) = (types(), Limits::default());
        let query = format!("{{ items {{ id }} }} #{}", "x".repeat(MAX_DOCUMENT_BYTES));
        assert!(checked(&types, &query, "{}", &limits).is_ok());
        assert!(types.recent().get(&query, &limits).is_none());
    }
}
