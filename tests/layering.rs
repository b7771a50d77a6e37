//! The dependencies between the modules of the workspace. The tests read all paths in the sources, follow re-exports to
//! the file that defines an item, and fail on dependencies that are not allowed. Other tests find unit tests and examples
//! that would never run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use noetl_testkit::repository;
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Macro, MetaList, UseTree, Visibility};

/// The crates of the workspace that count as layers, with their folders.
const CRATES: [(&str, &str); 13] = [
    ("noetl_graphql", "src"),
    ("noetl_api", "crates/api/src"),
    ("noetl_auth", "crates/auth/src"),
    ("noetl_domain", "crates/domain/src"),
    ("noetl_feed", "crates/feed/src"),
    ("noetl_runtime", "crates/runtime/src"),
    ("noetl_service", "crates/service/src"),
    ("noetl_storage", "crates/storage/src"),
    ("noetl_use_cases", "crates/use-cases/src"),
    ("noetl_local", "crates/local/src"),
    ("graphql_transport", "crates/graphql-transport/src"),
    ("plain_json", "crates/json/src"),
    ("noetl_testkit", "crates/testkit/src"),
];

/// Layers, and what each may use of the other layers and crates: crates, or modules of `src/` and of crates. The crate
/// `plain_json` is for every layer. The innermost layer counts, so `noetl_feed::publish` and `noetl_feed::read` may not
/// use each other. A module of `src/` that is not listed (`app`, `commands`) may use everything.
const LAYERS: &[(&str, &[&str])] = &[
    ("noetl_auth", &[]),
    (
        "config",
        &[
            "noetl_auth::bearer",
            "noetl_auth::oidc",
            "noetl_auth::tokens",
            "noetl_feed::publish",
            "noetl_feed::wire",
            "graphql_transport::trusted",
            "noetl_domain",
        ],
    ),
    // The version of the program is in the root.
    ("telemetry", &["config", "graphql_transport", "noetl_graphql", "noetl_runtime"]),
    ("noetl_runtime", &["noetl_domain"]),
    ("noetl_use_cases", &["noetl_domain", "noetl_runtime::coalesce", "noetl_storage"]),
    ("noetl_service", &["noetl_domain", "noetl_runtime", "noetl_storage", "noetl_use_cases"]),
    ("noetl_feed", &["noetl_domain", "noetl_feed::wire", "noetl_runtime"]),
    ("noetl_feed::wire", &["noetl_domain"]),
    (
        "noetl_feed::publish",
        &["noetl_feed::wake_ups", "noetl_feed::wire", "noetl_domain", "noetl_storage", "noetl_runtime"],
    ),
    (
        "noetl_feed::read",
        &["noetl_feed::wire", "noetl_domain", "noetl_storage", "noetl_runtime::causes", "noetl_runtime::clock"],
    ),
    (
        "tasks",
        &["noetl_feed::wire", "noetl_domain", "noetl_runtime", "noetl_service", "noetl_storage", "noetl_use_cases"],
    ),
    // Resolvers: use cases return rows of the storage layer and values of the domain.
    (
        "noetl_api",
        &[
            "noetl_auth::principal",
            "noetl_feed::read",
            "noetl_feed::wire",
            "graphql_transport",
            "noetl_domain",
            "noetl_storage::budget",
            "noetl_storage::catalog",
            "noetl_storage::dedup",
            "noetl_storage::error",
            "noetl_storage::events",
            "noetl_storage::execution_filter",
            "noetl_storage::execution_history",
            "noetl_storage::execution_lists",
            "noetl_storage::executions",
            "noetl_storage::machines",
            "noetl_storage::outbox",
            "noetl_storage::pools",
            "noetl_storage::snapshots",
            "noetl_storage::subscriptions",
            "noetl_storage::tail",
            "noetl_storage::tail_covered",
            "noetl_storage::transactions",
            "noetl_runtime",
            "noetl_use_cases",
        ],
    ),
    ("web", &["noetl_auth::oidc", "graphql_transport"]),
];

/// Modules of `noetl_api` that are the only ones of it with these uses.
const ONLY_IN: &[(&str, &[&str])] = &[
    // Live data and the state of the feed.
    (
        "noetl_feed",
        &[
            "noetl_api::context",
            "noetl_api::event",
            "noetl_api::execution::updates",
            "noetl_api::live",
            "noetl_api::server::event_stream",
            "noetl_api::shared_reads",
            "noetl_api::subscription::updates",
            "noetl_api::updates",
        ],
    ),
    // Its limits, and variables without a value, which only the transport knows.
    ("graphql_transport", &["noetl_api::audit", "noetl_api::context", "noetl_api::guards", "noetl_api::scalars"]),
    // The state of the feed and of the pools needs no use case. It is shown unchanged.
    ("noetl_storage::tail", &["noetl_api::server::event_stream"]),
    ("noetl_storage::transactions", &["noetl_api::server::event_stream"]),
    ("noetl_storage::machines", &["noetl_api::server::replicas"]),
    ("noetl_storage::tail_covered", &["noetl_api::event::stream_cursor"]),
    ("noetl_storage::pools", &["noetl_api::context", "noetl_api::server::event_stream", "noetl_api::server::shards"]),
];

/// A source file.
struct Source {
    file: String,
    /// Paths in the file, relative to its module.
    paths: BTreeSet<Vec<String>>,
    /// Names that a `use` brings into the file, with their paths.
    aliases: BTreeMap<String, Vec<String>>,
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg")) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        self.add_use(&item.tree, &[], is_private);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.add_tokens(&call.tokens.to_string());
        visit::visit_macro(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast MetaList) {
        self.add_tokens(&list.tokens.to_string());
        visit::visit_meta_list(self, list);
    }
}

impl Source {
    /// Adds the names of a `use`. A public `use` is a re-export: it is followed, but it is no use of its own.
    fn add_use(&mut self, tree: &UseTree, before: &[String], is_private: bool) {
        let (name, alias) = match tree {
            UseTree::Path(path) => return self.add_use(&path.tree, &joined(before, &path.ident), is_private),
            UseTree::Group(group) => return group.items.iter().for_each(|item| self.add_use(item, before, is_private)),
            UseTree::Glob(_) => (None, None),
            UseTree::Name(name) => (Some(&name.ident), Some(&name.ident)),
            UseTree::Rename(rename) => (Some(&rename.ident), Some(&rename.rename)),
        };
        let path = name.filter(|name| *name != "self").map_or(before.to_vec(), |name| joined(before, name));
        let alias = alias.filter(|alias| *alias != "self").map(ToString::to_string).or_else(|| path.last().cloned());
        self.aliases.extend(alias.map(|alias| (alias, path.clone())));
        if is_private {
            self.paths.insert(path);
        }
    }

    /// Adds the paths in the arguments of a macro or of an attribute.
    fn add_tokens(&mut self, tokens: &str) {
        let text = tokens.replace(" :: ", "::");
        let paths =
            text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').filter(|path| path.contains("::"));
        self.paths.extend(paths.map(|path| path.split("::").map(str::to_owned).collect()));
    }
}

fn joined(before: &[String], name: &impl ToString) -> Vec<String> {
    [before, &[name.to_string()]].concat()
}

/// The sources of the workspace by module, such as `["noetl_storage", "outbox", "claim"]`.
struct Workspace(BTreeMap<Vec<String>, Source>);

impl Workspace {
    fn read() -> Self {
        let mut sources = BTreeMap::new();
        for (name, folder) in CRATES {
            let root = repository().join(folder);
            for path in rust_files(&root) {
                let inner = path.strip_prefix(&root).unwrap().with_extension("");
                let mut module = vec![name.to_owned()];
                module.extend(inner.iter().map(|part| part.to_str().unwrap().to_owned()));
                module.pop_if(|last| ["lib", "mod"].contains(&last.as_str()));
                let file = format!("{folder}/{}", path.strip_prefix(&root).unwrap().display());
                let mut source = Source { file, paths: BTreeSet::new(), aliases: BTreeMap::new() };
                source.visit_file(&syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap());
                sources.insert(module, source);
            }
        }
        Self(sources)
    }

    /// Returns the modules whose items each module uses.
    fn graph(&self) -> Graph<'_> {
        let used = |module: &[String], source: &Source| {
            let paths = source.paths.iter().filter_map(|path| self.definition(module, path, 0));
            paths.filter(|used| *used != module).collect()
        };
        self.0.iter().map(|(module, source)| (module.as_slice(), used(module, source))).collect()
    }

    /// Returns the module that defines the item of a path, if it is a module of the workspace.
    fn definition(&self, module: &[String], path: &[String], depth: usize) -> Option<&[String]> {
        // A single name can be that of a variable, so it is no path to a child module.
        let is_child = |name: &String| path.len() > 1 && self.0.contains_key(&joined(module, name));
        let inside = |name: &String| is_child(name) || self.0[module].aliases.contains_key(name);
        let (mut found, mut rest) = match path.first()?.as_str() {
            "crate" => (module[..1].to_vec(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => (module[..module.len() - 1].to_vec(), &path[1..]),
            name if CRATES.iter().any(|(of, _)| *of == name) => (path[..1].to_vec(), &path[1..]),
            _ if inside(&path[0]) => (module.to_vec(), path),
            _ => return None,
        };
        while let Some(name) = rest.first() {
            let child = joined(&found, name);
            if name == "super" {
                found.pop();
            } else if self.0.contains_key(&child) {
                found = child;
            } else if let Some(target) = self.0[&found].aliases.get(name).filter(|_| depth < 10) {
                return self.definition(&found, &[target, &rest[1..]].concat(), depth + 1);
            } else {
                break;
            }
            rest = &rest[1..];
        }
        self.0.get_key_value(&found).map(|(module, _)| &**module)
    }
}

type Graph<'a> = BTreeMap<&'a [String], BTreeSet<&'a [String]>>;

/// Adds all modules that a module uses directly or indirectly.
fn add_reachable<'a>(graph: &Graph<'a>, module: &[String], found: &mut BTreeSet<&'a [String]>) {
    for used in &graph[module] {
        if found.insert(used) {
            add_reachable(graph, used, found);
        }
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = |path: PathBuf| if path.is_dir() { rust_files(&path) } else { vec![path] };
    paths.flat_map(files).filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Returns whether a module is the given one or is inside it.
fn is_in(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the innermost layer of a module.
fn layer(module: &str) -> Option<(&'static str, &'static [&'static str])> {
    LAYERS.iter().filter(|(layer, _)| is_in(module, layer)).max_by_key(|(layer, _)| layer.len()).copied()
}

#[test]
fn modules_depend_only_on_the_allowed_layers() {
    let name = |module: &[String]| module.join("::").replace("noetl_graphql::", "");
    let (mut wrong, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for (module, used) in Workspace::read().graph() {
        let module_name = name(module);
        let Some((this, allowed)) = layer(&module_name) else { continue };
        for used in used.into_iter().map(name).filter(|used| !is_in(used, "plain_json")) {
            if layer(&used).is_some_and(|(other, _)| other == this) {
                continue;
            }
            let elsewhere = ONLY_IN.iter().any(|(only, modules)| {
                this == "noetl_api" && is_in(&used, only) && !modules.iter().any(|outer| is_in(&module_name, outer))
            });
            match allowed.iter().find(|allowed| is_in(&used, allowed)) {
                Some(allowed) if !elsewhere => drop(seen.insert((this, *allowed))),
                _ => drop(wrong.insert(format!("{module_name} uses {used}"))),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let listed = LAYERS.iter().flat_map(|(layer, allowed)| allowed.iter().map(|allowed| (*layer, *allowed)));
    let unused: Vec<_> = listed.filter(|arrow| !seen.contains(arrow)).collect();
    assert!(unused.is_empty(), "these dependencies are allowed but not used: {unused:?}");
}

/// The library of such a crate is not compiled for tests, so a unit test in it would never run.
#[test]
fn crates_without_unit_tests_have_no_code_for_tests() {
    let has_no_unit_tests = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("../Cargo.toml")).unwrap();
        let library = manifest.split("\n[").find(|section| section.starts_with("lib]"));
        library.is_some_and(|library| library.lines().any(|line| line == "test = false"))
    };
    let folders = CRATES.iter().map(|(_, folder)| repository().join(folder)).filter(has_no_unit_tests);
    let files: Vec<PathBuf> = folders.flat_map(|folder| rust_files(&folder)).collect();
    assert!(!files.is_empty(), "no manifest has `test = false`");
    let is_for_tests = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        ["cfg(test", "cfg_attr(test", "#[test]", "#[tokio::test"].iter().any(|marker| text.contains(marker))
    };
    let wrong: Vec<PathBuf> = files.into_iter().filter(is_for_tests).collect();
    assert!(wrong.is_empty(), "these files have code for tests, which is never compiled: {wrong:?}");
}

/// nextest does not run the code in documentation, so it is text. The examples are programs.
#[test]
fn documentation_contains_no_code_that_would_never_run() {
    let is_code = |text: &str| {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("//"));
        let fences = lines.filter_map(|line| line.trim_start_matches(['/', '!', ' ']).strip_prefix("```"));
        fences.step_by(2).any(|language| language != "text")
    };
    let files = CRATES.iter().flat_map(|(_, folder)| rust_files(&repository().join(folder)));
    let with_code: Vec<PathBuf> = files.filter(|file| is_code(&fs::read_to_string(file).unwrap())).collect();
    assert!(with_code.is_empty(), "code in the documentation of {with_code:?}");
}

/// A folder's `mod.rs` (or `lib.rs`) may use the files of the folder, and these may use what it defines.
#[test]
fn files_do_not_import_each_other() {
    let workspace = Workspace::read();
    let mut graph = workspace.graph();
    for (module, used) in &mut graph {
        used.retain(|used| !used.starts_with(module));
    }
    let reachable = |module: &[String]| {
        let mut found = BTreeSet::new();
        add_reachable(&graph, module, &mut found);
        found
    };
    let reachable: Graph<'_> = graph.keys().map(|module| (*module, reachable(module))).collect();
    let cycle = |module: &[String]| -> BTreeSet<&str> {
        let others = reachable[module].iter().filter(|other| reachable[*other].contains(module));
        others.map(|other| &*workspace.0[*other].file).collect()
    };
    let cycles: BTreeSet<BTreeSet<&str>> =
        graph.keys().map(|module| cycle(module)).filter(|files| !files.is_empty()).collect();
    assert_eq!(cycles, BTreeSet::new(), "files import each other");
}
