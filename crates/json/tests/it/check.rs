//! JSON that would change, or that can't be stored, is found before it is read.

use plain_json::{RawJson, Unstorable, check, is_kept, read};
use proptest::prelude::*;
use serde_json::Value;

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

fn storable(text: &str, levels: usize) -> Result<(), Unstorable> {
    RawJson::from(text.to_owned()).check_storable(levels)
}

#[test]
fn nul_is_found_in_keys_and_values_also_in_those_that_a_repeated_key_replaces() {
    for text in [r#""\u0000""#, r#"{"a\u0000":1}"#, r#"[1,{"a":"x\\\u0000"}]"#, r#"{"a":"\u0000","a":1}"#] {
        assert_eq!(storable(text, 100), Err(Unstorable::Nul), "{text}");
    }
    for text in [r#""\\u0000""#, r#""u0000""#, r#""\u0001\u00000""#, "0"] {
        let found = storable(text, 100);
        assert_eq!(found.is_err(), text.contains("u00000"), "{text}");
    }
}

fn message(text: &str) -> Option<String> {
    check("", text.as_bytes()).err().map(|value| value.to_string())
}

fn place(text: &str) -> String {
    check("variables", text.as_bytes()).unwrap_err().field.join(".")
}

#[test]
fn unrepresentable_value_is_named_by_its_place() {
    assert_eq!(place(r#"{"a":{"x":[1,2],"b":[0,{"c":1e400}]}}"#), "variables.a.b.1.c");
    assert_eq!(place(r#"{"a":"ok","b":["\ud800 "]}"#), "variables.b.0");
    assert_eq!(place(r#"{"a":{"\udc00":1}}"#), "variables.a.\\udc00");
    assert_eq!(place(&format!(r#"{{"a":{}}}"#, "[".repeat(10_000))), "variables.a.0.0.0.0.0.0");
    assert_eq!(place(&format!(r#"{{"{}":1e400}}"#, "k".repeat(500))), format!("variables.{}", "k".repeat(64)));
}

#[test]
fn surrogate_pairs_and_brackets_in_strings_are_allowed() {
    assert_eq!(message(r#"{"a":"\ud83d\ude00 \\ud800 \" [ {","b":[1,-2.5e3,"1e400"]}"#), None);
    assert!(message(r#""\ud83d\ud83d\ude00""#).is_some());
    assert!(message(r#""\\\ud800""#).is_some());
}

#[test]
fn numbers_that_would_change_are_refused() {
    let kept = [
        "0",
        "-0",
        "1e0",
        "18446744073709551615",
        "-9223372036854775808",
        "123456789012345680000",
        "1e22",
        "1E+2",
        "100000000000000000000000",
        "0.10000000000000001",
        "3.141592653589793",
        "5e-324",
        "1.7976931348623157e308",
        "1180591620717411303424",
        "0e99999999999999999999",
        "-1.50",
    ];
    let changed = [
        "1e309",
        "-1e400",
        "123456789012345678901",
        "18446744073709551617",
        "3.14159265358979323846",
        "1e-400",
        "3e-324",
        "1e99999999999999999999",
    ];
    assert_eq!(kept.iter().find(|number| !is_kept(number)), None);
    assert_eq!(changed.iter().find(|number| is_kept(number)), None);
}

proptest! {
    #[test]
    fn numbers_in_common_formats_are_kept(float in any::<f64>(), integer in any::<i64>()) {
        prop_assume!(float.is_finite());
        for text in [format!("{float}"), format!("{float:e}"), format!("{float:.16e}"), integer.to_string()] {
            prop_assert!(is_kept(&text), "{}", text);
        }
    }

    #[test]
    fn stored_text_is_checked_as_its_value(
        text in r#"[\[\]{}:,"\\0ua ]{0,30}"#,
        string in r#"(\\\\|\\u0000|\\u0001|\\"|u0000|\[|x){0,5}"#,
        levels in 0_usize..4,
    ) {
        for text in [text, format!("[[\"{string}\"],{{\"{string}\":[1]}}]")] {
            if let Ok(value) = read(&text) {
                let expected = match (depth(&value) > levels, holds_nul(&value)) {
                    (true, _) => Err(Unstorable::Depth),
                    (false, true) => Err(Unstorable::Nul),
                    (false, false) => Ok(()),
                };
                prop_assert_eq!(storable(&text, levels), expected, "{}", text);
            }
        }
    }

    #[test]
    fn json_that_passes_can_be_read(
        text in r#"[\[\]{}:,"\\0-9eE.ud8-f -]{0,40}"#,
        string in r"(\\u[dD][89a-dA-D][0-9]{2}|x){0,4}",
    ) {
        for text in [text, format!("[\"{string}\"]")] {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            if is_json && check("", text.as_bytes()).is_ok() {
                prop_assert!(read(&text).is_ok(), "{}", text);
            }
        }
    }
}
