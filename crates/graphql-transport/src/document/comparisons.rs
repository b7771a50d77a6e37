//! Bounds the search for fields that can't be merged (GraphQL specification, section 5.3.2).
//!
//! Validation merges the selection sets of fields with equal response keys, once for each possible object type, and
//! compares the fields' arguments. Below interfaces the number of such sets can multiply with each level, so a limit on
//! the document's length does not bound it. This module visits the same sets in the same order without comparing, and
//! stops when a budget is used up.

use std::collections::{HashMap, HashSet};

use apollo_compiler::ExecutableDocument;
use apollo_compiler::ast::Value;
use apollo_compiler::executable::{Field, Name, Selection, SelectionSet};

use super::types::TypeSystem;
use crate::operation_error::{Limit, OperationError};

/// Refuses a document whose validation takes more than `allowed` comparisons.
pub(super) fn check(document: &ExecutableDocument, types: &TypeSystem, allowed: u64) -> Result<(), OperationError> {
    let mut count = Count { document, types, made: 0, allowed };
    document.operations.iter().try_for_each(|operation| count.sets(&[&operation.selection_set]))
}

struct Count<'a> {
    document: &'a ExecutableDocument,
    types: &'a TypeSystem,
    made: u64,
    allowed: u64,
}

/// The fields with one response key: those of each object type, and those of interfaces.
#[derive(Default)]
struct Group<'a> {
    concrete: HashMap<&'a Name, Vec<&'a Field>>,
    shared: Vec<&'a Field>,
}

impl<'a> Count<'a> {
    /// Counts the comparisons for selection sets that are merged. Recursive to the depth of the fields.
    fn sets(&mut self, sets: &[&'a SelectionSet]) -> Result<(), OperationError> {
        let mut groups: HashMap<&Name, Group<'a>> = HashMap::new();
        let (mut waiting, mut seen) = (sets.to_vec(), HashSet::new());
        while let Some(set) = waiting.pop() {
            for selection in &set.selections {
                self.spend(1)?;
                match selection {
                    Selection::Field(field) => {
                        self.spend(arguments(field))?;
                        let group = groups.entry(field.response_key()).or_default();
                        match self.types.possible(&set.ty) {
                            Some(_) => group.shared.push(field),
                            None => group.concrete.entry(&set.ty).or_default().push(field),
                        }
                    }
                    Selection::InlineFragment(inline) => waiting.push(&inline.selection_set),
                    Selection::FragmentSpread(spread) if seen.insert(&spread.fragment_name) => {
                        let fragment = self.document.fragments.get(&spread.fragment_name);
                        waiting.extend(fragment.map(|fragment| &fragment.selection_set));
                    }
                    Selection::FragmentSpread(_) => {}
                }
            }
        }
        groups.into_values().try_for_each(|group| self.group(group))
    }

    fn group(&mut self, group: Group<'a>) -> Result<(), OperationError> {
        let Group { concrete, shared } = group;
        if concrete.is_empty() {
            return self.merged(&shared);
        }
        concrete.into_values().try_for_each(|mut fields| {
            self.spend(shared.len() as u64)?;
            fields.extend(&shared);
            self.merged(&fields)
        })
    }

    fn merged(&mut self, fields: &[&'a Field]) -> Result<(), OperationError> {
        let sets = fields.iter().map(|field| &field.selection_set).filter(|set| !set.selections.is_empty());
        let sets: Vec<_> = sets.collect();
        if sets.is_empty() { Ok(()) } else { self.sets(&sets) }
    }

    fn spend(&mut self, comparisons: u64) -> Result<(), OperationError> {
        self.made = self.made.saturating_add(comparisons);
        Limit::Comparisons.check(self.made, self.allowed)
    }
}

/// Returns the maximum number of comparisons for the arguments of a field. Each key of an object is compared with each
/// key of the other object.
fn arguments(field: &Field) -> u64 {
    field.arguments.iter().map(|argument| value(&argument.value)).sum()
}

fn value(given: &Value) -> u64 {
    match given {
        Value::List(items) => items.iter().fold(1, |sum, item| sum.saturating_add(value(item))),
        Value::Object(fields) => {
            let keys = fields.len() as u64;
            fields.iter().fold(keys.saturating_mul(keys), |sum, (_, field)| sum.saturating_add(value(field)))
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// Returns a schema with an interface that has the objects `T0`, `T1`, … and a field of its own type.
    fn types(objects: usize) -> TypeSystem {
        let mut sdl = "interface I { i: I! n: Int } type Query { i: I! f(a: A): Int } input A { x: Int }".to_owned();
        for index in 0..objects {
            write!(sdl, " type T{index} implements I {{ i: I! n: Int }}").unwrap();
        }
        TypeSystem::from_sdl(&sdl).unwrap()
    }

    fn count(document: &str, types: &TypeSystem, allowed: u64) -> Result<(), OperationError> {
        let document = ExecutableDocument::parse(types.schema(), document, "").unwrap();
        check(&document, types, allowed)
    }

    #[test]
    fn multiplying_sets_below_an_interface_are_refused() {
        let (types, mut document) = (types(4), "n".to_owned());
        for _ in 0..8 {
            let objects = ["T0", "T1", "T2", "T3"].map(|object| format!("... on {object} {{ i {{ n }} }}")).join(" ");
            document = format!("{objects} i {{ {document} }}");
        }
        let document = format!("{{ i {{ {document} }} }}");
        assert!(document.len() < 1_000);
        assert_eq!(count(&document, &types, 50_000).unwrap_err().code(), "LIMIT_EXCEEDED");
        // Without the objects' own fields there is one set at each level.
        assert!(count(&format!("{{ {} n {} }}", "i { ".repeat(9), "} ".repeat(9)), &types, 20).is_ok());
    }

    #[test]
    fn comparisons_grow_with_the_square_of_an_objects_keys() {
        let types = types(0);
        let keys = "k: 1 ".repeat(300);
        assert!(count(&format!("{{ f(a: {{ {keys} }}) }}"), &types, 50_000).is_err());
        assert!(count("{ f(a: { x: 1 }) f(a: { x: 1 }) }", &types, 10).is_ok());
    }

    #[test]
    fn comparisons_include_each_item_of_a_list() {
        let (types, items) = (types(0), "1 ".repeat(100));
        for list in [format!("[{items}]"), format!("[[{items}]]"), format!("{{ x: [{items}] }}")] {
            let document = format!("{{ f(a: {list}) }}");
            assert!(count(&document, &types, 100).is_err(), "{list}");
            assert!(count(&document, &types, 110).is_ok(), "{list}");
        }
    }
}
