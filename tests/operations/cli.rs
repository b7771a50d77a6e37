//! The command line: all wrong settings are reported together before any other work, and `dev` needs no other servers.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use nix::sys::signal::Signal;
use noetl_testkit::{Deployment, Server, WAIT_TIMEOUT, binary, eventually, repository};
use serde_json::{Value, json};
use tokio::process::Command;

async fn check_config(settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.arg("check-config").env_clear().envs(settings.iter().copied()).output().await.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn all_wrong_settings_are_reported_together() {
    let wrong = [
        ("NOETL_HOST", "nowhere"),
        ("NOETL_PORT", "65536"),
        ("NOETL_SHARDS", "postgres://a@h/one,mysql://secret:word@h/two"),
        ("NOETL_POOL_SIZE", "0"),
        ("NOETL_NATS_URL", "http://h:-1"),
        ("NOETL_SERVER_MACHINE_ID", "-1"),
        ("NOETL_EVENT_STREAM_ENABLED", "maybe"),
        ("NOETL_EVENT_STREAM_BATCH", "0"),
        ("NOETL_EVENT_STREAM_POLL_MS", "soon"),
        ("NOETL_EVENT_STREAM_BACKFILL", "2"),
        ("NOETL_EVENT_STREAM_DEDUP_SECS", "1.5"),
        ("NOETL_EVENT_STREAM_RETENTION_SECS", "99999999999"),
        ("NOETL_EVENT_RETENTION_DAYS", "0"),
    ];
    let output = check_config(&wrong).await;
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    for name in wrong.iter().map(|(name, _)| *name).chain(["NOETL_CLUSTER_DSN"]) {
        assert!(said.contains(&format!("- {name}")), "{name} is not named in: {said}");
    }
    assert!(!said.contains("word"), "a password is repeated: {said}");
}

#[tokio::test]
async fn environment_variables_take_precedence_over_the_settings_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noetl.toml");
    let file = path.to_str().unwrap();
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(
        "cluster_dsn = 'postgres://noetl@h/cluster'\nshards = ['postgres://noetl@h/a', 'postgres://noetl@h/b']\n\
         nats_url = 'nats://h:4222'\nport = 99999\nevent_stream_backfill = true\n",
    );
    let output = check_config(&[("NOETL_CONFIG", file)]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("- NOETL_PORT"), "{}", said(&output));
    let output = check_config(&[("NOETL_CONFIG", file), ("NOETL_PORT", "0"), ("NOETL_PROT", "1")]).await;
    assert!(output.status.success(), "{}", said(&output));
    let expected = "the settings are valid\nignored, because it is not a setting: NOETL_PROT\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

    write("prot = 1\nhost = { a = 1 }\n");
    let output = check_config(&[("NOETL_CONFIG", file)]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("prot") && said(&output).contains("host"), "{}", said(&output));
    for (text, file) in [("= 1", file), ("", "/nowhere/noetl.toml")] {
        write(text);
        let output = check_config(&[("NOETL_CONFIG", file)]).await;
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains("NOETL_CONFIG"), "{}", said(&output));
    }
}

async fn serve(deployment: &Deployment, settings: &[(&str, &str)]) -> Output {
    let mut command = deployment.command("serve");
    command.envs(settings.iter().copied());
    let ended = tokio::time::timeout(noetl_testkit::WAIT_TIMEOUT, command.output());
    ended.await.expect("the server started although it must not").unwrap()
}

/// Serving databases without migrations fails with an instruction.
async fn databases_without_migrations_are_refused(deployment: &Deployment) {
    let output = serve(deployment, &[]).await;
    assert!(!output.status.success());
    let instruction = "run `noetl-graphql migrate` with the same settings and the role that owns the databases";
    assert!(said(&output).contains(instruction), "{}", said(&output));
    assert!(output.stdout.is_empty(), "the server announced an address");
}

#[tokio::test]
async fn databases_without_migrations_or_in_wrong_places_are_refused() {
    let deployment = Deployment::start(2).await;
    // A deployment that is not a copy has an identity of its own.
    let other = Deployment::unmigrated(2).await;
    Box::pin(databases_without_migrations_are_refused(&other)).await;
    other.migrate().await;
    let [one, two] = &deployment.shard_dsns[..] else { panic!() };
    let swapped = format!("{two},{one}");
    let foreign = format!("{one},{}", other.shard_dsns[1]);
    let wrong: [&[(&str, &str)]; 5] = [
        &[("NOETL_SHARDS", &swapped)],
        &[("NOETL_SHARDS", &foreign)],
        &[("NOETL_SHARDS", one)],
        &[("NOETL_SHARDS", &format!("{one},{two},{one}"))],
        &[("NOETL_CLUSTER_DSN", &other.cluster_dsn)],
    ];
    for settings in wrong {
        let output = serve(&deployment, settings).await;
        assert_eq!(output.status.code(), Some(2), "{settings:?}: {}", said(&output));
        assert!(said(&output).contains("NOETL_SHARDS"), "{settings:?}: {}", said(&output));
    }
    deployment.replica().await;
}

/// Starts `dev` with a number of shards and its data in the given folder.
async fn dev(data: &Path, shards: &str) -> Server {
    let mut command = Command::new(binary());
    command.args(["dev", "--port", "0", "--shards", shards, "--data-dir"]).arg(data);
    when_ready(command, data).await
}

/// Starts a command `dev` that has its data in the given folder.
async fn when_ready(mut command: Command, data: &Path) -> Server {
    let env = data.join("env");
    let _ = std::fs::remove_file(&env);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let port = eventually("dev serves", async || {
        let text = std::fs::read_to_string(&env).ok()?;
        let line = text.lines().find_map(|line| line.split_once("NOETL_PORT="))?;
        line.1.trim_matches(['\'', '"']).parse::<u16>().ok()
    })
    .await;
    Server::when_ready(child, format!("http://127.0.0.1:{port}")).await
}

const LISTS: &str =
    "{ catalogEntries { nodes { path } } executions { nodes { id } } subscriptions { nodes { path } } }";

#[tokio::test]
async fn dev_serves_samples_keeps_its_data_and_does_not_collide() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let data = folders.each_ref().map(|folder| folder.path().join("data"));
    let (one, other) = tokio::join!(dev(&data[0], "2"), dev(&data[1], "1"));
    assert_ne!(one.url, other.url);
    let lists = one.data(LISTS, Value::Null).await;
    let paths: Vec<&str> =
        lists["catalogEntries"]["nodes"].as_array().unwrap().iter().filter_map(|node| node["path"].as_str()).collect();
    assert_eq!(paths, ["samples/orders/inbox", "samples/orders/process", "samples/reports/daily"]);
    assert_eq!(one.register("samples/orders/inbox").await["userErrors"], json!([]));
    let executed = one.execute(json!({ "path": "samples/orders/process" })).await;
    assert_eq!(executed["outcome"], "STARTED", "{executed}");
    let kept = one.data(LISTS, Value::Null).await;
    assert_eq!(other.data(LISTS, Value::Null).await["executions"]["nodes"], json!([]));

    one.signal(Signal::SIGINT);
    assert!(one.stop().await.success());
    assert_eq!(other.data(LISTS, Value::Null).await["executions"]["nodes"], json!([]), "the other one continues");
    let again = dev(&data[0], "2").await;
    assert_eq!(again.data(LISTS, Value::Null).await, kept);
}

/// Gives the program another path. A copy is made by another process: if this one wrote the file, a process that
/// another test starts could hold it open for writing, and the program could not be started (ETXTBSY).
async fn link_program(path: &Path) {
    if std::fs::hard_link(binary(), path).is_err() {
        let copied = Command::new("cp").arg(binary()).arg(path).status().await.unwrap();
        assert!(copied.success(), "{}", path.display());
    }
}

/// The archive of a release has no other program, and its user may have neither Rust nor Node. The API has the version of
/// the program.
#[tokio::test]
async fn the_program_alone_starts_everything_serves_the_console_and_runs_the_demo() {
    // The user of PostgreSQL must be able to open the folder.
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
    let (program, home) = (folder.path().join("noetl-graphql"), folder.path().join("home"));
    link_program(&program).await;
    std::fs::create_dir(&home).unwrap();
    std::fs::write(
        folder.path().join("orders"),
        "{\"id\": \"o1\", \"items\": [\"x\"]}\n{\"id\": \"o2\", \"items\": []}\n",
    )
    .unwrap();
    let alone = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        // PATH has no program: those of PostgreSQL and NATS are found in the folders of their packages.
        command.args(arguments).env_clear().env("PATH", &home).env("HOME", &home).current_dir(folder.path());
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let server = when_ready(alone(&["dev", "--port", "0"]), &folder.path().join(".noetl")).await;

    let version = server.data("{ server { version } }", Value::Null).await["server"]["version"].take();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let page = server.get("/").await.unwrap().text().await.unwrap();
    let script = page.split("src=\".").nth(1).and_then(|rest| rest.split('"').next());
    let script = server.get(script.unwrap_or_else(|| panic!("the page has no script: {page}"))).await.unwrap();
    assert!(script.status().is_success(), "{}", script.url());
    let demo = alone(&["demo", "--pace", "1", "--source", "orders", "--url", &server.url]).output();
    let demo = tokio::time::timeout(WAIT_TIMEOUT, demo).await.unwrap().unwrap();
    assert!(demo.status.success(), "{}", said(&demo));
    let runs =
        server.data("{ executions { nodes { path endedAt } } }", Value::Null).await["executions"]["nodes"].take();
    let runs = runs.as_array().unwrap();
    let has_ended = |run: &Value| run["path"] == "samples/orders/process" && run["endedAt"].is_string();
    assert!(runs.len() == 2 && runs.iter().all(has_ended), "{runs:?}");
    server.signal(Signal::SIGINT);
    assert!(server.stop().await.success());
}

/// `scripts/release` gives the version of a tag to the program and to the name of the archive.
#[tokio::test]
async fn the_program_the_chart_and_the_archive_have_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    let output = Command::new(binary()).arg("--version").output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("noetl-graphql {version}\n"));
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    let lines = [
        ("playground/package.json", format!("  \"version\": \"{version}\",")),
        ("deploy/helm/noetl-graphql/Chart.yaml", format!("version: {version}")),
        ("deploy/helm/noetl-graphql/Chart.yaml", format!("appVersion: {version}")),
    ];
    for (file, line) in lines {
        assert!(read(file).lines().any(|other| other == line), "{file} has no line {line:?}");
    }
    let output = Command::new(repository().join("scripts/release")).arg("name").output().await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let name = String::from_utf8(output.stdout).unwrap();
    assert!(name.starts_with(&format!("noetl-graphql-{version}-")), "{name}");
}

#[tokio::test]
async fn a_reader_that_closes_the_pipe_early_is_no_failure() {
    for command in ["schema", "reference errors", "completions zsh"] {
        let shell = format!("set -o pipefail; \"$0\" {command} | head -n 1");
        let output = Command::new("bash").args(["-c", &shell]).arg(binary()).output().await.unwrap();
        assert!(output.status.success(), "{command}: {}", said(&output));
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1, "{command}");
    }
    let full = "\"$0\" schema >/dev/full";
    let output = Command::new("bash").args(["-c", full]).arg(binary()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the output can't be written"), "{}", said(&output));
}

#[tokio::test]
async fn a_shell_completes_every_command_and_each_command_has_a_manual_page() {
    let help = Command::new(binary()).arg("help").output().await.unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"serve") && commands.contains(&"completions"), "{help}");
    // What bash offers after the name of the program.
    let shell = "source <(\"$0\" completions bash); COMP_WORDS=(noetl-graphql ''); COMP_CWORD=1;
        _noetl__graphql noetl-graphql '' noetl-graphql; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", shell]).arg(binary()).output().await.unwrap();
    let offered = String::from_utf8(output.stdout).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let written = Command::new(binary()).arg("manual").arg(folder.path()).status().await.unwrap();
    assert!(written.success());
    for command in commands {
        assert!(offered.split_whitespace().any(|word| word == command), "bash does not offer {command}: {offered}");
        let page = folder.path().join(format!("noetl-graphql-{command}.1"));
        assert!(command == "help" || page.exists(), "{} does not exist", page.display());
    }
    let missing = Command::new(binary()).args(["manual", "/no/such/folder"]).output().await.unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).contains("the manual pages can't be written"), "{}", said(&missing));
}
