//! Merges the fields of an operation that have equal response keys (GraphQL specification, section 6.3.2,
//! `CollectFields` and `MergeSelectionSets`), so that the executor runs each of them once.
//!
//! The values of the variables are known, so the result has no directives. It has fragments only if a selection set of
//! an interface or union depends on the object type: then one fragment per object type. The budget of comparisons
//! bounds its size.
//!
//! The result selects `__typename` under a key that is not written where the type of an object determines its fields, for
//! their order, and where no field of an object remains: the executor does not resolve an object without a selection.

use std::collections::HashSet;
use std::sync::Arc;

use apollo_compiler::ast::{Argument, Directive};
use apollo_compiler::collections::IndexMap;
use apollo_compiler::executable::{Field, FragmentMap, Name, Selection, SelectionSet};
use apollo_compiler::{Node, ast};
use async_graphql::parser::types as executor;
use async_graphql::{Name as Key, Pos, Positioned, Value};
use async_graphql_value::Value as Literal;
use plain_json::UNWRITTEN;

use super::shape::{Member, Shape};
use super::types;
use super::values::{self, AbsentFields, InputLocation, Values};
use crate::absent_values::AbsentValues;
use crate::operation_error::{Limit, OperationError};

/// Merges selection sets of one operation.
pub(super) struct Merge<'a> {
    pub(super) fragments: &'a FragmentMap,
    pub(super) values: Values<'a>,
    /// Number of selections that were visited. A visit counts as a comparison.
    pub(super) visited: u64,
    /// Maximum number of visits.
    pub(super) allowed: u64,
    /// Arguments and input fields whose variable has no value.
    pub(super) absent: AbsentValues,
}

/// A merged selection set, and the shape of its objects.
pub(super) type Merged = (executor::SelectionSet, Shape);

/// The arguments of a field, as types of the executor.
type Arguments = Vec<(Positioned<Key>, Positioned<Literal>)>;

/// The fields of an object, by response key, in the order of the document.
type Groups<'a> = IndexMap<&'a Name, Vec<&'a Node<Field>>>;

impl<'a> Merge<'a> {
    /// Merges the selection sets at `position` of objects of type `parent`, which may be an interface or a union.
    ///
    /// Recursive to the depth of the fields.
    pub(super) fn sets(
        &mut self,
        parent: &Name,
        sets: &[&'a SelectionSet],
        position: Pos,
    ) -> Result<Merged, OperationError> {
        let types = self.values.types;
        if let Some(groups) = self.collect(parent, sets)? {
            return self.fields(groups, position);
        }
        let (mut items, mut shapes) = (Vec::new(), Vec::new());
        for object in types.possible(parent).unwrap_or_default() {
            let Some(groups) = self.collect(object, sets)? else { continue };
            let (mut set, shape) = self.fields(groups, position)?;
            if shape.len() > 0 {
                set.items.push(unwritten(position));
            }
            shapes.push((Key::new(object), shape));
            let condition = executor::TypeCondition { on: Positioned::new(Key::new(object), position) };
            let inline = executor::InlineFragment {
                type_condition: Some(Positioned::new(condition, position)),
                directives: Vec::new(),
                selection_set: Positioned::new(set, position),
            };
            items.push(Positioned::new(
                executor::Selection::InlineFragment(Positioned::new(inline, position)),
                position,
            ));
        }
        Ok((executor::SelectionSet { items }, Shape::any_of(shapes)))
    }

    /// Collects the fields of an object. Returns `None` if `object` is an interface or union whose fields depend on the
    /// object type.
    fn collect(&mut self, object: &Name, sets: &[&'a SelectionSet]) -> Result<Option<Groups<'a>>, OperationError> {
        let (mut groups, mut seen) = (Groups::default(), HashSet::new());
        for set in sets {
            if !self.collect_set(object, set, &mut groups, &mut seen)? {
                return Ok(None);
            }
        }
        Ok(Some(groups))
    }

    fn collect_set(
        &mut self,
        object: &Name,
        set: &'a SelectionSet,
        groups: &mut Groups<'a>,
        seen: &mut HashSet<&'a Name>,
    ) -> Result<bool, OperationError> {
        for selection in &set.selections {
            self.visit()?;
            if !self.is_included(selection)? {
                continue;
            }
            let (condition, set) = match selection {
                Selection::Field(field) => {
                    groups.entry(field.response_key()).or_default().push(field);
                    continue;
                }
                Selection::InlineFragment(inline) => (inline.type_condition.as_ref(), &inline.selection_set),
                Selection::FragmentSpread(spread) => {
                    let fragment = self.fragments.get(&spread.fragment_name);
                    let Some(fragment) = fragment.filter(|_| seen.insert(&spread.fragment_name)) else { continue };
                    (Some(fragment.type_condition()), &fragment.selection_set)
                }
            };
            let applies = condition.is_none_or(|condition| self.values.types.applies(condition, object));
            if !applies && self.values.types.possible(object).is_some() {
                return Ok(false);
            }
            if applies && !self.collect_set(object, set, groups, seen)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether the directives `@skip` and `@include` include a selection.
    fn is_included(&self, selection: &Selection) -> Result<bool, OperationError> {
        for directive in selection.directives() {
            let excluded_by = match directive.name.as_str() {
                "skip" => true,
                "include" => false,
                _ => continue,
            };
            if self.condition(directive)? == excluded_by {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn condition(&self, directive: &Node<Directive>) -> Result<bool, OperationError> {
        let written = directive.specified_argument_by_name("if");
        let value = written.and_then(|written| match &**written {
            ast::Value::Boolean(value) => Some(*value),
            ast::Value::Variable(name) => match self.values.variables.get(name.as_str()) {
                Some(Value::Boolean(value)) => Some(*value),
                _ => None,
            },
            _ => None,
        });
        value.ok_or_else(|| {
            let message = format!("Directive \"@{}\" needs true or false.", directive.name);
            OperationError::rule(message, [self.values.positions.of(directive.location())])
        })
    }

    /// Merges the fields of an object that is selected at `parent`.
    fn fields(&mut self, groups: Groups<'a>, parent: Pos) -> Result<Merged, OperationError> {
        let (mut items, mut members) = (Vec::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
        for (key, fields) in groups {
            let Some((first, others)) = fields.split_first() else { continue };
            for other in others {
                self.compare(first, other)?;
            }
            let positions: Vec<Pos> = fields.iter().map(|field| self.position(field)).collect();
            let position = positions[0];
            let sets = fields.iter().map(|field| &field.selection_set).filter(|set| !set.selections.is_empty());
            let sets: Vec<_> = sets.collect();
            let (selection_set, shape) = if sets.is_empty() {
                Merged::default()
            } else {
                self.sets(first.definition.ty.inner_named_type(), &sets, position)?
            };
            let name = |name: &Name| Positioned::new(Key::new(name), self.values.positions.of(name.location()));
            let field = executor::Field {
                alias: first.alias.as_ref().map(name),
                name: name(&first.name),
                arguments: self.arguments(first)?,
                directives: Vec::new(),
                selection_set: Positioned::new(selection_set, position),
            };
            items.push(Positioned::new(executor::Selection::Field(Positioned::new(field, position)), position));
            let nullable = types::levels(&first.definition.ty);
            let (key, shape) = (Key::new(key), Arc::new(shape));
            members.push(Member { key, positions, selected_on_all_types: true, nullable, shape });
        }
        if items.is_empty() {
            items.push(unwritten(parent));
        }
        Ok((executor::SelectionSet { items }, Shape::new(members)))
    }

    /// Refuses fields of one object that have equal response keys but differ. Validation finds most of these conflicts,
    /// but not lists of different lengths in arguments.
    fn compare(&self, first: &Node<Field>, other: &Node<Field>) -> Result<(), OperationError> {
        let named = |argument: &Node<Argument>| {
            let known = other.arguments.iter().find(|known| known.name == argument.name);
            known.is_some_and(|known| values::same(&known.value, &argument.value))
        };
        if first.name == other.name
            && first.arguments.len() == other.arguments.len()
            && first.arguments.iter().all(named)
        {
            return Ok(());
        }
        let key = first.response_key();
        let message = format!("Fields \"{key}\" conflict because they differ; use different aliases to fetch both.");
        Err(OperationError::rule(message, [self.position(first), self.position(other)]))
    }

    fn arguments(&mut self, field: &Node<Field>) -> Result<Arguments, OperationError> {
        let mut arguments = Vec::with_capacity(field.arguments.len());
        let mut absent = AbsentFields::default();
        for argument in &field.arguments {
            let definition = field.definition.argument_by_name(&argument.name);
            let location = InputLocation {
                expected: definition.map(|definition| &*definition.ty),
                has_default: definition.is_some_and(|definition| definition.default_value.is_some()),
                one_of: false,
            };
            let positions = self.values.positions;
            absent.path.push(argument.name.as_str().into());
            if let Some(value) = self.values.value(&argument.value, location, &mut absent)? {
                let name = Positioned::new(Key::new(&argument.name), positions.of(argument.name.location()));
                arguments.push((name, Positioned::new(value, positions.of(argument.value.location()))));
            } else {
                absent.add();
            }
            absent.path.pop();
        }
        self.absent.add(self.position(field), absent.paths);
        Ok(arguments)
    }

    fn position(&self, field: &Node<Field>) -> Pos {
        self.values.positions.of(field.location())
    }

    fn visit(&mut self) -> Result<(), OperationError> {
        self.visited += 1;
        Limit::Comparisons.check(self.visited, self.allowed)
    }
}

/// Returns the selection of an object's type that the response does not contain.
fn unwritten(position: Pos) -> Positioned<executor::Selection> {
    let positioned = |name| Positioned::new(Key::new(name), position);
    let field = executor::Field {
        alias: Some(positioned(UNWRITTEN)),
        name: positioned("__typename"),
        arguments: Vec::new(),
        directives: Vec::new(),
        selection_set: Positioned::default(),
    };
    Positioned::new(executor::Selection::Field(Positioned::new(field, position)), position)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use async_graphql::Variables;
    use serde_json::{Value as Json, json};

    use super::super::{Selected, TypeSystem, check};
    use super::*;
    use crate::given_variables::GivenVariables;
    use crate::limits::Limits;

    const SDL: &str = "
        type Query { find(any: Any): Int pet: Pet }
        scalar Any
        interface Pet { name: String }
        type Cat implements Pet { name: String lives: Int }
        type Dog implements Pet { name: String owner: Pet }
    ";

    /// Returns the selection set that the executor gets.
    fn merged(query: &str, variables: Json) -> Result<String, OperationError> {
        let types = TypeSystem::from_sdl(SDL).unwrap();
        let selected = Selected { query, operation: None };
        let checked = check(selected, &Variables::from_json(variables).into(), &types, &Limits::default())?;
        let (_, operation) = checked.document.operations.iter().next().unwrap();
        Ok(text(&operation.node.selection_set.node))
    }

    /// Returns the response keys and fragments of a selection set.
    fn text(set: &executor::SelectionSet) -> String {
        let items = set.items.iter().map(|item| match &item.node {
            executor::Selection::Field(field) if field.node.response_key().node == UNWRITTEN => "-".to_owned(),
            executor::Selection::Field(field) if field.node.selection_set.node.items.is_empty() => {
                field.node.response_key().to_string()
            }
            executor::Selection::Field(field) => {
                format!("{} {}", field.node.response_key().node, text(&field.node.selection_set.node))
            }
            executor::Selection::InlineFragment(inline) => {
                let condition = &inline.node.type_condition.as_ref().unwrap().node;
                format!("... on {} {}", condition.on, text(&inline.node.selection_set.node))
            }
            executor::Selection::FragmentSpread(_) => panic!("a merged operation has no named fragments"),
        });
        format!("{{ {} }}", items.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn fields_of_an_interface_are_merged_for_each_object_type() {
        for (query, expected) in [
            ("{ pet { name ... on Pet { name } } }", "{ pet { name } }"),
            (
                "{ pet { name ... on Cat { lives name } } }",
                "{ pet { ... on Cat { name lives - } ... on Dog { name - } } }",
            ),
            (
                "{ pet { ... on Dog { owner { name } } ...f } } fragment f on Dog { owner { ... on Pet { a: name } } }",
                "{ pet { ... on Cat { - } ... on Dog { owner { name a } - } } }",
            ),
        ] {
            assert_eq!(merged(query, json!({})).as_deref(), Ok(expected), "{query}");
        }
    }

    #[test]
    fn objects_without_fields_are_resolved() {
        for (query, expected) in [
            ("{ pet { name @skip(if: true) } }", "{ pet { - } }"),
            (
                "{ pet { name @skip(if: true) ... on Dog { owner { name @include(if: false) } } } }",
                "{ pet { ... on Cat { - } ... on Dog { owner { - } - } } }",
            ),
            ("{ pet @skip(if: true) { name } }", "{ - }"),
        ] {
            assert_eq!(merged(query, json!({})).as_deref(), Ok(expected), "{query}");
        }
    }

    #[test]
    fn skipped_fields_do_not_reach_the_executor() {
        for (yes, no, variables) in
            [("true", "false", ""), ("$yes", "$no", "query ($yes: Boolean! = true, $no: Boolean! = false)")]
        {
            let query = format!(
                "{variables} {{
                    a: find @skip(if: {yes}) b: find @skip(if: {no}) c: find @include(if: {yes}) d: find @include(if: {no})
                    e: find @include(if: {yes}) @skip(if: {yes}) ... @skip(if: {yes}) {{ f: find }}
                }}"
            );
            assert_eq!(merged(&query, json!({})).as_deref(), Ok("{ b c }"));
        }
    }

    #[test]
    fn fields_with_different_values_inside_their_arguments_conflict() {
        let both = |one: &str, other: &str| merged(&format!("{{ find(any: {one}) find(any: {other}) }}"), json!({}));
        for (one, other) in
            [("[1]", "[1, 2]"), ("{ a: [1] }", "{ a: [1, 2] }"), ("{ a: 1, b: [[1]] }", "{ b: [[]], a: 1 }")]
        {
            let refused = both(one, other).unwrap_err().to_string();
            assert_eq!(refused, "Fields \"find\" conflict because they differ; use different aliases to fetch both.");
        }
        assert_eq!(both("{ a: [1], b: 2 }", "{ b: 2, a: [1] }").as_deref(), Ok("{ find }"));
    }

    /// Each object type of an interface gets its own merged fields, which the search for conflicts does not visit.
    #[test]
    fn merging_fields_for_many_object_types_counts_as_comparisons() {
        let mut sdl = "type Query { i: I } interface I { n: Int }".to_owned();
        for index in 0..50 {
            write!(sdl, " type T{index} implements I {{ n: Int }}").unwrap();
        }
        let types = TypeSystem::from_sdl(&sdl).unwrap();
        let query = format!("{{ i {{ ... on T0 {{ n }} {} }} }}", "n ".repeat(100));
        let within = |comparisons: u64| {
            let limits = Limits { comparisons, ..Limits::default() };
            check(Selected { query: &query, operation: None }, &GivenVariables::default(), &types, &limits).map(drop)
        };
        let refused = within(1_000).unwrap_err();
        assert!(matches!(refused, OperationError::LimitExceeded { limit: Limit::Comparisons, .. }), "{refused:?}");
        assert_eq!(within(10_000), Ok(()));
    }
}
