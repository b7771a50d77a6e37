//! Estimates, from the document alone, what it would cost to validate and to execute.
//!
//! Each fragment is weighed once and its weight reused at every spread, so a document of fragments that spread one
//! another many times is priced in time linear in its length; sums saturate. All operations and fragments of the document
//! are weighed, used or not, since the executor validates them all. Fragments that spread themselves are refused.
//!
//! The cost of a field is one plus the cost of what is selected in it. What a connection repeats (`nodes` and `edges`) is
//! multiplied by `first` or `last`; without these by an assumed page. A field that takes `first`, `last` or `limit`, itself
//! or in an input object, and has no such child is a list of its own. Lists of the introspection schema count ten-fold.

use std::collections::HashMap;

use async_graphql::parser::types::{
    ExecutableDocument, Field, OperationDefinition, Selection, SelectionSet, VariableDefinition,
};
use async_graphql::{Name, Positioned, Value, Variables};

use super::invalid::{Invalid, Limit};
use super::limits::Limits;

/// Arguments that say how long a list is.
const SIZES: [&str; 3] = ["first", "last", "limit"];
/// Lists of the introspection schema, and how long they are taken to be.
const INTROSPECTION_LISTS: [&str; 8] =
    ["types", "directives", "fields", "args", "inputFields", "enumValues", "interfaces", "possibleTypes"];
const INTROSPECTION_LIST_SIZE: u64 = 10;

/// Refuses a document beyond the limits on depth, nesting, fields, aliases and cost.
pub(super) fn check(document: &ExecutableDocument, variables: &Variables, limits: &Limits) -> Result<(), Invalid> {
    let mut scale = Scale { document, variables, limits, fragments: HashMap::new(), definitions: &[] };
    let mut total = Weight::default();
    for (_, operation) in document.operations.iter() {
        total.add(scale.operation(&operation.node)?);
        total.check(limits)?;
    }
    scale.definitions = &[];
    for name in document.fragments.keys() {
        scale.fragment(name, 0, false)?;
    }
    Ok(())
}

/// What a selection set weighs.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    fields: u64,
    aliases: u64,
    depth: u64,
    nesting: u64,
    /// The cost of `nodes` and `edges` directly in the set, for one element of a page.
    paged: u64,
    /// The cost of everything else.
    plain: u64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.fields = self.fields.saturating_add(other.fields);
        self.aliases = self.aliases.saturating_add(other.aliases);
        self.depth = self.depth.max(other.depth);
        self.nesting = self.nesting.max(other.nesting);
        self.paged = self.paged.saturating_add(other.paged);
        self.plain = self.plain.saturating_add(other.plain);
    }

    fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        Limit::Depth.check(self.depth, limits.depth as u64)?;
        Limit::Nesting.check(self.nesting, limits.nesting as u64)?;
        Limit::Fields.check(self.fields, limits.fields)?;
        Limit::Aliases.check(self.aliases, limits.aliases)?;
        Limit::Cost.check(self.plain.saturating_add(self.paged), limits.cost)
    }
}

/// A fragment's weight, or the mark that it is being weighed. The same fragment weighs more inside introspection.
type Fragments<'a> = HashMap<(&'a str, bool), Option<Weight>>;

struct Scale<'a> {
    document: &'a ExecutableDocument,
    variables: &'a Variables,
    limits: &'a Limits,
    fragments: Fragments<'a>,
    definitions: &'a [Positioned<VariableDefinition>],
}

impl<'a> Scale<'a> {
    fn operation(&mut self, operation: &'a OperationDefinition) -> Result<Weight, Invalid> {
        // Defaults of variables differ between operations, and with them the weight of a fragment.
        self.fragments.clear();
        self.definitions = &operation.variable_definitions;
        self.selection_set(&operation.selection_set.node, 0, false)
    }

    /// `level` counts the selection sets around this one; it bounds the recursion.
    fn selection_set(&mut self, set: &'a SelectionSet, level: u64, introspection: bool) -> Result<Weight, Invalid> {
        Limit::Nesting.check(level, self.limits.nesting as u64)?;
        let mut weight = Weight::default();
        for selection in &set.items {
            weight.add(match &selection.node {
                Selection::Field(field) => self.field(&field.node, level, introspection)?,
                Selection::InlineFragment(inline) => {
                    nested(self.selection_set(&inline.node.selection_set.node, level + 1, introspection)?)
                }
                Selection::FragmentSpread(spread) => {
                    nested(self.fragment(&spread.node.fragment_name.node, level + 1, introspection)?)
                }
            });
        }
        Ok(weight)
    }

    fn fragment(&mut self, name: &'a Name, level: u64, introspection: bool) -> Result<Weight, Invalid> {
        let key = (name.as_str(), introspection);
        // An unknown fragment weighs nothing: validation names it.
        let Some(fragment) = self.document.fragments.get(name) else {
            return Ok(Weight::default());
        };
        match self.fragments.get(&key) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => {
                return Err(Invalid::rule(format!("Fragment \"{name}\" spreads itself."), [fragment.pos]));
            }
            None => self.fragments.insert(key, None),
        };
        let weight = self.selection_set(&fragment.node.selection_set.node, level, introspection)?;
        self.fragments.insert(key, Some(weight));
        Ok(weight)
    }

    fn field(&mut self, field: &'a Field, level: u64, introspection: bool) -> Result<Weight, Invalid> {
        let name = field.name.node.as_str();
        let within = introspection || matches!(name, "__schema" | "__type");
        let leaf = field.selection_set.node.items.is_empty();
        let inner = if leaf {
            Weight::default()
        } else {
            nested(self.selection_set(&field.selection_set.node, level + 1, within)?)
        };
        let cost = self.cost(field, inner, introspection).saturating_add(1);
        let paged = !introspection && matches!(name, "nodes" | "edges");
        Ok(Weight {
            fields: inner.fields.saturating_add(1),
            aliases: inner.aliases.saturating_add(field.alias.is_some().into()),
            depth: inner.depth + 1,
            nesting: inner.nesting,
            paged: if paged { cost } else { 0 },
            plain: if paged { 0 } else { cost },
        })
    }

    /// The cost of what is selected in `field`.
    fn cost(&self, field: &Field, inner: Weight, introspection: bool) -> u64 {
        if introspection {
            let list = INTROSPECTION_LISTS.contains(&field.name.node.as_str());
            return inner.plain.saturating_mul(if list { INTROSPECTION_LIST_SIZE } else { 1 });
        }
        match self.size(field) {
            Some(size) if inner.paged == 0 => inner.plain.saturating_mul(size),
            size => {
                let page = size.unwrap_or(self.limits.default_page);
                inner.paged.saturating_mul(page).saturating_add(inner.plain)
            }
        }
    }

    /// The longest list that the arguments ask for.
    fn size(&self, field: &Field) -> Option<u64> {
        let sizes = field.arguments.iter().filter_map(|(name, value)| {
            let sized = SIZES.contains(&name.node.as_str());
            let value = value.node.clone().into_const_with(|name| Ok::<_, ()>(self.variable(&name))).ok()?;
            match value {
                Value::Object(_) => sizes_within(&value),
                value if sized => number(&value),
                _ => None,
            }
        });
        sizes.max()
    }

    /// What matters of a variable's value: a number, or the sizes within an object.
    fn variable(&self, name: &Name) -> Value {
        let definition = || self.definitions.iter().find(|definition| definition.node.name.node == *name);
        let value = self.variables.get(name).or_else(|| definition()?.node.default_value());
        match value {
            Some(value @ Value::Number(_)) => value.clone(),
            Some(value @ Value::Object(_)) => {
                let size = sizes_within(value).map(|size| (Name::new(SIZES[0]), Value::from(size)));
                Value::Object(size.into_iter().collect())
            }
            _ => Value::Null,
        }
    }
}

/// One selection set further down.
fn nested(weight: Weight) -> Weight {
    Weight { nesting: weight.nesting + 1, ..weight }
}

fn sizes_within(value: &Value) -> Option<u64> {
    let Value::Object(fields) = value else {
        return None;
    };
    SIZES.iter().filter_map(|name| number(fields.get(*name)?)).max()
}

/// A list's length as asked for; what is no count is left to validation.
fn number(value: &Value) -> Option<u64> {
    let Value::Number(number) = value else {
        return None;
    };
    Some(number.as_u64().unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use async_graphql::parser::parse_query;
    use serde_json::json;

    use super::*;

    fn weigh(document: &str, variables: serde_json::Value) -> Result<Weight, Invalid> {
        let document = parse_query(document).unwrap();
        let limits = Limits { nesting: 60, ..Limits::default() };
        let (variables, operations) = (Variables::from_json(variables), document.operations.clone());
        let (_, operation) = operations.iter().next().unwrap();
        let mut scale = Scale {
            document: &document,
            variables: &variables,
            limits: &limits,
            fragments: HashMap::new(),
            definitions: &[],
        };
        scale.operation(&operation.node)
    }

    fn cost(document: &str, variables: serde_json::Value) -> u64 {
        let weight = weigh(document, variables).unwrap();
        weight.plain + weight.paged
    }

    #[test]
    fn a_connection_costs_its_page() {
        let none = || json!({});
        assert_eq!(cost("{ a b { c } }", none()), 3);
        assert_eq!(cost("{ list(first: 50) { nodes { a } pageInfo { b } } }", none()), 1 + 50 * 2 + 2);
        assert_eq!(cost("{ list { nodes { a } pageInfo { b } } }", none()), 1 + 20 * 2 + 2);
        assert_eq!(cost("{ list(last: 3) { ...f } } fragment f on T { edges { node { a } } }", none()), 1 + 3 * 3);
        assert_eq!(cost("mutation { claim(input: { limit: 10 }) { claims { id } } }", none()), 1 + 10 * 2);
        assert_eq!(cost("{ list(first: -7) { a } }", none()), 2);
    }

    #[test]
    fn sizes_are_found_in_variables_and_their_defaults() {
        let document = "query ($n: Int = 7) { list(first: $n) { nodes { a } } }";
        assert_eq!(cost(document, json!({})), 1 + 7 * 2);
        assert_eq!(cost(document, json!({ "n": 9 })), 1 + 9 * 2);
        let document = "mutation ($input: I!) { claim(input: $input) { claims { id } } }";
        assert_eq!(cost(document, json!({ "input": { "limit": 100 } })), 1 + 100 * 2);
        let document = "mutation ($n: Int!) { claim(input: { limit: $n }) { claims { id } } }";
        assert_eq!(cost(document, json!({ "n": 5 })), 1 + 5 * 2);
    }

    #[test]
    fn fragments_that_double_forty_times_are_weighed_at_once() {
        let mut document = "{ ...f0 }".to_owned();
        for index in 0..40 {
            write!(document, " fragment f{index} on Q {{ ...f{0} ...f{0} }}", index + 1).unwrap();
        }
        document.push_str(" fragment f40 on Q { a }");
        assert_eq!(weigh(&document, json!({})).unwrap().fields, 1 << 40);
    }

    #[test]
    fn a_fragment_that_spreads_itself_is_refused() {
        let document = "{ ...a } fragment a on Q { b { ...b } } fragment b on Q { ...a }";
        assert_eq!(weigh(document, json!({})).unwrap_err().code(), "GRAPHQL_VALIDATION_FAILED");
    }

    #[test]
    fn a_long_chain_of_unused_fragments_is_refused() {
        let mut document = "{ a }".to_owned();
        for index in 0..2_000 {
            write!(document, " fragment f{index} on Q {{ ...f{} }}", index + 1).unwrap();
        }
        let document = parse_query(document).unwrap();
        let refused = check(&document, &Variables::default(), &Limits::default()).unwrap_err();
        assert_eq!(refused.code(), "LIMIT_EXCEEDED");
    }

    #[test]
    fn introspection_inside_introspection_is_expensive() {
        let document =
            "{ __schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } } }";
        assert!(cost(document, json!({})) > 100_000);
        assert!(cost("{ types { fields { type { fields { name } } } } }", json!({})) < 10);
    }
}
