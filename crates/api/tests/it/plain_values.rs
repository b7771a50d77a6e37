//! Values of plain fields in a list that is written at once.

use std::sync::Arc;

use async_graphql::{EmptyMutation, EmptySubscription, Object, Schema, Value};
use chrono::DateTime;
use futures::FutureExt;
use noetl_api::plain::{Items, Plain, PlainValue, Reader};
use noetl_api::scalars::Time;
use noetl_domain::ids::Id;
use proptest::prelude::*;

/// An object with one plain field.
struct Shown(Box<dyn Fn() -> PlainValue<'static> + Send + Sync>);

#[Object]
impl Shown {
    /// Value of the executor, which is not used if the list is written at once.
    async fn value(&self) -> bool {
        false
    }
}

impl Plain for Shown {
    fn plain(&self, _: &str, _: &Reader<'_>) -> Option<PlainValue<'_>> {
        Some((self.0)())
    }
}

struct Lists(Arc<[Shown]>);

#[Object]
impl Lists {
    async fn list(&self) -> Items<Arc<[Shown]>> {
        Items(Arc::clone(&self.0))
    }
}

/// Returns the JSON text of a value.
fn written(value: impl Fn() -> PlainValue<'static> + Send + Sync + 'static) -> String {
    let lists = Lists(Arc::from([Shown(Box::new(value))]));
    let schema = Schema::new(lists, EmptyMutation, EmptySubscription);
    let response = schema.execute("{ list { value } }").now_or_never().expect("no field waits");
    let Value::Object(data) = &response.data else { panic!("{response:?}") };
    let Value::Binary(text) = &data["list"] else { panic!("{response:?}") };
    let text = std::str::from_utf8(text).unwrap();
    text.strip_prefix(r#"[{"value":"#).and_then(|text| text.strip_suffix("}]")).unwrap().to_owned()
}

#[test]
fn values_are_written_as_json() {
    assert_eq!(written(|| None::<&str>.into()), "null");
    assert_eq!(written(|| "a\"\\\n\u{1}ß".into()), "\"a\\\"\\\\\\n\\u0001ß\"");
    assert_eq!(written(|| Id::new(-7).into()), "\"-7\"");
    assert_eq!(
        [written(|| 1.5.into()), written(|| f64::NAN.into()), written(|| i32::MIN.into())],
        ["1.5", "null", "-2147483648"]
    );
}

proptest! {
    #[test]
    fn times_are_written_as_the_executor_writes_them(
        seconds in -70_000_000_000_i64..260_000_000_000,
        (unit, parts) in prop_oneof![
            Just((1_000_000_000_u32, 1_u32)),
            Just((1_000_000, 1_000)),
            Just((1_000, 1_000_000)),
            Just((1, 2_000_000_000)),
        ],
        part: u32,
    ) {
        let nanos = (part % parts) * unit % 2_000_000_000;
        if let Some(time) = DateTime::from_timestamp(seconds, nanos) {
            prop_assert_eq!(written(move || time.into()), serde_json::to_string(&Time(time).to_text()).unwrap());
        }
    }
}
