//! The generated pages of docs/ are up to date, and they list every metric and every error code of the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use noetl_api::errors::FIELD_ERROR_CODES;
use noetl_graphql::telemetry::metrics::METRICS;
use noetl_testkit::binary;
use noetl_testkit::sources::sources;
use noetl_use_cases::error::RejectionCode;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check_page(page: &str, path: &str) {
    let output = Command::new(binary()).args(["reference", page]).output().unwrap();
    assert!(output.status.success());
    let stored = fs::read_to_string(root().join(path)).unwrap_or_default();
    let generated = String::from_utf8(output.stdout).unwrap();
    assert!(stored == generated, "{path} is out of date; run `make schema` and check the difference");
}

#[test]
fn pages_equal_the_generated_ones() {
    check_page("errors", "docs/errors.md");
    check_page("metrics", "docs/metrics.md");
    check_page("settings", "docs/operations/settings.md");
}

/// Returns the text of a source file without its unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

#[test]
fn every_recorded_metric_is_in_the_table_with_its_type() {
    let mut recorded = BTreeSet::new();
    for text in sources(root()).iter().map(|path| code(path)) {
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
    for text in files.iter().map(|file| code(&root().join(file))) {
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
}
