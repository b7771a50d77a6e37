//! Extracts documents from .graphql files: each operation with the fragments that it uses, from any of the files.

use std::collections::{BTreeMap, BTreeSet};

use apollo_compiler::Node;
use apollo_compiler::ast::{Definition, Document, FragmentDefinition, OperationDefinition, Selection};

use super::super::document::{TypeSystem, validate_text};
use super::super::limits::Limits;

/// A file of operations and fragments.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path of the file, for messages.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// An operation as a document of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Name of the operation.
    pub name: String,
    /// `query`, `mutation` or `subscription`.
    pub kind: String,
    /// The operation, then its fragments by name, in canonical format.
    pub text: String,
}

/// Definitions of all files by name, each with the path of its file.
#[derive(Default)]
struct Definitions {
    operations: BTreeMap<String, (String, Node<OperationDefinition>)>,
    fragments: BTreeMap<String, (String, Node<FragmentDefinition>)>,
    problems: Vec<String>,
}

/// Returns the operations of the files by name.
///
/// # Errors
///
/// Returns all problems: files that are not GraphQL, operations without a name, names that are defined twice, fragments
/// that are not defined, and operations that a server with these types and limits would refuse.
pub fn extract(sources: &[Source], types: &TypeSystem, limits: &Limits) -> Result<Vec<Extracted>, Vec<String>> {
    let mut definitions = Definitions::default();
    for source in sources {
        definitions.read(source);
    }
    let Definitions { operations, fragments, mut problems } = definitions;
    let mut extracted = Vec::new();
    for (name, (path, operation)) in operations {
        let (used, missing) = fragments_of(&operation.selection_set, &fragments);
        problems
            .extend(missing.iter().map(|fragment| format!("{path}: {name} spreads {fragment}, which no file defines")));
        if !missing.is_empty() {
            continue;
        }
        let kind = operation.operation_type.name().to_owned();
        let mut document = Document::new();
        document.definitions.push(Definition::OperationDefinition(operation));
        document.definitions.extend(used.into_iter().map(Definition::FragmentDefinition));
        let text = document.to_string();
        match validate_text(&text, types, limits) {
            Ok(()) => extracted.push(Extracted { name, kind, text }),
            Err(invalid) => problems.extend(invalid.messages().map(|message| format!("{path}: {name}: {message}"))),
        }
    }
    if problems.is_empty() { Ok(extracted) } else { Err(problems) }
}

impl Definitions {
    fn read(&mut self, source: &Source) {
        let path = &source.path;
        let document = match Document::parse(source.text.as_str(), path) {
            Ok(document) => document,
            Err(invalid) => {
                self.problems.push(format!("{path}: {}", invalid.errors.to_string().trim_end()));
                return;
            }
        };
        for definition in document.definitions {
            match definition {
                Definition::OperationDefinition(operation) => match operation.name.clone() {
                    Some(name) => define(&mut self.operations, &mut self.problems, name.as_str(), path, operation),
                    None => self.problems.push(format!("{path}: an operation has no name; give it one")),
                },
                Definition::FragmentDefinition(fragment) => {
                    let name = fragment.name.clone();
                    define(&mut self.fragments, &mut self.problems, name.as_str(), path, fragment);
                }
                _ => {
                    self.problems
                        .push(format!("{path}: the file defines types; only operations and fragments are allowed"));
                }
            }
        }
    }
}

fn define<T>(
    known: &mut BTreeMap<String, (String, Node<T>)>,
    problems: &mut Vec<String>,
    name: &str,
    path: &str,
    definition: Node<T>,
) {
    match known.get(name) {
        Some((first, _)) => problems.push(format!("{path}: {name} is defined in {first} too; rename one of them")),
        None => drop(known.insert(name.to_owned(), (path.to_owned(), definition))),
    }
}

/// Returns the fragments that a selection set uses, by name, and the names of fragments that no file defines.
fn fragments_of(
    set: &[Selection],
    fragments: &BTreeMap<String, (String, Node<FragmentDefinition>)>,
) -> (Vec<Node<FragmentDefinition>>, BTreeSet<String>) {
    let (mut used, mut missing) = (BTreeMap::new(), BTreeSet::new());
    let mut sets: Vec<&[Selection]> = vec![set];
    while let Some(set) = sets.pop() {
        for selection in set {
            match selection {
                Selection::Field(field) => sets.push(&field.selection_set),
                Selection::InlineFragment(fragment) => sets.push(&fragment.selection_set),
                Selection::FragmentSpread(spread) => {
                    let name = spread.fragment_name.as_str();
                    match fragments.get(name) {
                        None => drop(missing.insert(name.to_owned())),
                        Some((_, fragment)) if used.insert(name, fragment.clone()).is_none() => {
                            sets.push(&fragment.selection_set);
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }
    (used.into_values().collect(), missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trusted::{Manifest, sha256};

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn an_operation_is_extracted_with_the_fragments_that_it_uses_from_all_files() {
        let types = TypeSystem::from_sdl("type Query { a: Int b: Query }").unwrap();
        let sources = [
            source("q.graphql", "query Q { b { ...F ... on Query { ...F } } } query R { a }"),
            source(
                "f.graphql",
                "fragment F on Query { b { ...G } } fragment G on Query { a } fragment H on Query { a }",
            ),
        ];
        let extracted = extract(&sources, &types, &Limits::default()).unwrap();
        let lines = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found: Vec<_> = extracted.iter().map(|found| (found.name.as_str(), lines(&found.text))).collect();
        let with_fragments = "query Q { b { ...F ... on Query { ...F } } } fragment F on Query { b { ...G } } \
            fragment G on Query { a }";
        assert_eq!(found, [("Q", with_fragments.to_owned()), ("R", "query R { a }".to_owned())]);
        for manifest in [Manifest::relay(&extracted), Manifest::apollo(&extracted)] {
            let manifest = Manifest::from_json(&manifest.to_string()).unwrap();
            for operation in &extracted {
                assert_eq!(manifest.get(&sha256(&operation.text)), Some(operation.text.as_str()));
            }
        }
        assert_eq!(Manifest::apollo(&extracted)["operations"][1]["name"], "R");
    }

    #[test]
    fn an_operation_that_a_server_would_refuse_is_a_problem_of_its_file() {
        let types = TypeSystem::from_sdl("type Query { a(n: Int): Int }").unwrap();
        let limits = Limits { depth: 1, aliases: 1, ..Limits::default() };
        let problems = |text: &str| extract(&[source("q.graphql", text)], &types, &limits).err().unwrap_or_default();
        assert_eq!(problems("query Q { a }"), [""; 0]);
        for (refused, expected) in [
            ("query Q { missing }", "missing"),
            ("query Q { x: a y: a z: a }", "aliases"),
            ("query { a }", "no name"),
            ("query Q { ...F }", "which no file defines"),
            ("type T { a: Int }", "defines types"),
            ("query Q { a } query Q { a }", "is defined in q.graphql too"),
            ("query Q { ...F } fragment F on Query { ...G } fragment G on Query { ...F }", "spreads itself"),
        ] {
            let found = problems(refused);
            assert!(found.len() == 1 && found[0].starts_with("q.graphql") && found[0].contains(expected), "{found:?}");
        }
    }
}
