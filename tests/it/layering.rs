//! The allowed dependencies between the modules. The test reads the `use` paths from the sources and fails on any other
//! dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules that each layer may use. A layer that is not listed may use everything.
const ARROWS: [(&str, &[&str]); 8] = [
    ("auth", &[]),
    ("runtime", &["config"]),
    ("service", &["domain", "runtime", "storage"]),
    ("feed", &["domain", "runtime", "storage"]),
    ("tasks", &["domain", "feed::wire", "runtime", "service", "storage"]),
    // Resolvers: services return rows of the storage layer and values of the domain.
    (
        "graphql",
        &[
            "auth::principal",
            "domain",
            "feed",
            "runtime",
            "service",
            "storage::budget",
            "storage::catalog",
            "storage::events",
            "storage::executions",
            "storage::snapshots",
            "storage::outbox",
            "storage::subscriptions",
            "storage::error",
            "storage::pools",
            "storage::tail",
        ],
    ),
    ("web", &["transport"]),
    ("config", &["auth::bearer", "auth::oidc", "auth::tokens", "domain", "feed::publish", "transport::trusted"]),
];

/// Dependencies that only the listed files of a layer may have.
const ONLY_HERE: [(&str, &str, &[&str]); 3] = [
    // Live data and the state of the feed.
    (
        "graphql",
        "feed",
        &[
            "graphql/context.rs",
            "graphql/event/inputs.rs",
            "graphql/event/live.rs",
            "graphql/event/render_cache.rs",
            "graphql/event/stream.rs",
            "graphql/execution/changes.rs",
            "graphql/live.rs",
            "graphql/server/event_stream.rs",
            "graphql/subscription/changes.rs",
        ],
    ),
    // The state of the feed and of the pools needs no use case. It is shown unchanged.
    ("graphql", "storage::tail", &["graphql/server/event_stream.rs"]),
    ("graphql", "storage::pools", &["graphql/server/shards.rs"]),
];

/// Crates of the workspace that count as layers.
const CRATES: [(&str, &str); 3] = [
    ("noetl_domain::", "crate::domain::"),
    ("noetl_storage::", "crate::storage::"),
    ("graphql_transport::", "crate::transport::"),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns the modules that a file names after `crate::`, up to two levels deep, such as `storage::tail`. Braces
/// directly after `crate::` or after a layer are expanded. Unit tests at the end of a file are ignored.
fn uses(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let text = CRATES.iter().fold(text.to_owned(), |text, (name, layer)| text.replace(name, layer));
    let mut found = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        for item in items(rest) {
            let mut parts = item.split("::");
            let layer = parts.next().unwrap_or_default().to_owned();
            let below = item.strip_prefix(&format!("{layer}::")).unwrap_or_default();
            let modules = items(below);
            let lower = |name: &&str| name.starts_with(|first: char| first.is_ascii_lowercase());
            let names = modules.iter().map(|module| first_name(module)).filter(lower);
            let mut names = names.map(|module| format!("{layer}::{module}")).peekable();
            match names.peek() {
                Some(_) => found.extend(names),
                None => drop(found.insert(layer)),
            }
        }
    }
    found
}

/// Returns the items of `{a, b::{c, d}}`, or the single path at the start of the text.
fn items(text: &str) -> Vec<&str> {
    let Some(inner) = text.strip_prefix('{') else {
        let path = text.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(text.len());
        let braces = text[path..].starts_with('{').then(|| text[path..].find(';').unwrap_or(text.len() - path));
        return vec![&text[..path + braces.unwrap_or(0)]];
    };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(inner[start..at].trim());
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.retain(|item| !item.is_empty());
    found
}

fn first_name(path: &str) -> &str {
    path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn covers(arrow: &str, used: &str) -> bool {
    used == arrow || used.strip_prefix(arrow).is_some_and(|rest| rest.starts_with("::"))
}

#[test]
fn modules_depend_only_on_the_allowed_layers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.into();
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for path in sources(&root) {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let layer = first_name(&file).to_owned();
        let Some(allowed) = arrows.get(layer.as_str()) else { continue };
        for used in uses(&fs::read_to_string(&path).unwrap()) {
            if first_name(&used) == layer {
                continue;
            }
            let elsewhere = ONLY_HERE.iter().any(|(of, arrow, here)| {
                *of == layer && covers(arrow, &used) && !here.iter().any(|at| file.starts_with(at))
            });
            match allowed.iter().find(|arrow| covers(arrow, &used)) {
                Some(arrow) if !elsewhere => drop(seen.insert((layer.clone(), (*arrow).to_owned()))),
                _ => wrong.push(format!("{file} uses {used}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Every dependency in the table must be in use.
    for (layer, allowed) in ARROWS {
        for arrow in allowed {
            assert!(seen.contains(&(layer.to_owned(), (*arrow).to_owned())), "nothing in {layer} uses {arrow}");
        }
    }
}

#[test]
fn use_paths_are_read_in_every_notation() {
    let text =
        "use noetl_storage::{pools::Database, tail};\nuse noetl_domain::ids::Id;\nfn a() { crate::feed::read::hub::x(); }
        use crate::{config::Config, service::clock};\nuse crate::service::Thing;\n#[cfg(test)] use graphql_transport::no;";
    let expected = [
        "config::config",
        "domain::ids",
        "service",
        "service::clock",
        "storage::pools",
        "storage::tail",
        "stream::hub",
    ];
    let expected: BTreeSet<String> = expected.iter().map(|name| name.replace("config::config", "config")).collect();
    assert_eq!(uses(text), expected);
}
