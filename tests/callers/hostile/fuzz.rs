//! Fuzzes the path from the bytes of a body to a validated and merged operation, with the corpus as its seed.
//!
//! Runs on the stable toolchain. Each case mutates a body of the corpus: bytes and tokens are deleted, repeated,
//! swapped, and copied between documents. The test asserts that no case panics, that each case stays within its CPU
//! time, and that an accepted operation has each response key once.
//!
//! `make test` runs a small number of cases. `NOETL_FUZZ_SECONDS=3600 cargo test --release --test callers hostile::fuzz`
//! runs for an hour. A failure prints the body and its seed; set `NOETL_FUZZ_SEED` to this seed to repeat it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use async_graphql::parser::types::{DocumentOperations, Selection, SelectionSet};
use async_graphql::{Request, Value};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use graphql_transport::{CheckedScalar, Limits, TypeSystem, check_body};

use super::corpus::{self, Sent};
use super::process;

/// Number of cases if `NOETL_FUZZ_SECONDS` is not set.
const CASES: u64 = 300;
/// The scalar whose values the server checks before the first resolver.
const DATE_TIME: CheckedScalar = CheckedScalar {
    name: "DateTime",
    example: "\"2026-01-31T12:00:00Z\"",
    fits: |value| matches!(value, Value::String(text) if text.parse::<DateTime<Utc>>().is_ok()),
};
/// Maximum CPU time of one case in a build without optimisation.
const MAX_CPU: Duration = Duration::from_millis(500);

/// A small random generator (`SplitMix64`). The same seed gives the same cases.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }
}

/// Parts of documents that are inserted at random positions.
const PARTS: [&str; 20] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "...",
    "...f0",
    "on Query",
    "$v",
    "@skip(if: true)",
    "@include(if: $v)",
    "a: ",
    "\\\"",
    "#",
    "fragment f0 on Query { server { version } }",
    "__typename",
    "1e9",
    "null",
    "executions(first: 1) { nodes { id } }",
];

fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut body = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        let (at, end) = (random.below(body.len()), random.below(body.len()));
        let (at, end) = (at.min(end), at.max(end).min(at.min(end) + 400));
        match random.below(6) {
            0 => drop(body.drain(at..end)),
            1 => {
                let repeated = body[at..end].repeat(1 + random.below(20));
                body.splice(at..at, repeated);
            }
            2 => body.splice(at..at, PARTS[random.below(PARTS.len())].bytes()).for_each(drop),
            3 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let part = other[from..other.len().min(from + 300)].to_vec();
                body.splice(at..end, part);
            }
            4 if !body.is_empty() => body[at] = u8::try_from(random.below(256)).unwrap(),
            _ => body[at..end].reverse(),
        }
    }
    body
}

/// Panics if a selection set has a response key twice for one type.
fn keys_are_unique(set: &SelectionSet) {
    let mut keys = HashSet::new();
    for item in &set.items {
        match &item.node {
            Selection::Field(field) => {
                assert!(keys.insert(field.node.response_key().node.to_string()), "a key is repeated");
                assert!(field.node.directives.is_empty());
                keys_are_unique(&field.node.selection_set.node);
            }
            Selection::InlineFragment(inline) => {
                let condition = inline.node.type_condition.as_ref().expect("the inline fragment has a type");
                assert!(keys.insert(format!("... {}", condition.node.on.node)), "a type is repeated");
                keys_are_unique(&inline.node.selection_set.node);
            }
            Selection::FragmentSpread(_) => panic!("a fragment is left"),
        }
    }
}

fn is_merged(mut request: Request) {
    let document = request.parsed_query().unwrap();
    assert!(document.fragments.is_empty());
    let operation = match &document.operations {
        DocumentOperations::Single(operation) => operation,
        DocumentOperations::Multiple(operations) => operations.values().next().unwrap(),
    };
    keys_are_unique(&operation.node.selection_set.node);
}

#[tokio::test]
async fn mutated_requests_are_refused_or_validated_within_the_limits() {
    let types = TypeSystem::from_sdl(include_str!("../../../schema.graphql")).unwrap();
    let types = types.with_scalar(DATE_TIME).with_carried_scalar("JSON");
    let limits = Limits::default();
    // More mutations of small bodies fit into the same time.
    let seeds = corpus::all().into_iter().filter_map(|case| match case.sent {
        Sent::Body(body) if body.len() < 60_000 => Some(body),
        _ => None,
    });
    let seeds: Vec<Vec<u8>> = seeds.collect();
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let until = number("NOETL_FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut accepted, first) = (0, number("NOETL_FUZZ_SEED").unwrap_or(1));
    let seeds_to_run = (first..).take_while(|seed| until.map_or(*seed < first + CASES, |until| Instant::now() < until));
    for seed in seeds_to_run {
        let body = mutate(&mut Random(seed), &seeds);
        let started = process::thread_cpu();
        let checked = check_body(Bytes::from(body.clone()), &limits, &types).await;
        let used = process::thread_cpu().saturating_sub(started);
        let text = || format!("seed {seed}: {}", String::from_utf8_lossy(&body));
        assert!(used < MAX_CPU, "{used:?} for {}", text());
        if let Ok(request) = checked {
            accepted += 1;
            is_merged(request);
        }
    }
    assert!(accepted > 0, "no mutation was accepted, so only refusals were tested");
}
