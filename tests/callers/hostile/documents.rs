//! Hostile documents: fields, fragments, directives and introspection.

use super::corpus::{Corpus, parts};

const INVALID: &str = "GRAPHQL_VALIDATION_FAILED";
const UNPARSABLE: &str = "GRAPHQL_PARSE_FAILED";
const FIELDS: &str = "LIMIT_EXCEEDED fields";
const TOKENS: &str = "LIMIT_EXCEEDED tokens";
const NESTING: &str = "LIMIT_EXCEEDED nesting";

pub fn add(corpus: &mut Corpus) {
    fields(corpus);
    fragments(corpus);
    directives(corpus);
    introspection(corpus);
}

fn fields(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str| corpus.query("fields", name, expected, query);
    // The executor's rule for overlapping fields would produce 12 million errors.
    let arguments = parts(5_900, |_| "a:1".to_owned());
    let repeated = "server ".repeat(1_999);
    add("arguments and repeated fields", TOKENS, &format!("{{ server({arguments}) {repeated} }}"));
    let arguments = parts(2_000, |index| format!("a{index}:1"));
    add("arguments of one field", "LIMIT_EXCEEDED arguments", &format!("{{ server({arguments}) {{ version }} }}"));
    let some = parts(30, |index| format!("a{index}:1"));
    let fields = parts(100, |_| format!("server({some}) {{ version }}"));
    add("as many arguments as allowed", INVALID, &format!("{{ {fields} }}"));
    // CVE-2023-26144: graphql-js compared each pair of fields.
    let equal = "server { version } ".repeat(900);
    add("overlapping fields (CVE-2023-26144)", "ok", &format!("{{ {equal} }}"));
    let nested = "executions { nodes { id } } ".repeat(600);
    add("overlapping lists (CVE-2023-26144)", "ok", &format!("{{ {nested} }}"));
    // CVE-2024-39895: Directus resolved each duplicate of a field.
    let duplicates = "version ".repeat(1_990);
    add("duplicated fields (CVE-2024-39895)", "ok", &format!("{{ server {{ {duplicates} }} }}"));
    add("duplicates beyond the limit", FIELDS, &format!("{{ server {{ {} }} }}", "version ".repeat(2_000)));
    // GHSA-mfj6-6p54-m98c: parse-server limited neither depth nor fields.
    let deep = format!("{} id {}", "nodes { parent { execution { children { ".repeat(7), "} } } }".repeat(7));
    add("depth (GHSA-mfj6-6p54-m98c)", "LIMIT_EXCEEDED depth", &format!("{{ executions {{ {deep} }} }}"));
    add("fields (GHSA-mfj6-6p54-m98c)", FIELDS, &format!("{{ {} }}", "viewer { subject } ".repeat(1_500)));
    let aliases = parts(101, |index| format!("a{index}: server {{ version }}"));
    add("aliases", "LIMIT_EXCEEDED aliases", &format!("{{ {aliases} }}"));
    let aliases = parts(1_999, |index| format!("a{index}: x"));
    add("aliases of unknown fields", "LIMIT_EXCEEDED aliases", &format!("{{ {aliases} }}"));
    add("unknown fields", INVALID, &format!("{{ {} }}", parts(1_990, |index| format!("unknown{index}"))));
    let conflicts = parts(99, |index| format!("x: executions(first: {index}) {{ pageInfo {{ hasNextPage }} }}"));
    add("conflicting arguments", INVALID, &format!("{{ {conflicts} }}"));
    add("conflicting fields", INVALID, &format!("{{ server {{ {} }} }}", "x: version x: instance ".repeat(49)));
    add("long names", INVALID, &format!("{{ {} }}", parts(100, |_| "x".repeat(2_000))));
    add("missing selections", INVALID, &format!("{{ {} }}", "server ".repeat(1_990)));
    add("brackets", "LIMIT_EXCEEDED brackets", &"{a".repeat(5_000));
    add("unclosed", UNPARSABLE, &"{ a ".repeat(60));
    add("only brackets that close", UNPARSABLE, &"} ".repeat(9_000));
    add("operations", "LIMIT_EXCEEDED operations", &parts(2_000, |index| format!("query q{index} {{ x }}")));
    let queries = parts(20, |index| format!("query q{index} {{ ...f }}"));
    let fragment = "fragment f on Query { server { version } }";
    add("operations that share fragments", INVALID, &format!("{queries} {fragment}"));
    add("types", INVALID, &parts(1_000, |index| format!("type T{index} {{ a: Int }}")));
    add("commas and comments", TOKENS, &format!("{{ server {{ version }} }} {}", "#,,,,\n".repeat(40_000)));
    add("lines", INVALID, &format!("{} {{ unknown }}", "\r\n".repeat(100_000)));
    add("characters that are no tokens", UNPARSABLE, &"? ".repeat(9_000));
}

fn fragments(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str| corpus.query("fragments", name, expected, query);
    let bomb = |depth: usize, width: usize, last: &str| {
        let fragments = parts(depth, |index| {
            let spreads = format!("...f{} ", index + 1).repeat(width);
            format!("fragment f{index} on Query {{ {spreads} }}")
        });
        format!("{{ ...f0 }} {fragments} {last}")
    };
    // Validation and the response shape would follow these spreads almost without end.
    add("ten spreads, 24 deep, the last undefined", INVALID, &bomb(24, 10, ""));
    add("ten spreads, 24 deep", FIELDS, &bomb(24, 10, "fragment f24 on Query { server { version } }"));
    add("two spreads, 40 deep", NESTING, &bomb(40, 2, "fragment f40 on Query { server { version } }"));
    add("a chain of 1,000", NESTING, &bomb(1_000, 1, "fragment f1000 on Query { server { version } }"));
    add("a cycle", INVALID, &bomb(24, 10, "fragment f24 on Query { ...f0 }"));
    add(
        "a cycle that is not used",
        INVALID,
        "{ server { version } } fragment a on Query { ...b } fragment b on Query { ...a }",
    );
    add("itself", INVALID, "{ ...a } fragment a on Query { ...a ...a ...a }");
    let cycles = parts(300, |index| format!("fragment f{index} on Query {{ ...f{} }}", (index + 1) % 300));
    add("a cycle of 300", NESTING, &format!("{{ ...f0 }} {cycles}"));
    add("undefined", INVALID, &format!("{{ {} }}", parts(1_990, |index| format!("...f{index}"))));
    let unused = parts(900, |index| format!("fragment f{index} on Query {{ x }}"));
    add("unused", INVALID, &format!("{{ server {{ version }} }} {unused}"));
    let same = "fragment f on Query { server { version } } ".repeat(700);
    add("one name 700 times", INVALID, &format!("{{ ...f }} {same}"));
    // graphql-php took 117 s for 200 times 100 inline fragments.
    let inline = |outer: usize, inner: usize| {
        let inner = "...{x}".repeat(inner);
        format!("{{ {} }}", format!("...{{{inner}}}").repeat(outer))
    };
    add("200 times 100 inline fragments (graphql-php)", TOKENS, &inline(200, 100));
    add("30 times 20 inline fragments", INVALID, &inline(30, 20));
    let within = |depth: usize| format!("{{ {} server {{ version }} {} }}", "... { ".repeat(depth), "} ".repeat(depth));
    add("28 inline fragments within one another", "ok", &within(28));
    add("60 inline fragments within one another", NESTING, &within(60));
    let types = "... on Execution { id } ... on SourceSubscription { id } ".repeat(300);
    add("types of an interface", "ok", &format!("{{ node(id: \"1\") {{ {types} }} }}"));
    add("unknown types", INVALID, &format!("{{ {} }}", parts(900, |index| format!("... on T{index} {{ x }}"))));
    add("impossible types", INVALID, &format!("{{ {} }}", "... on Execution { id } ".repeat(900)));
    let spread = format!("{{ {} }} fragment f on Query {{ server {{ version }} }}", "...f ".repeat(660));
    add("one fragment 660 times", FIELDS, &spread.replace("...f ", "...f ...f "));
    add("one fragment 600 times", "ok", &spread.replacen("...f ", "", 60));
}

fn directives(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str| corpus.query("directives", name, expected, query);
    let on_field = |directives: &str| format!("{{ server {directives} {{ version }} }}");
    add("9,000 on a field", TOKENS, &on_field(&"@a ".repeat(9_000)));
    add("3,000 on a field", "LIMIT_EXCEEDED directives", &on_field(&"@a ".repeat(3_000)));
    add(
        "ten unknown on each field",
        INVALID,
        &format!("{{ {} }}", format!("server {} ", "@a ".repeat(10)).repeat(400)),
    );
    add("repeated", INVALID, &on_field(&"@skip(if: false) ".repeat(10)));
    let arguments = parts(1_000, |index| format!("a{index}: 1"));
    add("arguments", "LIMIT_EXCEEDED arguments", &on_field(&format!("@skip({arguments})")));
    add(
        "on an operation",
        "LIMIT_EXCEEDED directives",
        &format!("query {} {{ server {{ version }} }}", "@a ".repeat(2_000)),
    );
    let variables = format!("query ($a: Int {}) {{ server {{ version }} }}", "@a ".repeat(2_000));
    add("on a variable", "LIMIT_EXCEEDED directives", &variables);
    let skipped = "server @skip(if: true) { version } ".repeat(600);
    add("all fields skipped", "ok", &format!("{{ {skipped} viewer {{ subject }} }}"));
    add("a condition that is no condition", INVALID, &on_field("@include(if: [[[[true]]]])"));
}

fn introspection(corpus: &mut Corpus) {
    let mut add = |name, expected, query: &str| corpus.query("introspection", name, expected, query);
    let circular = |times: usize| {
        let (open, close) = ("fields { type { ".repeat(times), "} } ".repeat(times));
        format!("{{ __schema {{ types {{ {open} name {close} }} }} }}")
    };
    add("types of fields of types", "LIMIT_EXCEEDED cost", &circular(5));
    add("deeper than any tool asks", "LIMIT_EXCEEDED depth", &circular(12));
    let types = parts(101, |index| format!("t{index}: __type(name: \"Query\") {{ name }}"));
    add("types by name", "LIMIT_EXCEEDED aliases", &format!("{{ {types} }}"));
    let of_type = format!("{{ __schema {{ types {{ {} name {} }} }} }}", "ofType { ".repeat(11), "} ".repeat(11));
    add("a type of a type", "ok", &of_type);
    add(
        "the query of common tools",
        "ok",
        include_str!("../../../crates/graphql-transport/tests/it/introspection.graphql"),
    );
    let again = "__schema { types { name } } ".repeat(400);
    add("the schema 400 times", "ok", &format!("{{ {again} }}"));
    add("the name of the type 1,990 times", "ok", &format!("{{ {} }}", "__typename ".repeat(1_990)));
}
