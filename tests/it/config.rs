//! Settings.

use std::time::Duration;

use noetl_domain::execution::StatusSource;
use noetl_domain::outbox::OutboxPolicy;
use noetl_feed::wire::names::Api;
use noetl_graphql::config::{Config, ConfigError, Login, RequiredSettings, Sources};

fn sources(values: &[(&'static str, &str)]) -> Sources {
    Sources::default().with(values.iter().map(|(name, value)| (*name, (*value).to_owned())))
}

/// Returns the configuration of a process that only uses the databases.
fn databases(cluster: &str, shards: &str) -> Result<Config, ConfigError> {
    sources(&[("NOETL_CLUSTER_DSN", cluster), ("NOETL_SHARDS", shards)]).check(RequiredSettings::Databases)
}

fn problems(checked: Result<Config, ConfigError>) -> Vec<String> {
    checked.map_or_else(|ConfigError(problems)| problems, |_| Vec::new())
}

#[test]
fn all_problems_are_reported_together() {
    let wrong = sources(&[
        ("NOETL_PORT", "70000"),
        ("NOETL_BASE_PATH", "noetl/"),
        ("NOETL_SHARDS", "postgres://a/b, nonsense"),
        ("NOETL_EVENT_STREAM_BACKFILL", "perhaps"),
        ("NOETL_EVENT_STREAM_PREFIX", "stage.one"),
        ("NOETL_EVENT_STREAM_MAX_BYTES", "1000"),
        ("NOETL_NATS_JETSTREAM_DOMAIN", "hub.one"),
        ("NOETL_NATS_API_PREFIX", "JS.shared.API.>"),
        ("NOETL_NATS_INBOX_PREFIX", "_INBOX."),
        ("NOETL_SERVER_MACHINE_ID", "1024"),
        ("NOETL_OUTBOX_MAX_ATTEMPTS", "0"),
        ("NOETL_EVENT_RING_MIB", "31"),
        ("NOETL_EXECUTION_STATUS_FROM_STEPS", "steps"),
        ("NOETL_TRACE_URL", "https://jaeger.example/trace"),
    ]);
    let ConfigError(problems) = wrong.check(RequiredSettings::Servers).unwrap_err();
    for name in [
        "NOETL_PORT",
        "NOETL_BASE_PATH",
        "NOETL_SHARDS",
        "NOETL_EVENT_STREAM_BACKFILL",
        "NOETL_EVENT_STREAM_PREFIX",
        "NOETL_EVENT_STREAM_MAX_BYTES",
        "NOETL_NATS_JETSTREAM_DOMAIN",
        "NOETL_NATS_API_PREFIX",
        "NOETL_NATS_INBOX_PREFIX",
        "NOETL_SERVER_MACHINE_ID",
        "NOETL_OUTBOX_MAX_ATTEMPTS",
        "NOETL_EVENT_RING_MIB",
        "NOETL_EXECUTION_STATUS_FROM_STEPS",
        "NOETL_TRACE_URL",
        "NOETL_CLUSTER_DSN",
        "NOETL_NATS_URL",
    ] {
        assert_eq!(problems.iter().filter(|problem| problem.starts_with(name)).count(), 1, "{name}: {problems:?}");
    }
}

#[test]
fn flags_ignore_case_and_absent_settings_have_defaults() {
    let given = sources(&[
        ("NOETL_CLUSTER_DSN", "postgres://noetl@127.0.0.1/noetl"),
        ("NOETL_NATS_URL", "nats://127.0.0.1:4222"),
        ("NOETL_EVENT_STREAM_BACKFILL", "YES"),
        ("NOETL_OUTBOX_RELAY", "Off"),
    ]);
    let config = given.check(RequiredSettings::Servers).unwrap();
    assert_eq!((config.server.host.to_string().as_str(), config.server.port), ("127.0.0.1", 8082));
    assert_eq!(config.server.base_path, "");
    assert!(
        !config.outbox_relay
            && given
                .with([("NOETL_OUTBOX_RELAY", String::new())])
                .check(RequiredSettings::Servers)
                .unwrap()
                .outbox_relay
    );
    assert_eq!(config.outbox, OutboxPolicy { max_attempts: 20, retention: None });
    assert_eq!(config.ring_bytes, 32 << 20);
    assert_eq!(config.databases.unwrap().status_source, StatusSource::End);
    let stream = config.event_stream.unwrap();
    assert!(stream.backfill);
    assert_eq!((stream.batch, stream.poll), (500, Duration::from_millis(500)));
    assert_eq!(stream.stream.dedup, Duration::from_mins(2));
    assert_eq!((config.stream_names.stream(0).as_str(), config.stream_names.api()), ("noetl_events", &Api::Own));
    assert_eq!((stream.stream.max_bytes, config.notifications.max_bytes), (None, None));
    assert_eq!(stream.stream.retention, Duration::from_hours(24));
    assert_eq!(config.telemetry.trace_url, None);
}

#[test]
fn the_url_of_a_trace_is_that_of_a_page_and_contains_the_id_and_no_login() {
    let url = |text: &'static str| {
        sources(&[("NOETL_TRACE_URL", text)]).check(RequiredSettings::Nothing).map(|config| config.telemetry.trace_url)
    };
    for text in ["https://jaeger.example/trace/{traceId}", "http://10.0.0.1:3000/explore?trace={traceId}"] {
        assert_eq!(url(text), Ok(Some(text.to_owned())));
    }
    for text in [
        "javascript:alert('{traceId}')",
        "data:text/html,{traceId}",
        "//jaeger.example/trace/{traceId}",
        "jaeger.example/trace/{traceId}",
        "https://jaeger.example/trace/{traceid}",
        "https://user:a-secret@jaeger.example/trace/{traceId}",
    ] {
        let ConfigError(problems) = url(text).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with("NOETL_TRACE_URL is not"), "{text}: {problems:?}");
        assert!(!problems[0].contains("secret"), "{problems:?}");
    }
}

#[test]
fn the_api_is_that_of_a_domain_or_imported_and_no_prefix_covers_messages() {
    let (prefix, domain) = (("NOETL_NATS_API_PREFIX", "JS.shared.API"), ("NOETL_NATS_JETSTREAM_DOMAIN", "hub"));
    let api = |given: &[(&'static str, &str)]| {
        sources(given).check(RequiredSettings::Nothing).map(|config| config.stream_names.api().clone())
    };
    assert_eq!(api(&[prefix]), Ok(Api::Imported("JS.shared.API".parse().unwrap())));
    assert_eq!(api(&[domain]), Ok(Api::Domain("hub".into())));
    let ConfigError(problems) = api(&[prefix, domain]).unwrap_err();
    assert!(problems.len() == 1 && problems[0].starts_with("NOETL_NATS_API_PREFIX excludes"), "{problems:?}");
    for (name, text) in [
        ("NOETL_NATS_API_PREFIX", "noetl"),
        ("NOETL_NATS_INBOX_PREFIX", "noetl"),
        ("NOETL_NATS_INBOX_PREFIX", "noetl.executions.inbox"),
        ("NOETL_NATS_INBOX_PREFIX", "staging.inbox"),
    ] {
        let ConfigError(problems) = api(&[(name, text), ("NOETL_EVENT_STREAM_PREFIX", "staging")]).unwrap_err();
        let problem = format!("{name} begins as the subjects of messages do");
        assert!(problems.len() == 1 && problems[0].starts_with(&problem), "{text}: {problems:?}");
    }
}

#[test]
fn each_server_of_a_dsn_has_the_login_and_the_parameters() {
    let shards = "postgres://u:a,b@h1:5433,[::1]/d?target_session_attrs=primary&sslmode=require,postgresql://h3, h4/e";
    let databases = databases("postgres://u@h/d?target_session_attrs=any", shards).unwrap().databases.unwrap();
    let addresses = |servers: &[sqlx::postgres::PgConnectOptions]| -> Vec<String> {
        let address = |of: &sqlx::postgres::PgConnectOptions| {
            format!("{} {} {} {:?}", of.get_host(), of.get_port(), of.get_database().unwrap(), of.get_ssl_mode())
        };
        servers.iter().map(address).collect()
    };
    assert_eq!(addresses(&databases.cluster), ["h 5432 d Prefer"]);
    assert_eq!(databases.shards.len(), 2);
    assert_eq!(addresses(&databases.shards[0]), ["h1 5433 d Require", "::1 5432 d Require"]);
    assert_eq!(addresses(&databases.shards[1]), ["h3 5432 e Prefer", "h4 5432 e Prefer"]);
    assert!(databases.shards[0].iter().all(|options| options.get_username() == "u"));
}

#[test]
fn servers_that_can_not_be_written_and_other_forms_are_refused() {
    for (dsn, expected) in [
        ("postgres://h1,h2/d?target_session_attrs=prefer-standby", "target_session_attrs"),
        ("postgres://h/d?target_session_attrs=readwrite", "read-write, primary or any"),
        ("postgres:///d?host=h1,h2", "not a PostgreSQL URL"),
        ("postgres://h1:5432,h2:port/d", "not a PostgreSQL URL"),
        ("http://h1,h2/d", "not a PostgreSQL URL"),
    ] {
        let problems = problems(databases(dsn, ""));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{dsn}: {problems:?}");
    }
}

#[test]
fn wrong_logins_and_files_are_reported_together_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (seed, pem) = (file("seed", "SUAhem-a-secret"), file("pem", "a-secret"));
    let found = problems(
        sources(&[
            ("NOETL_CLUSTER_DSN", "postgres://a/b"),
            ("NOETL_NATS_URL", "nats://user:a-secret@broker"),
            ("NOETL_NATS_CREDENTIALS", &seed),
            ("NOETL_NATS_NKEY", &seed),
            ("NOETL_NATS_ROOT_CERTIFICATE", &pem),
            ("NOETL_NATS_CERTIFICATE", &pem),
        ])
        .check(RequiredSettings::Servers),
    );
    assert_eq!(found.len(), 5, "{found:?}");
    let about = |start: &str| found.iter().filter(|problem| problem.starts_with(start)).count();
    assert_eq!(about("NOETL_NATS_CREDENTIALS names a file"), 1, "{found:?}");
    assert_eq!(about("NOETL_NATS_NKEY names a file"), 1, "{found:?}");
    assert_eq!(about("NOETL_NATS_ROOT_CERTIFICATE names"), 1, "{found:?}");
    assert_eq!(about("NOETL_NATS_CERTIFICATE is set without NOETL_NATS_KEY"), 1, "{found:?}");
    assert_eq!(about("NOETL_NATS_CREDENTIALS and NOETL_NATS_NKEY and NOETL_NATS_URL each"), 1, "{found:?}");
    assert!(!found.concat().contains("a-secret"), "{found:?}");
}

#[test]
fn login_is_removed_from_addresses_and_debug_output() {
    let given = sources(&[
        ("NOETL_CLUSTER_DSN", "postgres://a/b"),
        ("NOETL_NATS_URL", "tls://user:p%40ss@one:4333,nats://two"),
    ]);
    let broker = given.check(RequiredSettings::Servers).unwrap().broker;
    let addresses: Vec<_> = broker.addresses.iter().map(async_nats::ServerAddr::as_url_str).collect();
    assert_eq!(addresses, ["tls://one:4333", "nats://two"]);
    assert!(
        broker.tls
            && matches!(&broker.login, Some(Login::Password(user, password)) if user == "user" && password == "p@ss")
    );
    assert!(!format!("{broker:?}").contains("p@ss"));
}

#[test]
fn missing_and_unused_certificates_are_reported() {
    let missing = problems(databases(
        "postgres://u:secret@h/d?sslmode=verify-full&sslrootcert=/not%2Fthere.pem&sslcert=/c.pem",
        "",
    ));
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("sslrootcert of NOETL_CLUSTER_DSN names /not/there.pem:"), "{missing:?}");
    assert!(missing[1].contains("one of sslcert and sslkey"), "{missing:?}");
    assert!(!missing.concat().contains("secret"), "{missing:?}");
    let pem = tempfile::NamedTempFile::new().unwrap();
    let certificate = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap().cert.pem();
    std::fs::write(pem.path(), certificate).unwrap();
    let with =
        |mode: &str| problems(databases(&format!("postgres://h/d?{mode}sslrootcert={}", pem.path().display()), ""));
    assert_eq!(with("sslmode=verify-full&"), [""; 0]);
    assert!(with("")[0].contains("add sslmode=verify-full"));
}
