//! Hints for mutations whose outcome is unknown, because they reached their deadline and may have taken effect.

use std::collections::{BTreeSet, HashSet};

use async_graphql::parser::types::{ExecutableDocument, Selection, SelectionSet};
use async_graphql::{Name, Request};

/// Returns the sentence that tells how to find out the outcome of a mutation, by the name of its root field.
pub type OutcomeHint = fn(field: &str) -> Option<&'static str>;

/// Returns the hints on the root fields of a request's operation. Each sentence appears once.
pub(super) fn outcome_hints(request: &mut Request, hint: OutcomeHint) -> Vec<&'static str> {
    let name = request.operation_name.clone();
    let Ok(document) = request.parsed_query() else { return Vec::new() };
    let mut operations = document.operations.iter();
    let operation = operations.find(|(own, _)| name.is_none() || own.map(Name::as_str) == name.as_deref());
    let mut fields = BTreeSet::new();
    if let Some((_, operation)) = operation {
        collect(&operation.node.selection_set.node, document, &mut HashSet::new(), &mut fields);
    }
    let sentences: BTreeSet<_> = fields.into_iter().filter_map(hint).collect();
    sentences.into_iter().collect()
}

/// Collects the names of the fields of a selection set, through fragments.
fn collect<'a>(
    selections: &'a SelectionSet,
    document: &'a ExecutableDocument,
    spread: &mut HashSet<&'a str>,
    fields: &mut BTreeSet<&'a str>,
) {
    for selection in &selections.items {
        match &selection.node {
            Selection::Field(field) => drop(fields.insert(field.node.name.node.as_str())),
            Selection::InlineFragment(inline) => {
                collect(&inline.node.selection_set.node, document, spread, fields);
            }
            Selection::FragmentSpread(fragment) => {
                let name = &fragment.node.fragment_name.node;
                let known = document.fragments.get(name).filter(|_| spread.insert(name.as_str()));
                if let Some(known) = known {
                    collect(&known.node.selection_set.node, document, spread, fields);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(query: &str) -> Vec<&'static str> {
        let hint = |field: &str| match field {
            "a" | "b" => Some("Ask for it."),
            "c" => Some("Look at it."),
            _ => None,
        };
        outcome_hints(&mut Request::new(query).operation_name("M"), hint)
    }

    #[test]
    fn root_fields_in_fragments_get_hints_and_each_sentence_appears_once() {
        let query = "query Q { c } mutation M { a x: b ... { d } ...F } fragment F on Mutation { c { a } ...F }";
        assert_eq!(sentences(query), ["Ask for it.", "Look at it."]);
        assert_eq!(sentences("mutation M { d ... on Mutation { c } }"), ["Look at it."]);
        assert_eq!(sentences("mutation M { d { a } }"), [""; 0]);
    }
}
