//! The document of a source subscription is accepted and refused as NoETL's server does, and an error names the field.

use noetl_domain::document::Document;
use noetl_domain::document::field::{Choice, InvalidField};
use noetl_domain::document::ingress::Verification;
use noetl_domain::document::spool::{SpoolBackend, SpoolMode, SpoolOrdering};
use noetl_domain::document::subscription::{Activation, Dedup, Dispatch, Limits, Mode, Source, SubscriptionSpec};
use noetl_domain::labels::Labels;
use serde_json::json;

fn read(spec: &str) -> Result<SubscriptionSpec, InvalidField> {
    Document::parse(&format!("kind: Subscription\nspec: {spec}")).unwrap().subscription()
}

/// Returns a pull subscription with one more setting.
fn pull_with(setting: &str) -> String {
    format!("{{ source: nats, mode: pull, dispatch: {{ playbook: p }}, {setting} }}")
}

/// Returns a push subscription with this ingress.
fn push_with(ingress: &str) -> String {
    format!("{{ source: webhook, mode: push, dispatch: {{ playbook: p }}, ingress: {ingress} }}")
}

#[test]
fn settings_of_a_pull_subscription_are_read() {
    let spec = read(
        "{ source: pubsub, mode: pull, auth: a, subscription: projects/a/subscriptions/b,
           dispatch: { playbook: a/b, payload_from: message.json, execution_pool: iot, batch_dispatch: true,
                       batch_max: 200, labels: { team: a, count: 5, Upper: b } },
           dedup: { enabled: true, window_secs: 600 }, limits: { max_in_flight: 1000, max_dispatch_per_sec: 200 },
           headers: { directives: [{ header: x-noetl-pool, controls: dispatch.execution_pool, allowed: [iot] }] },
           spool: { mode: buffer_and_ack, backend: local_disk, path: /tmp/s, ordering: none,
                    circuit: { trip_after: 3 } } }",
    )
    .unwrap();
    assert_eq!(
        (spec.source, spec.mode, spec.activation),
        (Some(Choice::of(Source::Pubsub)), Some(Choice::of(Mode::Pull)), Some(Choice::of(Activation::Continuous)))
    );
    let dispatch = Dispatch {
        playbook: Some("a/b".to_owned()),
        execution_pool: Some("iot".to_owned()),
        batch_dispatch: true,
        batch_max: Some(200),
        labels: Labels::read(&json!({ "team": "a", "count": "5" })),
    };
    assert_eq!(spec.dispatch, dispatch);
    assert_eq!(spec.dedup, Dedup { enabled: true, window_seconds: Some(600) });
    assert_eq!(spec.limits, Limits { max_in_flight: Some(1000), max_dispatch_per_second: Some(200) });
    assert_eq!(
        (spec.directives[0].header.as_str(), spec.directives[0].allowed.as_slice()),
        ("x-noetl-pool", &["iot".to_owned()][..])
    );
    let spool = spec.spool.unwrap();
    assert_eq!(
        (spool.mode, spool.backend),
        (Choice::of(SpoolMode::BufferAndAck), Some(Choice::of(SpoolBackend::LocalDisk)))
    );
    assert_eq!((spool.path.as_deref(), spool.ordering), (Some("/tmp/s"), Some(Choice::of(SpoolOrdering::Unordered))));
}

#[test]
fn every_verification_of_a_push_subscription_is_read() {
    for (verify, expected) in [
        (
            "{ type: hmac_sha256, header: h, secret: s }",
            Verification::HmacSha256 { header: "h".to_owned(), secret: "s".to_owned() },
        ),
        ("{ type: bearer, secret: s }", Verification::Bearer { secret: "s".to_owned() }),
        (
            "{ type: pubsub_oidc, audience: a, service_account: b }",
            Verification::PubsubOidc { audience: "a".to_owned(), service_account: "b".to_owned() },
        ),
    ] {
        let spec = read(&push_with(&format!("{{ gateway_path: /in/a, verify: {verify} }}"))).unwrap();
        let ingress = spec.ingress.unwrap();
        assert_eq!((ingress.gateway_path.as_str(), ingress.verification), ("/in/a", expected));
        assert_eq!(spec.activation, None);
    }
}

#[test]
fn what_noetl_accepts_is_accepted() {
    for spec in [
        "{ source: kafka, mode: pull, dispatch: { playbook: p } }".to_owned(),
        pull_with("activation: scheduled"),
        // NoETL compares only texts with its lists of names.
        pull_with("activation: 5"),
        pull_with("spool: { mode: off }"),
        pull_with("spool: {}"),
        pull_with("spool: { mode: off, backend: unknown, ordering: unknown }"),
        pull_with("spool: { mode: hybrid, backend: gcs, bucket: b }"),
        pull_with(
            "spool: { mode: hybrid, backend: s3, bucket: b, ordering: global, drain: { on_recovery: ordered_then_live } }",
        ),
        pull_with("spool: { mode: hybrid, bucket: b, ordering: per_key, drain: { on_recovery: interleave } }"),
        pull_with("dedup: {}"),
        pull_with("limits: {}"),
        pull_with("headers: {}"),
        pull_with("headers: { directives: [] }"),
        pull_with("ingress: { gateway_path: relative }"),
        pull_with("stream: S, consumer: C, auth: a"),
        push_with("{ gateway_path: /a, verify: { type: bearer, secret: s } }, activation: bogus"),
        "{ source: nats, mode: pull, dispatch: { playbook: p, execution_pool: 5, batch_max: 1 } }".to_owned(),
    ] {
        assert!(read(&spec).is_ok(), "{spec}: {:?}", read(&spec));
    }
}

#[test]
fn what_noetl_refuses_is_refused_with_its_field() {
    let dispatch = |dispatch: &str| format!("{{ source: nats, mode: pull, dispatch: {dispatch} }}");
    let verify = |verify: &str| push_with(&format!("{{ gateway_path: /a, verify: {verify} }}"));
    for (spec, place) in [
        (String::new(), "source"),
        ("text".to_owned(), "source"),
        ("{ source: rabbitmq, mode: pull, dispatch: { playbook: p } }".to_owned(), "source"),
        ("{ source: NATS, mode: pull, dispatch: { playbook: p } }".to_owned(), "source"),
        ("{ source: nats, dispatch: { playbook: p } }".to_owned(), "mode"),
        ("{ source: nats, mode: streaming, dispatch: { playbook: p } }".to_owned(), "mode"),
        (pull_with("activation: bogus"), "activation"),
        ("{ source: nats, mode: pull }".to_owned(), "dispatch.playbook"),
        (dispatch("{}"), "dispatch.playbook"),
        (dispatch("{ playbook: '' }"), "dispatch.playbook"),
        (dispatch("{ playbook: p, batch_dispatch: 1 }"), "dispatch.batch_dispatch"),
        (dispatch("{ playbook: p, batch_dispatch: }"), "dispatch.batch_dispatch"),
        (dispatch("{ playbook: p, batch_max: 0 }"), "dispatch.batch_max"),
        (dispatch("{ playbook: p, batch_max: 1001 }"), "dispatch.batch_max"),
        (dispatch("{ playbook: p, batch_max: 2.5 }"), "dispatch.batch_max"),
        (pull_with("dedup: 5"), "dedup"),
        (pull_with("dedup: { enabled: 'yes' }"), "dedup.enabled"),
        (pull_with("dedup: { enabled: yes }"), "dedup.enabled"),
        (pull_with("dedup: { window_secs: 0 }"), "dedup.window_secs"),
        (pull_with("dedup: { window_secs: -1 }"), "dedup.window_secs"),
        (pull_with("limits: []"), "limits"),
        (pull_with("limits: { max_in_flight: 0 }"), "limits.max_in_flight"),
        (pull_with("limits: { max_dispatch_per_sec: few }"), "limits.max_dispatch_per_sec"),
        (pull_with("headers: []"), "headers"),
        (pull_with("headers: { directives: {} }"), "headers.directives"),
        (
            pull_with("headers: { directives: [{ header: h, controls: c }, { controls: c }] }"),
            "headers.directives[1].header",
        ),
        (pull_with("headers: { directives: [{ header: h }] }"), "headers.directives[0].controls"),
        (pull_with("spool: on"), "spool"),
        (pull_with("spool: { mode: bogus }"), "spool.mode"),
        (pull_with("spool: { mode: hybrid }"), "spool.bucket"),
        (pull_with("spool: { mode: hybrid, backend: tape }"), "spool.backend"),
        (pull_with("spool: { mode: hybrid, backend: gcs }"), "spool.bucket"),
        (pull_with("spool: { mode: hybrid, backend: local_disk, bucket: b }"), "spool.path"),
        (pull_with("spool: { mode: hybrid, bucket: b, ordering: random }"), "spool.ordering"),
        (
            pull_with("spool: { mode: hybrid, bucket: b, ordering: global, drain: { on_recovery: interleave } }"),
            "spool.drain.on_recovery",
        ),
        ("{ source: webhook, mode: push, dispatch: { playbook: p } }".to_owned(), "ingress.gateway_path"),
        (push_with("{ gateway_path: a, verify: { type: bearer, secret: s } }"), "ingress.gateway_path"),
        (push_with("{ gateway_path: /a }"), "ingress.verify.type"),
        (verify("{ type: none }"), "ingress.verify.type"),
        (verify("{ type: bearer }"), "ingress.verify.secret"),
        (verify("{ type: hmac_sha256, secret: s }"), "ingress.verify.header"),
        (verify("{ type: hmac_sha256, header: h, secret: '' }"), "ingress.verify.secret"),
        (verify("{ type: pubsub_oidc, service_account: a }"), "ingress.verify.audience"),
        (verify("{ type: pubsub_oidc, audience: a }"), "ingress.verify.service_account"),
    ] {
        let refused = read(&spec).expect_err(&spec);
        assert_eq!(refused.place, format!("spec.{place}"), "{spec}: {refused}");
    }
}

#[test]
fn unknown_names_are_accepted_only_in_a_stored_document() {
    for spec in [
        "{ source: sqs, mode: pull, dispatch: { playbook: p } }",
        "{ source: nats, mode: both, dispatch: { playbook: p } }",
        &pull_with("activation: weekly"),
        &pull_with("spool: { mode: mirror, bucket: b }"),
        &pull_with("spool: { mode: hybrid, backend: tape }"),
        &push_with("{ gateway_path: /a, verify: { type: mtls } }"),
    ] {
        assert!(read(spec).is_err(), "{spec}");
        let document = Document::parse(&format!("kind: Subscription\nspec: {spec}")).unwrap();
        let stored = document.stored_subscription().unwrap();
        assert_eq!(stored.dispatch.playbook.as_deref(), Some("p"), "{spec}");
    }
    let document = Document::parse("spec: { source: sqs, mode: both, dispatch: { playbook: p } }").unwrap();
    let stored = document.stored_subscription().unwrap();
    assert_eq!(stored.source, Some(Choice { name: "sqs".to_owned(), known: None }));
    assert_eq!(stored.mode, Some(Choice { name: "both".to_owned(), known: None }));
    let push = format!("spec: {}", push_with("{ gateway_path: /a, verify: { type: mtls } }"));
    let ingress = Document::parse(&push).unwrap().stored_subscription().unwrap().ingress.unwrap();
    assert_eq!(ingress.verification, Verification::Other { scheme: "mtls".to_owned() });
}

#[test]
fn an_error_says_what_is_expected() {
    let refused = read(&pull_with("activation: never")).unwrap_err();
    assert_eq!(refused.to_string(), "spec.activation must be one of: continuous, scheduled");
    let refused = read("{ source: nats, mode: pull, dispatch: { playbook: p, batch_max: 2000 } }").unwrap_err();
    assert_eq!(refused.to_string(), "spec.dispatch.batch_max must be at most 1000");
}

#[test]
fn the_short_form_is_read_and_never_refused() {
    let short = |text: &str| Document::parse(text).unwrap().subscription().unwrap();
    let full =
        short("kind: subscription\nsource: { type: nats, subject: a }\nplaybook: a/b\ndedup: { window_secs: 9 }");
    assert_eq!((full.source, full.mode), (Some(Choice::of(Source::Nats)), None));
    assert_eq!(full.dispatch.playbook.as_deref(), Some("a/b"));
    assert_eq!(full.dedup, Dedup { enabled: true, window_seconds: Some(9) });
    for text in ["kind: subscription", "source: cron\nplaybook: 5\ndedup: { window_secs: 0 }", "dedup: off"] {
        assert_eq!(short(text), SubscriptionSpec::default(), "{text}");
    }
}
