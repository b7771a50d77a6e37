//! The generated pages of docs/ are up to date and complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use noetl_api::errors::FIELD_ERROR_CODES;
use noetl_graphql::commands::reference::{Page, page};
use noetl_graphql::telemetry::metrics::METRICS;
use noetl_testkit::{repository, sources};
use noetl_use_cases::error::RejectionCode;

fn check(page: &str, path: &str) {
    let stored = fs::read_to_string(repository().join(path)).unwrap_or_default();
    assert!(stored == page, "{path} is out of date; run `make schema` and check the difference");
}

#[test]
fn pages_equal_the_generated_ones() {
    check(&page(Page::Errors), "docs/errors.md");
    check(&page(Page::Metrics), "docs/metrics.md");
    check(&page(Page::Settings), "docs/operations/settings.md");
}

/// Returns the text of a source file without its unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\n").next().unwrap_or_default().to_owned()
}

#[test]
fn every_recorded_metric_is_in_the_table_with_its_type() {
    let mut recorded = BTreeSet::new();
    for text in sources().iter().map(|path| code(path)) {
        for kind in ["counter", "gauge", "histogram"] {
            for call in text.split(&format!("{kind}!(")).skip(1) {
                let name = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                recorded.extend(name.map(|name| (name.to_owned(), kind.to_owned())));
            }
        }
    }
    let tables = METRICS.iter().chain(&graphql_transport::METRICS).chain(&graphql_transport::listener::METRICS);
    let listed = tables.map(|metric| (metric.name.to_owned(), format!("{:?}", metric.metric_type).to_lowercase()));
    assert_eq!(recorded, listed.collect());
}

#[test]
fn every_error_code_of_the_sources_is_listed() {
    let files = [
        "crates/graphql-transport/src/admission.rs",
        "crates/graphql-transport/src/rejection.rs",
        "crates/graphql-transport/src/operation_error.rs",
        "crates/graphql-transport/src/reply.rs",
        "crates/api/src/access.rs",
        "crates/api/src/deadline.rs",
    ];
    let mut used = BTreeSet::new();
    for text in files.iter().map(|file| code(&repository().join(file))) {
        let literals = text.split('"').skip(1).step_by(2);
        let is_code =
            |text: &&str| text.len() > 4 && text.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase());
        used.extend(literals.filter(is_code).map(str::to_owned));
    }
    used.insert("STREAM_UNAVAILABLE".to_owned());
    let rejections: BTreeSet<String> = RejectionCode::all().map(|code| code.name().to_owned()).collect();
    let faults: BTreeSet<String> = FIELD_ERROR_CODES.iter().map(|code| code.name.to_owned()).collect();
    assert!(rejections.is_disjoint(&faults));
    let unlisted: Vec<_> = used.iter().filter(|code| !rejections.contains(*code) && !faults.contains(*code)).collect();
    assert!(unlisted.is_empty(), "these codes are not in docs/errors.md: {unlisted:?}");
    assert!(faults.is_subset(&used), "these codes are never used: {:?}", faults.difference(&used));
    let of_rejections = RejectionCode::all().map(|code| (code.name(), code.is_retryable()));
    let of_fields = FIELD_ERROR_CODES.iter().map(|code| (code.name, code.retryable));
    let retryable: BTreeSet<&str> = of_rejections.chain(of_fields).filter(|code| code.1).map(|code| code.0).collect();
    let of_shards = ["SHARD_UNAVAILABLE", "STREAM_UNAVAILABLE"];
    assert_eq!(retryable, of_shards.into_iter().chain(graphql_transport::RETRYABLE).collect());
}
