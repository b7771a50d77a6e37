//! Trusted documents: extracted from files by the command line, enforced by the server for callers without the
//! capability to send others.

use std::path::Path;
use std::process::Output;

use noetl_testkit::binary;
use noetl_testkit::{Deployment, TokenFile, http_client};
use serde_json::{Value, json};
use tokio::process::Command;

async fn extract(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(["documents", "extract"]).arg(folder).args(options).env_clear().output().await.unwrap()
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(folder.join("deeper")).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

const FILES: [(&str, &str); 3] = [
    ("version.graphql", "query Version { server { ...Server } }\nquery Caller { viewer { subject } }\n"),
    ("deeper/fragments.gql", "fragment Server on ServerInfo { version }\nfragment Unused on ServerInfo { version }\n"),
    ("notes.txt", "query Notes { not read }"),
];

#[tokio::test]
async fn operations_are_extracted_with_their_fragments_and_reproducibly() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(one.path(), &FILES);
    // The same definitions in files with other names.
    write(other.path(), &[("b.graphql", FILES[0].1), ("a.graphql", FILES[1].1)]);
    let manifests = [extract(one.path(), &[]).await, extract(other.path(), &[]).await];
    assert!(manifests.iter().all(|output| output.status.success()), "{manifests:?}");
    assert_eq!(manifests[0].stdout, manifests[1].stdout);
    let manifest: serde_json::Map<String, Value> = serde_json::from_slice(&manifests[0].stdout).unwrap();
    let texts: Vec<&str> = manifest.values().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().any(|text| text.contains("query Version") && text.contains("fragment Server")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("Unused")), "{texts:?}");

    let apollo = extract(one.path(), &["--format", "apollo"]).await;
    let apollo: Value = serde_json::from_slice(&apollo.stdout).unwrap();
    assert_eq!(apollo["operations"][1]["name"], "Version");
    assert!(manifest.contains_key(apollo["operations"][1]["id"].as_str().unwrap()));
}

#[tokio::test]
async fn all_problems_of_the_files_are_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("a.graphql", "query A { server { version } }\nquery Missing { server { ...Nowhere } }"),
            ("b.graphql", "query A { server { version } }\n{ server { version } }"),
            ("c.graphql", "query Wrong { server { noSuchField } }"),
            ("d.graphql", "query Broken {"),
        ],
    );
    let output = extract(folder.path(), &[]).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty());
    for expected in ["Nowhere", "b.graphql: A is defined in", "no name", "noSuchField", "d.graphql"] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

#[tokio::test]
async fn an_enforced_manifest_admits_only_its_documents_except_for_admins() {
    let (deployment, file, folder) = (Deployment::start(0).await, TokenFile::new(), tempfile::tempdir().unwrap());
    write(folder.path(), &FILES);
    let path = folder.path().join("manifest.json");
    let path = path.to_str().unwrap();
    let output = extract(folder.path(), &["--output", path]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest: serde_json::Map<String, Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();

    let [admin, viewer] = ["admin", "viewer"].map(|role| file.add(&["--role", role]));
    let (name, tokens) = file.setting();
    let settings = [(name, tokens.as_str()), ("NOETL_DOCUMENTS", path), ("NOETL_DOCUMENTS_MODE", "enforce")];
    let server = deployment.replica_with(&settings).await;
    let send = async |token: &str, body: Value| {
        let request = http_client().post(format!("{}/graphql", server.url)).bearer_auth(token).json(&body);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    for id in manifest.keys() {
        let response = send(&viewer, json!({ "documentId": id })).await;
        assert!(response.get("errors").is_none() && response["data"].is_object(), "{response}");
    }
    let free = json!({ "query": "{ viewer { subject } }" });
    assert_eq!(send(&viewer, free.clone()).await["errors"][0]["extensions"]["code"], "DOCUMENT_NOT_TRUSTED");
    assert_eq!(send(&admin, free).await.get("errors"), None);

    for (settings, named) in [
        (&[("NOETL_DOCUMENTS_MODE", "enforce")][..], "NOETL_DOCUMENTS_MODE needs"),
        (&[("NOETL_DOCUMENTS", "/nowhere/manifest.json")], "NOETL_DOCUMENTS names"),
        (&[("NOETL_DOCUMENTS", path), ("NOETL_DOCUMENTS_MODE", "strict")], "NOETL_DOCUMENTS_MODE is"),
    ] {
        let mut command = deployment.command("check-config");
        let output = command.envs(settings.iter().copied()).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{settings:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(named), "{settings:?}");
    }
}
