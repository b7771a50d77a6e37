//! JSON of databases and messages is carried as text.

use plain_json::Text;
use serde_json::json;

#[test]
fn readable_json_is_carried_unchanged() {
    for json in [r#"{"$serde_json::private::RawValue": 1, "n": 1.23456789012345678901}"#, "null", "\"\\u0000\""] {
        assert_eq!(Text::new(json).unwrap().as_str(), json);
    }
    let broken = Text::new("{\"a\":\r\n 1}").unwrap();
    assert_eq!((broken.as_str(), broken.read()), ("{\"a\":   1}", json!({ "a": 1 })));
}

#[test]
fn unreadable_json_is_replaced_by_its_error() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for json in [&*deep, "{\"n\": 1e400}", &"9".repeat(400), "[\"\\ud800\"]"] {
        let unreadable = Text::new(json).unwrap_err();
        let shown = Text::or_error_value(json);
        assert_eq!(shown.read()["error"]["code"], "UNREADABLE");
        assert_eq!(shown.read()["error"]["message"], unreadable.to_string());
        assert!(unreadable.to_string().len() < 300, "{unreadable}");
    }
}
