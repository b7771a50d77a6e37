//! All sources read JSON with one decoder.

use noetl_testkit::{repository, sources};
use plain_json as json;

/// Clippy refuses the reading functions of `serde_json`. This test finds the types that these functions must not read.
#[test]
fn every_type_and_query_reads_json_with_the_decoder() {
    let mut found = Vec::new();
    for path in sources().iter().filter(|path| !path.ends_with("json/src/read.rs")) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for derived in text
            .split("#[derive(")
            .skip(1)
            .filter(|derived| derived.split(")]").next().unwrap().contains("Deserialize"))
        {
            let body = derived.split("\n}").next().unwrap().split(");\n").next().unwrap();
            let mut attribute = "";
            for line in body.lines().map(str::trim) {
                let mut names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
                let is_any = names.any(|name| name == "Value" || name == "Map");
                if is_any && line.contains(':') && !attribute.contains("deserialize_with") {
                    found.push(format!("{}: {line}", path.display()));
                }
                attribute = if line.starts_with("#[") { line } else { "" };
            }
        }
    }
    for path in std::fs::read_dir(repository().join(".sqlx")).unwrap() {
        let query = json::read(&std::fs::read_to_string(path.unwrap().path()).unwrap()).unwrap();
        for column in query["describe"]["columns"].as_array().unwrap() {
            if column["type_info"] == "Jsonb" || column["type_info"] == "Json" {
                found.push(format!("{} in {}", column["name"], query["query"]));
            }
        }
    }
    assert!(found.is_empty(), "these read JSON with serde_json::Value: {found:#?}");
}
