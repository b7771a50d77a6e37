//! `reference`: prints the generated pages of docs/. `make schema` writes them, and a test compares them.

use std::fmt::Write;

use async_graphql::parser::parse_schema;
use async_graphql::parser::types::{TypeKind, TypeSystemDefinition};
use clap::ValueEnum;

use crate::config;
use crate::telemetry::metrics;
use graphql_transport::{Metric, MetricType};
use noetl_api::errors::FIELD_ERROR_CODES;
use noetl_api::schema;
use noetl_use_cases::error::RejectionCode;

/// Page of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Page {
    /// docs/errors.md: the codes of errors.
    Errors,
    /// docs/metrics.md: the metrics.
    Metrics,
    /// docs/operations/settings.md: the settings.
    Settings,
}

/// Returns the text of a page.
#[must_use]
pub fn page(page: Page) -> String {
    match page {
        Page::Errors => errors(),
        Page::Metrics => metrics(),
        Page::Settings => settings(),
    }
}

fn errors() -> String {
    let mut page = "# Error codes

This page is generated from the code: run `make schema` after a change.

A **rejection** is the caller's mistake. Nothing was written for it, except as the code says. A **fault** is the server's;
its cause is in the server's log only.

## User errors

A mutation returns its rejections in `userErrors`, with these codes in `code`. The failure of a shard
(`SHARD_UNAVAILABLE`, `TIMEOUT`) and the failure of one item of several (`INTERNAL`) are there too. A query has no `userErrors`, so
it returns errors as entries of `errors[]` with the code in `extensions.code`. `retryable` of a user error, and
`extensions.retryable` of an entry of `errors[]`, say whether the same request may succeed later.

| code | meaning | retry the same request | what to do |
|---|---|---|---|
"
    .to_owned();
    let meanings = meanings();
    for code in RejectionCode::all() {
        let meaning = meanings.iter().find(|(name, _)| name == code.name()).map_or("", |(_, meaning)| meaning);
        row(&mut page, &[&format!("`{}`", code.name()), meaning, yes(code.is_retryable()), code.advice()]);
    }
    page.push_str(
        "
## Errors of a request or field

These codes occur only in `extensions.code` of `errors[]`.

| code | meaning | retry the same request | what to do |
|---|---|---|---|
",
    );
    for code in FIELD_ERROR_CODES {
        row(&mut page, &[&format!("`{}`", code.name), code.meaning, yes(code.retryable), code.advice]);
    }
    page
}

/// Returns the names and descriptions of the codes in the schema.
fn meanings() -> Vec<(String, String)> {
    let definitions = parse_schema(schema::sdl()).map(|document| document.definitions).unwrap_or_default();
    let kinds = definitions.into_iter().filter_map(|definition| match definition {
        TypeSystemDefinition::Type(definition) if definition.node.name.node == "UserErrorCode" => {
            Some(definition.node.kind)
        }
        _ => None,
    });
    let values = kinds.filter_map(|kind| if let TypeKind::Enum(codes) = kind { Some(codes.values) } else { None });
    let described = values.flatten().map(|value| {
        let description = value.node.description.map(|text| text.node.replace('\n', " "));
        (value.node.value.node.to_string(), description.unwrap_or_default())
    });
    described.collect()
}

fn metrics() -> String {
    let mut page = "# Metrics

This page is generated from the code: run `make schema` after a change. `/metrics` serves these metrics in Prometheus'
text format. It also has the `process_…` metrics of Prometheus' client libraries. Counters without a label,
and those by shard or database, begin with 0 when the server starts; others appear at their first use.

| name | type | labels | description |
|---|---|---|---|
"
    .to_owned();
    let mut all: Vec<Metric> = metrics::all().collect();
    all.sort_by_key(|metric| metric.name);
    for Metric { name, metric_type, labels, description, .. } in all {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let metric_type = match metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        row(&mut page, &[&format!("`{name}`"), metric_type, &labels.join(", "), description]);
    }
    page
}

fn settings() -> String {
    let mut page = "# Settings

This page is generated from the code: run `make schema` after a change.

Settings come from the environment, or from a TOML file that `NOETL_CONFIG` names. The file has the same names in lower
case without `NOETL_`, such as `pool_size = 32`; the environment takes precedence. An empty setting counts as absent.

```sh
noetl-graphql check-config
```

reports every invalid or missing setting at once, and exits with code 2 if there is one. `serve` and `migrate` do the
same check before they connect to anything. `check-config` also names variables of the environment that begin with
`NOETL_` and are not settings; they may be misspelled. The view System of the console, and `{ server { settings { name
value isDefault } } }`, show the numbers, flags and choices that a replica uses.
"
    .to_owned();
    for (title, settings) in config::describe() {
        let _ = write!(page, "\n## {title}\n\n| setting | default | allowed | meaning |\n|---|---|---|---|\n");
        for setting in settings {
            let allowed = setting.allowed.as_deref().unwrap_or_default();
            row(&mut page, &[&format!("`{}`", setting.name), &setting.default, allowed, setting.meaning]);
        }
    }
    page
}

fn yes(condition: bool) -> &'static str {
    if condition { "yes" } else { "no" }
}

fn row(page: &mut String, cells: &[&str]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}
