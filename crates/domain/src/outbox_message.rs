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
/// allowed. A deployment may have others, which its relay refuses.
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

/// Returns the beginnings of the subjects of a pool's commands: those of this server and of NoETL's.
fn pool_prefixes(pool: &str) -> [String; 2] {
    [format!("noetl.executions.{pool}."), format!("noetl.commands.{pool}.")]
}

/// Returns the beginnings of the subjects that belong to one of the pools, if pools are given, and begin with `prefix`, if
/// it is given. A subject is selected if it begins with one of them. `None`: every subject is selected.
#[must_use]
pub fn selected_subjects(pools: Option<&[String]>, prefix: Option<&str>) -> Option<Vec<String>> {
    let Some(pools) = pools else {
        return prefix.map(|prefix| vec![prefix.to_owned()]);
    };
    let prefix = prefix.unwrap_or_default();
    let of_pools = pools.iter().flat_map(|pool| pool_prefixes(pool));
    // A subject begins with both texts only if one text begins with the other.
    let both = |of_pool: String| {
        if of_pool.starts_with(prefix) {
            Some(of_pool)
        } else {
            prefix.starts_with(&of_pool).then(|| prefix.to_owned())
        }
    };
    Some(of_pools.filter_map(both).collect())
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
        assert!(is_publishable("noetl.executions.shared.1") && is_publishable(&"a".repeat(1024)));
        for subject in
            ["", ".", "a..b", "a.", "a b", "a.*", "a.>", "a\r\nb", "$JS.API.INFO", "_INBOX.x", &"a".repeat(1025)]
        {
            assert!(!is_publishable(subject), "{subject:?}");
        }
    }

    #[test]
    fn subjects_are_selected_by_pool_and_by_prefix() {
        let pools = ["gpu".to_owned(), "a".to_owned()];
        let select = |pools: Option<&[String]>, prefix| selected_subjects(pools, prefix).map(|found| found.join(" "));
        assert_eq!(select(None, None), None);
        assert_eq!(select(None, Some("noetl.ev")).as_deref(), Some("noetl.ev"));
        let gpu = "noetl.executions.gpu. noetl.commands.gpu.";
        assert_eq!(select(Some(&pools[..1]), None).as_deref(), Some(gpu));
        assert_eq!(select(Some(&pools[..1]), Some("noetl.")).as_deref(), Some(gpu));
        assert_eq!(select(Some(&pools), Some("noetl.commands.a.17")).as_deref(), Some("noetl.commands.a.17"));
        assert_eq!(select(Some(&pools), Some("noetl.events.")).as_deref(), Some(""), "no subject has both");
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
