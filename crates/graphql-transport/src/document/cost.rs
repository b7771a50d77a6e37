//! Estimates the cost of validating and executing a document, from the document and its variables alone.
//!
//! The weight of a fragment is computed once and reused at every spread. So the time is linear in the length of the
//! document, also if fragments spread each other many times. Sums saturate. All operations and fragments of the
//! document are weighed, used or not, because all of them are validated. A fragment that is not defined, or that
//! spreads itself, is refused before any other code follows it.
//!
//! The cost of a field is one plus the cost of its selections. The selections of a connection's `nodes` and `edges` are
//! multiplied by `first` or `last`, or by an assumed page size if both are absent. A field without `nodes` or `edges`
//! that takes `first`, `last` or `limit`, directly or in an input object, counts as a list of that length. A length
//! beyond the largest that the resolvers accept counts as the largest, because the resolver refuses it. Lists of the
//! introspection schema count as ten elements. A field `totalCount` costs one more for each 100 items up to which it counts.
//!
//! The bytes of the arguments' values (`argument_bytes`) are multiplied in the same way.
//!
//! The same walk bounds the arguments and directives of each element. Validation compares each of them with the others
//! of its element, so without this limit its time would grow with the square of the document's length.

use std::collections::HashMap;

use apollo_compiler::ast::{
    Argument, DirectiveList, Document, Field, FragmentDefinition, OperationDefinition, Selection,
};
use apollo_compiler::{Name, Node};
use async_graphql::Variables;

use super::argument_bytes::ArgumentBytes;
use super::list_length::{COUNT, ListLengths};
use super::positions::Positions;
use crate::limits::Limits;
use crate::operation_error::{Limit, OperationError};

/// Lists of the introspection schema.
const INTROSPECTION_LISTS: [&str; 8] =
    ["types", "directives", "fields", "args", "inputFields", "enumValues", "interfaces", "possibleTypes"];
/// Assumed length of a list of the introspection schema.
const INTROSPECTION_LIST_SIZE: u64 = 10;
/// Items that cost as much to count as one value costs to return.
const COUNTED_OF_VALUE: u64 = 100;

/// Refuses a document beyond the limits on arguments, directives, depth, nesting, fields, aliases, cost and bytes of
/// arguments. Returns the cost of its operations.
pub(super) fn check(
    document: &Document,
    positions: &Positions<'_>,
    variables: &Variables,
    limits: &Limits,
) -> Result<u64, OperationError> {
    let definitions = document.definitions.iter();
    let mut estimator = CostEstimator::new(document, positions, variables, limits);
    // One use of each variable is already bounded by the size of the body.
    let allowed = (limits.argument_bytes as u64).saturating_add(estimator.argument_bytes.of_variables());
    let mut total = Weight::default();
    for operation in definitions.clone().filter_map(|definition| definition.as_operation_definition()) {
        total.add(estimator.operation(operation)?);
        total.check(limits, allowed)?;
    }
    estimator.lengths.definitions = &[];
    // Unused fragments are weighed as well; those of the last operation are weighed already. The order of the document
    // makes the error the same each time.
    for fragment in definitions.filter_map(|definition| definition.as_fragment_definition()) {
        estimator.fragment(&fragment.name, 0, false)?;
    }
    Ok(total.cost.total())
}

/// Cost or bytes of a selection set.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    /// Amount of `nodes` and `edges` directly in the set, for one element of a page.
    paged: u64,
    /// Amount of all other selections.
    plain: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.paged = self.paged.saturating_add(other.paged);
        self.plain = self.plain.saturating_add(other.plain);
    }

    fn total(self) -> u64 {
        self.plain.saturating_add(self.paged)
    }

    /// Returns the amount of a field: `own`, and `within` for its selections.
    fn of_field(paged: bool, own: u64, within: u64) -> Self {
        let amount = own.saturating_add(within);
        if paged { Self { paged: amount, plain: 0 } } else { Self { paged: 0, plain: amount } }
    }
}

/// Weight of a selection set.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// Number of fields and fragments.
    fields: u64,
    aliases: u64,
    depth: u64,
    nesting: u64,
    cost: Amount,
    bytes: Amount,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.fields = self.fields.saturating_add(other.fields);
        self.aliases = self.aliases.saturating_add(other.aliases);
        self.depth = self.depth.max(other.depth);
        self.nesting = self.nesting.max(other.nesting);
        self.cost.add(other.cost);
        self.bytes.add(other.bytes);
    }

    fn check(&self, limits: &Limits, bytes: u64) -> Result<(), OperationError> {
        Limit::Depth.check(self.depth, limits.depth as u64)?;
        Limit::Nesting.check(self.nesting, limits.nesting as u64)?;
        Limit::Fields.check(self.fields, limits.fields)?;
        Limit::Aliases.check(self.aliases, limits.aliases)?;
        Limit::Cost.check(self.cost.total(), limits.cost)?;
        Limit::ArgumentBytes.check(self.bytes.total(), bytes)
    }
}

/// Weights of fragments, by name and by whether the fragment is inside introspection, where it weighs more. `None`
/// marks a fragment that is being weighed.
type Fragments<'a> = HashMap<(&'a str, bool), Option<Weight>>;

/// Weighs the operations and fragments of one document.
struct CostEstimator<'a> {
    /// The fragments of the document.
    known: HashMap<&'a Name, &'a Node<FragmentDefinition>>,
    positions: &'a Positions<'a>,
    lengths: ListLengths<'a>,
    argument_bytes: ArgumentBytes<'a>,
    limits: &'a Limits,
    fragments: Fragments<'a>,
}

impl<'a> CostEstimator<'a> {
    fn new(document: &'a Document, positions: &'a Positions<'a>, variables: &'a Variables, limits: &'a Limits) -> Self {
        let known = document.definitions.iter().filter_map(|definition| definition.as_fragment_definition());
        let known = known.map(|fragment| (&fragment.name, fragment)).collect();
        let lengths = ListLengths { variables, definitions: &[], limits };
        let argument_bytes = ArgumentBytes::new(variables);
        Self { known, positions, lengths, argument_bytes, limits, fragments: HashMap::new() }
    }

    fn operation(&mut self, operation: &'a OperationDefinition) -> Result<Weight, OperationError> {
        // The weight of a fragment depends on the defaults of variables, which differ between operations.
        self.fragments.clear();
        self.lengths.definitions = &operation.variables;
        self.argument_bytes.enter(operation);
        self.bound(&[], &operation.directives)?;
        for variable in &operation.variables {
            self.bound(&[], &variable.directives)?;
        }
        self.selections(&operation.selection_set, 0, false)
    }

    /// Returns the weight of a selection set. `level` is the number of enclosing selection sets; it bounds the
    /// recursion.
    fn selections(&mut self, set: &'a [Selection], level: u64, introspection: bool) -> Result<Weight, OperationError> {
        Limit::Nesting.check(level, self.limits.nesting as u64)?;
        let mut weight = Weight::default();
        for selection in set {
            weight.add(match selection {
                Selection::Field(field) => self.field(field, level, introspection)?,
                Selection::InlineFragment(inline) => {
                    self.bound(&[], &inline.directives)?;
                    spread(self.selections(&inline.selection_set, level + 1, introspection)?)
                }
                Selection::FragmentSpread(named) => {
                    self.bound(&[], &named.directives)?;
                    spread(self.fragment(&named.fragment_name, level + 1, introspection)?)
                }
            });
        }
        Ok(weight)
    }

    fn fragment(&mut self, name: &'a Name, level: u64, introspection: bool) -> Result<Weight, OperationError> {
        let key = (name.as_str(), introspection);
        let Some(&fragment) = self.known.get(name) else {
            let position = self.positions.of(name.location());
            return Err(OperationError::rule(format!("Fragment \"{name}\" is not defined."), [position]));
        };
        match self.fragments.get(&key) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => {
                let position = self.positions.of(fragment.location());
                return Err(OperationError::rule(format!("Fragment \"{name}\" spreads itself."), [position]));
            }
            None => self.fragments.insert(key, None),
        };
        self.bound(&[], &fragment.directives)?;
        let weight = self.selections(&fragment.selection_set, level, introspection)?;
        self.fragments.insert(key, Some(weight));
        Ok(weight)
    }

    fn field(&mut self, field: &'a Field, level: u64, introspection: bool) -> Result<Weight, OperationError> {
        self.bound(&field.arguments, &field.directives)?;
        let name = field.name.as_str();
        let within = introspection || matches!(name, "__schema" | "__type");
        let leaf = field.selection_set.is_empty();
        let inner =
            if leaf { Weight::default() } else { nested(self.selections(&field.selection_set, level + 1, within)?) };
        let paged = !introspection && matches!(name, "nodes" | "edges");
        let times = self.times(field, inner.cost, introspection);
        let own = 1 + self.lengths.of_count(field) / COUNTED_OF_VALUE;
        Ok(Weight {
            fields: inner.fields.saturating_add(1),
            aliases: inner.aliases.saturating_add(field.alias.is_some().into()),
            depth: inner.depth + 1,
            nesting: inner.nesting,
            cost: Amount::of_field(paged, own, times.of(inner.cost)),
            bytes: Amount::of_field(paged, self.argument_bytes.of(&field.arguments), times.of(inner.bytes)),
        })
    }

    /// Refuses an element with too many arguments or directives, or a directive with too many arguments.
    fn bound(&self, arguments: &[Node<Argument>], directives: &DirectiveList) -> Result<(), OperationError> {
        let check = |count: usize| Limit::Arguments.check(count as u64, self.limits.arguments as u64);
        check(arguments.len())?;
        Limit::Directives.check(directives.len() as u64, self.limits.directives as u64)?;
        directives.iter().try_for_each(|directive| check(directive.arguments.len()))
    }

    /// Returns the number of times that the selections of `field` are resolved.
    fn times(&self, field: &Field, inner: Amount, introspection: bool) -> Times {
        if introspection {
            let list = INTROSPECTION_LISTS.contains(&field.name.as_str());
            return Times { paged: 1, plain: if list { INTROSPECTION_LIST_SIZE } else { 1 } };
        }
        match self.lengths.of_field(field) {
            Some(size) if inner.paged == 0 && !is_counted(field) => Times { paged: size, plain: size },
            size => Times { paged: size.unwrap_or(self.limits.default_page), plain: 1 },
        }
    }
}

/// Returns whether a field is a list whose items are counted, so that its selections are resolved once.
fn is_counted(field: &Field) -> bool {
    field.selection_set.iter().any(|selection| selection.as_field().is_some_and(|field| field.name == COUNT))
}

/// Numbers of times that the two parts of an [`Amount`] are resolved.
#[derive(Debug, Clone, Copy)]
struct Times {
    paged: u64,
    plain: u64,
}

impl Times {
    fn of(self, amount: Amount) -> u64 {
        amount.paged.saturating_mul(self.paged).saturating_add(amount.plain.saturating_mul(self.plain))
    }
}

/// Returns the weight of a spread fragment, from the weight of its selections.
fn spread(weight: Weight) -> Weight {
    Weight { fields: weight.fields.saturating_add(1), ..nested(weight) }
}

/// Returns the weight with one more level of nesting.
fn nested(weight: Weight) -> Weight {
    Weight { nesting: weight.nesting + 1, ..weight }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use apollo_compiler::parser::Parser;
    use serde_json::json;

    use super::super::argument_bytes::VALUE_BYTES;
    use super::*;

    fn parse(document: &str) -> Document {
        Parser::new().parse_ast(document, "").unwrap()
    }

    fn weigh(document: &str, variables: serde_json::Value) -> Result<Weight, OperationError> {
        let (positions, document) = (Positions::new(document), parse(document));
        let limits = Limits { nesting: 60, ..Limits::default() };
        let variables = Variables::from_json(variables);
        let mut estimator = CostEstimator::new(&document, &positions, &variables, &limits);
        let mut definitions = document.definitions.iter();
        let operation = definitions.find_map(|definition| definition.as_operation_definition()).unwrap();
        estimator.operation(operation)
    }

    fn refusal(document: &str, variables: serde_json::Value) -> OperationError {
        let variables = Variables::from_json(variables);
        check(&parse(document), &Positions::new(document), &variables, &Limits::default()).unwrap_err()
    }

    fn cost(document: &str, variables: serde_json::Value) -> u64 {
        weigh(document, variables).unwrap().cost.total()
    }

    #[test]
    fn cost_of_a_connection_is_multiplied_by_its_page_size() {
        let none = || json!({});
        assert_eq!(cost("{ a b { c } }", none()), 3);
        assert_eq!(cost("{ list(first: 50) { nodes { a } pageInfo { b } } }", none()), 1 + 50 * 2 + 2);
        assert_eq!(cost("{ list { nodes { a } pageInfo { b } } }", none()), 1 + 20 * 2 + 2);
        assert_eq!(cost("{ list(last: 3) { ...f } } fragment f on T { edges { node { a } } }", none()), 1 + 3 * 3);
        assert_eq!(cost("mutation { claim(input: { limit: 10 }) { claims { id } } }", none()), 1 + 10 * 2);
        assert_eq!(cost("{ list(first: -7) { a } }", none()), 2);
    }

    #[test]
    fn a_count_costs_what_it_reads() {
        let none = || json!({});
        assert_eq!(cost("{ list(first: 5) { totalCount { value } } }", none()), 1 + 102);
        assert_eq!(cost("{ list { totalCount(upTo: 300) { value } } }", none()), 1 + 5);
        assert_eq!(cost("{ list { totalCount(upTo: 2000000) { value } } }", none()), 1 + 1_002);
        assert_eq!(cost("query ($n: Int) { list { totalCount(upTo: $n) { value } } }", json!({ "n": 500 })), 1 + 7);
        let nested = "{ list(first: 500) { nodes { runs { totalCount { value } } } } }";
        assert_eq!(cost(nested, none()), 1 + 500 * (1 + 1 + 102));
        let refused = refusal("{ list(first: 1000) { nodes { runs { totalCount { value } } } } }", none());
        assert_eq!(refused.code(), "LIMIT_EXCEEDED");
    }

    #[test]
    fn length_beyond_the_largest_counts_as_the_largest() {
        let limits = Limits { largest_page: 50, largest_limit: 70, ..Limits::default() };
        let cost = |document: &str, variables: serde_json::Value| {
            let (positions, document) = (Positions::new(document), parse(document));
            let variables = Variables::from_json(variables);
            let mut estimator = CostEstimator::new(&document, &positions, &variables, &limits);
            estimator.operation(document.definitions[0].as_operation_definition().unwrap()).unwrap().cost.total()
        };
        for size in ["50", "51", "50000", "99999999999"] {
            assert_eq!(
                cost(&format!("{{ list(first: {size}) {{ nodes {{ a }} }} }}"), json!({})),
                1 + 50 * 2,
                "{size}"
            );
        }
        let document = "query ($n: Int = 60, $i: I) { list(last: $n) { nodes { a } } }";
        assert_eq!((cost(document, json!({})), cost(document, json!({ "n": 49 }))), (1 + 50 * 2, 1 + 49 * 2));
        let document = "mutation ($input: I!) { claim(input: $input) { claims { id } } }";
        assert_eq!(cost(document, json!({ "input": { "limit": 1000 } })), 1 + 70 * 2);
        assert_eq!(cost("mutation { claim(input: { limit: 1000 }) { claims { id } } }", json!({})), 1 + 70 * 2);
    }

    #[test]
    fn list_lengths_are_read_from_variables_and_their_defaults() {
        let document = "query ($n: Int = 7) { list(first: $n) { nodes { a } } }";
        assert_eq!(cost(document, json!({})), 1 + 7 * 2);
        assert_eq!(cost(document, json!({ "n": 9 })), 1 + 9 * 2);
        let document = "mutation ($input: I!) { claim(input: $input) { claims { id } } }";
        assert_eq!(cost(document, json!({ "input": { "limit": 100 } })), 1 + 100 * 2);
        let document = "mutation ($n: Int!) { claim(input: { limit: $n }) { claims { id } } }";
        assert_eq!(cost(document, json!({ "n": 5 })), 1 + 5 * 2);
    }

    #[test]
    fn fragments_that_double_forty_times_are_weighed_once_each() {
        let mut document = "{ ...f0 }".to_owned();
        for index in 0..40 {
            write!(document, " fragment f{index} on Q {{ ...f{0} ...f{0} }}", index + 1).unwrap();
        }
        document.push_str(" fragment f40 on Q { a }");
        // Each spread counts, in addition to the fields of the fragment.
        assert_eq!(weigh(&document, json!({})).unwrap().fields, (1 << 40) + (1 << 41) - 1);
    }

    #[test]
    fn fragment_that_spreads_itself_is_refused() {
        let document = "{ ...a } fragment a on Q { b { ...b } } fragment b on Q { ...a }";
        assert_eq!(weigh(document, json!({})).unwrap_err().code(), "GRAPHQL_VALIDATION_FAILED");
    }

    #[test]
    fn undefined_fragment_is_refused_with_its_position() {
        let refused = refusal("{\n ...a } fragment a on Q { b ...missing }", json!({}));
        let OperationError::RuleViolations(rules) = refused else { panic!("{refused}") };
        assert_eq!(rules[0].message, "Fragment \"missing\" is not defined.");
        assert_eq!((rules[0].positions[0].line, rules[0].positions[0].column), (2, 32));
    }

    #[test]
    fn each_use_of_a_variable_counts_its_bytes_again() {
        let text = "x".repeat(100_000);
        let uses = |count: usize| {
            let fields: String = (0..count).map(|_| "f(a: [$v]) ").collect();
            weigh(&format!("query ($v: String) {{ {fields} }}"), json!({ "v": text })).unwrap().bytes.total()
        };
        assert_eq!((uses(1), uses(20)), (100_128, 20 * 100_128));
        let listed = "query ($v: String) { list(first: 10) { nodes { f(a: $v) } } }";
        assert_eq!(weigh(listed, json!({ "v": text })).unwrap().bytes.total(), 10 * 100_064 + VALUE_BYTES);
        let default = format!("query ($v: String = \"{text}\") {{ f(a: $v) f(a: $v) }}");
        assert_eq!(weigh(&default, json!({})).unwrap().bytes.total(), 2 * 100_064);
        // One use of a variable never exceeds the limit, even if the variable is larger.
        let (big, once) = (json!({ "v": "x".repeat(4 << 20) }), "query ($v: String) { f(a: $v) }");
        let variables = Variables::from_json(big.clone());
        assert!(check(&parse(once), &Positions::new(once), &variables, &Limits::default()).is_ok());
        assert_eq!(refusal("query ($v: String) { f(a: $v) f(a: $v) }", big).code(), "LIMIT_EXCEEDED");
    }

    #[test]
    fn long_chain_of_unused_fragments_is_refused() {
        let mut document = "{ a }".to_owned();
        for index in 0..2_000 {
            write!(document, " fragment f{index} on Q {{ ...f{} }}", index + 1).unwrap();
        }
        assert_eq!(refusal(&document, json!({})).code(), "LIMIT_EXCEEDED");
    }

    #[test]
    fn nesting_is_limited_in_used_and_unused_fragments() {
        let limits = Limits { nesting: 10, ..Limits::default() };
        let check = |document: &str| {
            let cost = check(&parse(document), &Positions::new(document), &Variables::default(), &limits);
            cost.map(drop).map_err(|refused| {
                let OperationError::LimitExceeded { limit, .. } = refused else { panic!("{refused}") };
                limit
            })
        };
        // Returns selection sets inside each other. The operation or fragment around them adds one level.
        let nested = |open: &str, levels: usize| format!("{} a {}", open.repeat(levels - 1), "}".repeat(levels - 1));
        for open in ["... {", "... on Q {", "b {"] {
            let (fits, exceeds) = (nested(open, 11), nested(open, 12));
            assert_eq!(check(&format!("{{ {fits} }}")), Ok(()));
            assert_eq!(check(&format!("{{ {exceeds} }}")), Err(Limit::Nesting));
            assert_eq!(check(&format!("{{ a }} fragment f on Q {{ {fits} }}")), Ok(()));
            assert_eq!(check(&format!("{{ a }} fragment f on Q {{ {exceeds} }}")), Err(Limit::Nesting));
            // A fragment that was weighed at its first spread counts at the second one as well.
            let twice = |levels: usize| {
                let fragment = nested(open, 6);
                format!("{{ ...f {} }} fragment f on Q {{ {fragment} }}", nested(open, levels).replace('a', "...f"))
            };
            assert_eq!(check(&twice(5)), Ok(()));
            assert_eq!(check(&twice(6)), Err(Limit::Nesting));
        }
    }

    #[test]
    fn nested_introspection_lists_are_expensive() {
        let document =
            "{ __schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } } }";
        assert!(cost(document, json!({})) > 100_000);
        assert!(cost("{ types { fields { type { fields { name } } } } }", json!({})) < 10);
    }
}
