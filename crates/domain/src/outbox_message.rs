//! Messages of outbox rows: the subjects to which they are published, and their media types.

use std::borrow::Cow;

/// Codec of payloads that are JSON.
pub const JSON_CODEC: &str = "json";
/// Media type of JSON.
pub const JSON_MEDIA_TYPE: &str = "application/json";
/// Maximum size of a subject in bytes. The broker closes a connection that sends a line of more than 4 KiB.
const MAX_SUBJECT_BYTES: usize = 1024;

/// Returns whether a message can be published to a subject. A subject consists of dot-separated tokens without white
/// space, control characters and wildcards. The broker's own subjects, which begin with `$` or `_INBOX.`, are not
/// allowed.
#[must_use]
pub fn is_publishable(subject: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"*>".contains(c);
    let foreign = ["$", "_INBOX."].iter().any(|prefix| subject.starts_with(prefix));
    let token = |part: &str| !part.is_empty() && part.chars().all(plain);
    subject.len() <= MAX_SUBJECT_BYTES && !foreign && subject.split('.').all(token)
}

/// Returns the subject of a row that has none: `noetl.events.<tenant>.<organization>.<execution>.0`, as NoETL's event
/// publisher forms it. A missing tenant or organization is `default`, a missing execution is `none`. The last token is
/// a number of NoETL's mirror, which has one shard.
#[must_use]
pub fn event_subject(tenant: Option<&str>, organization: Option<&str>, execution: Option<i64>) -> String {
    let execution = execution.filter(|id| *id != 0).map_or_else(|| "none".to_owned(), |id| id.to_string());
    format!("noetl.events.{}.{}.{execution}.0", token(tenant), token(organization))
}

/// Returns a text as a token of a subject: each run of other characters than letters, digits, `_` and `-` becomes `-`.
fn token(text: Option<&str>) -> String {
    let mut token = String::new();
    for c in text.unwrap_or_default().trim().chars() {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            token.push(c);
        } else if !token.ends_with('\0') {
            token.push('\0');
        }
    }
    let token = token.replace('\0', "-");
    let token = token.trim_matches('-');
    if token.is_empty() { "default".to_owned() } else { token.to_owned() }
}

/// Returns the media type of bytes in a codec. `arrow-feather` has the type that NoETL uses for it. Another codec has
/// an unregistered type with its name, such as `application/x-msgpack`.
#[must_use]
pub fn media_type(codec: &str) -> Cow<'static, str> {
    match codec {
        JSON_CODEC => JSON_MEDIA_TYPE.into(),
        "arrow-feather" => "application/vnd.apache.arrow.file".into(),
        _ if is_media_name(codec) => format!("application/x-{codec}").into(),
        _ => "application/octet-stream".into(),
    }
}

fn is_media_name(codec: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    (1..=64).contains(&codec.len()) && codec.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_subjects_are_publishable() {
        assert!(is_publishable("noetl.executions.shared.1"));
        for subject in
            ["", ".", "a..b", "a.", "a b", "a.*", "a.>", "a\r\nb", "$JS.API.INFO", "_INBOX.x", &"a".repeat(2000)]
        {
            assert!(!is_publishable(subject), "{subject:?}");
        }
    }

    #[test]
    fn subjects_of_events_are_those_of_noetls_publisher() {
        assert_eq!(event_subject(None, None, None), "noetl.events.default.default.none.0");
        assert_eq!(event_subject(Some("acme"), Some("north"), Some(7)), "noetl.events.acme.north.7.0");
        assert_eq!(event_subject(Some(" a. *b "), Some("..."), Some(0)), "noetl.events.a-b.default.none.0");
        for tenant in ["a.b", "*", ">", "\r\n", "ü", "a\0b", "-"] {
            assert!(is_publishable(&event_subject(Some(tenant), None, None)), "{tenant:?}");
        }
    }

    #[test]
    fn media_types_never_contain_the_text_of_a_malformed_codec() {
        assert_eq!(media_type("json"), "application/json");
        assert_eq!(media_type("arrow-feather"), "application/vnd.apache.arrow.file");
        assert_eq!(media_type("msgpack"), "application/x-msgpack");
        for codec in ["", "a b", "a\r\nb", "ü", &"a".repeat(65)] {
            assert_eq!(media_type(codec), "application/octet-stream", "{codec:?}");
        }
    }
}
