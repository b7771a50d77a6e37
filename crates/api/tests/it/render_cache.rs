//! Readers share the texts of events, each with its own cursor, and only readers with the same rights do.

use std::sync::Arc;

use async_graphql::parser::parse_query;
use async_graphql::{Variables, value};
use noetl_api::audience::Audience;
use noetl_api::event::render_cache::{Key, MAX_CACHE_BYTES, OVERHEAD, RenderCache, RenderedEvent};
use noetl_api::selection::Selection;
use noetl_auth::principal::{Principal, Role};
use noetl_domain::ids::Id;
use noetl_feed::wire::cursor::{Position, StreamCursor};

fn selection() -> Selection {
    Selection::of(&parse_query("{ a }").unwrap(), &Variables::default()).unwrap()
}

fn key(number: u64) -> Key {
    let audience = Audience::of(selection(), &Principal::local());
    let (position, execution, event) = (at(number), Id::new(1), Id::new(2));
    Key { audience, shard: 0, position, execution, event, partial: false }
}

fn at(sequence: u64) -> Position {
    Position { epoch: 1, sequence }
}

fn rendered(text: &str) -> Arc<RenderedEvent> {
    Arc::new(RenderedEvent::new(&text.into(), "placeholder"))
}

#[test]
fn each_reader_gets_its_own_cursor_in_the_shared_text() {
    let cursors = [at(1), at(2)].map(|other| StreamCursor::unnamed(vec![at(7), other]));
    let text = rendered(r#"{"c":"placeholder","event":{"id":"1"},"d":"placeholder"}"#);
    let plain = rendered(r#"{"event":{"id":"1"}}"#);
    for cursor in cursors.iter().chain(&cursors) {
        let shown = cursor.to_text();
        let whole = format!(r#"{{"c":"{shown}","event":{{"id":"1"}},"d":"{shown}"}}"#);
        assert_eq!(text.with_cursor(cursor), whole);
        assert_eq!(plain.with_cursor(cursor), r#"{"event":{"id":"1"}}"#);
    }
    let failed = value!({ "c": "placeholder", "event": null, "n": 1 });
    let filled = RenderCache::new("placeholder").fill_in(failed, &cursors[0]);
    let shown = cursors[0].to_text();
    assert_eq!(filled, value!({ "c": (shown), "event": null, "n": 1 }));
}

#[test]
fn cached_texts_stay_within_the_byte_limit() {
    // Ten of these texts fit, and nearly fill the cache.
    let text = rendered(&"x".repeat((MAX_CACHE_BYTES / 10 - OVERHEAD) / 2));
    let cache = RenderCache::new("placeholder");
    for number in 0..30 {
        cache.insert(key(number), &text);
        cache.insert(key(number), &text);
    }
    let kept: Vec<u64> = (0..30).filter(|number| cache.get(&key(*number)).is_some()).collect();
    assert_eq!(kept, (20..30).collect::<Vec<u64>>());
}

#[test]
fn texts_are_shared_only_by_readers_with_equal_capabilities_and_tenant() {
    let selection = selection();
    let reader = |role, tenant: Option<&str>| {
        let tenant = tenant.map(Arc::from);
        Audience::of(selection, &Principal { tenant, ..Principal::new("anyone", &[role]) })
    };
    let viewer = reader(Role::Viewer, None);
    assert_eq!(viewer, Audience::of(selection, &Principal::new("another", &[Role::Viewer])));
    assert_ne!(viewer, reader(Role::Operator, None));
    assert_ne!(viewer, reader(Role::Viewer, Some("acme")));
    let key_of = |audience| Key { audience, ..key(1) };
    let cache = RenderCache::new("placeholder");
    cache.insert(key_of(viewer.clone()), &rendered("1"));
    assert!(cache.get(&key_of(viewer)).is_some());
    assert!(cache.get(&key_of(reader(Role::Operator, None))).is_none());
}
