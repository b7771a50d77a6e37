//! Names of streams and subjects on the broker. With the default prefix they are NoETL's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use noetl_domain::shard::ShardIndex;

/// Maximum bytes of an event's type in its subject; the broker closes a connection that sends a line over 4 KiB.
const MAX_TYPE_BYTES: usize = 512;
/// Maximum bytes of a prefix of names, and of a domain.
const MAX_NAME_BYTES: usize = 64;
/// Maximum bytes of a prefix of JetStream's API, or of inboxes.
const MAX_SUBJECT_PREFIX_BYTES: usize = 128;
/// Prefix of NoETL's names.
const DEFAULT_PREFIX: &str = "noetl";

/// Beginning of the stored subjects of the workers' notifications.
const STORED_NOTIFICATIONS: &str = "noetl.executions.";

/// Names of the streams and subjects of one deployment, and the API of the JetStream that has the streams. The names begin
/// with the deployment's prefix, so deployments with different prefixes share a broker without sharing a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamNames {
    prefix: Arc<str>,
    api: Api,
}

/// API of the JetStream that has the streams.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Api {
    /// API of the account and the brokers to which the server connects.
    #[default]
    Own,
    /// API of a domain of JetStream.
    Domain(Arc<str>),
    /// API of another account, which the account of the server imports under this prefix.
    Imported(SubjectPrefix),
}

/// First parts of subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectPrefix(Arc<str>);

impl SubjectPrefix {
    /// Returns whether a subject begins with the parts of the prefix.
    #[must_use]
    pub fn covers(&self, subject: &str) -> bool {
        subject.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// A text that can't be the first parts of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a prefix of subjects: 1 to 128 letters, digits, -, _, $ and @ only, in parts separated by dots")]
pub struct BadSubjectPrefix;

/// Writes the prefix.
impl fmt::Display for SubjectPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SubjectPrefix {
    type Err = BadSubjectPrefix;

    fn from_str(prefix: &str) -> Result<Self, BadSubjectPrefix> {
        let valid = |c: char| c.is_ascii_alphanumeric() || "-_$@".contains(c);
        let is_part = |part: &str| !part.is_empty() && part.chars().all(valid);
        let is_prefix = prefix.len() <= MAX_SUBJECT_PREFIX_BYTES && prefix.split('.').all(is_part);
        if is_prefix { Ok(Self(prefix.into())) } else { Err(BadSubjectPrefix) }
    }
}

/// A text that can't be the prefix of a stream's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a prefix of streams: 1 to 64 characters, letters, digits, - and _ only")]
pub struct BadPrefix;

/// Writes the prefix.
impl fmt::Display for StreamNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)
    }
}

impl Default for StreamNames {
    fn default() -> Self {
        Self { prefix: DEFAULT_PREFIX.into(), api: Api::Own }
    }
}

impl FromStr for StreamNames {
    type Err = BadPrefix;

    fn from_str(prefix: &str) -> Result<Self, BadPrefix> {
        if is_name(prefix) { Ok(Self { prefix: prefix.into(), api: Api::Own }) } else { Err(BadPrefix) }
    }
}

/// Returns whether a text can be a prefix or a domain.
fn is_name(text: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.chars().all(valid)
}

impl StreamNames {
    /// Returns the same names for streams in a domain of JetStream; `None` if the domain is not 1 to 64 letters, digits, -
    /// or _.
    #[must_use]
    pub fn in_domain(self, domain: &str) -> Option<Self> {
        is_name(domain).then(|| Self { api: Api::Domain(domain.into()), ..self })
    }

    /// Returns the same names for streams of another account, whose API is imported under a prefix.
    #[must_use]
    pub fn imported(self, prefix: SubjectPrefix) -> Self {
        Self { api: Api::Imported(prefix), ..self }
    }

    /// Returns the API of the JetStream that has the streams.
    #[must_use]
    pub const fn api(&self) -> &Api {
        &self.api
    }

    /// Returns the prefix of an API that is imported from another account.
    #[must_use]
    pub const fn api_prefix(&self) -> Option<&SubjectPrefix> {
        match &self.api {
            Api::Imported(prefix) => Some(prefix),
            Api::Own | Api::Domain(_) => None,
        }
    }

    /// Returns the name of the stream that holds a shard's events.
    #[must_use]
    pub fn stream(&self, shard: ShardIndex) -> String {
        let prefix = &self.prefix;
        if shard == 0 { format!("{prefix}_events") } else { format!("{prefix}_events_{shard}") }
    }

    /// Returns the common beginning of the subjects of a shard's events.
    fn events(&self, shard: ShardIndex) -> String {
        let prefix = &self.prefix;
        if shard == 0 { format!("{prefix}.events") } else { format!("{prefix}.events_{shard}") }
    }

    /// Returns the pattern of all subjects of a shard's events.
    #[must_use]
    pub fn subjects(&self, shard: ShardIndex) -> String {
        format!("{}.>", self.events(shard))
    }

    /// Returns the subject of an event. Characters that a subject can't hold become `_`. A very long type is cut.
    #[must_use]
    pub fn subject(&self, shard: ShardIndex, event_type: &str) -> String {
        let token = |part: &str| -> String {
            let plain = |c: char| if c.is_whitespace() || c.is_control() || "*>".contains(c) { '_' } else { c };
            if part.is_empty() { "_".to_owned() } else { part.chars().map(plain).collect() }
        };
        let held = &event_type[..event_type.floor_char_boundary(MAX_TYPE_BYTES)];
        let tokens: Vec<String> = held.split('.').map(token).collect();
        format!("{}.{}", self.events(shard), tokens.join("."))
    }

    /// Returns the name of the stream of the workers' notifications.
    #[must_use]
    pub fn notifications(&self) -> String {
        format!("{}_executions", self.prefix)
    }

    /// Returns the pattern of the subjects of the workers' notifications.
    #[must_use]
    pub fn notification_subjects(&self) -> String {
        format!("{}.executions.>", self.prefix)
    }

    /// Returns the subject on which a notification with a stored subject is published; `None` if the subject is not one of
    /// a notification. Rows store NoETL's prefix.
    #[must_use]
    pub fn notification(&self, stored: &str) -> Option<String> {
        stored.strip_prefix(STORED_NOTIFICATIONS).map(|rest| format!("{}.executions.{rest}", self.prefix))
    }

    /// Returns the subject of the wake-ups for a shard's leader.
    #[must_use]
    pub fn wake(&self, shard: ShardIndex) -> String {
        format!("{}.wake.{shard}", self.prefix)
    }

    /// Returns the pattern of the wake-ups for the leaders of all shards.
    #[must_use]
    pub fn wakes(&self) -> String {
        format!("{}.wake.*", self.prefix)
    }

    /// Returns the subject on which the leaders of a shard's stream find each other.
    #[must_use]
    pub fn leaders(&self, shard: ShardIndex) -> String {
        format!("{}.leaders.{shard}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noetl_s_and_every_type_makes_a_valid_subject() {
        let names = StreamNames::default();
        assert_eq!((names.stream(0), names.stream(2)), ("noetl_events".to_owned(), "noetl_events_2".to_owned()));
        assert_eq!(names.subject(0, "subscription.paused"), "noetl.events.subscription.paused");
        assert_eq!(names.subject(3, "call done*"), "noetl.events_3.call_done_");
        assert_eq!(names.subject(0, ".a..>"), "noetl.events._.a._._");
        assert_eq!(names.subject(0, ""), "noetl.events._");
        let cut = format!("noetl.events.{}", "ß".repeat(MAX_TYPE_BYTES / 2));
        assert_eq!(names.subject(0, &"ß".repeat(5_000)), cut);
        assert_eq!((names.wake(2), names.wakes()), ("noetl.wake.2".to_owned(), "noetl.wake.*".to_owned()));
    }

    #[test]
    fn a_prefix_separates_all_names_and_an_unusable_one_is_refused() {
        let names: StreamNames = "staging-2".parse().unwrap();
        assert_eq!(
            (names.stream(0), names.stream(1)),
            ("staging-2_events".to_owned(), "staging-2_events_1".to_owned())
        );
        assert_eq!(
            (names.subjects(1), names.wake(0)),
            ("staging-2.events_1.>".to_owned(), "staging-2.wake.0".to_owned())
        );
        assert_eq!(names.leaders(1), "staging-2.leaders.1");
        assert_eq!(
            (names.notifications(), names.notification_subjects()),
            ("staging-2_executions".to_owned(), "staging-2.executions.>".to_owned())
        );
        assert_eq!(names.notification("noetl.executions.gpu.7").as_deref(), Some("staging-2.executions.gpu.7"));
        assert_eq!(names.notification("noetl.commands.gpu.7"), None);
        for prefix in ["", "a.b", "a b", "*", ">", "ä", "a/b", &"a".repeat(65)] {
            assert_eq!(prefix.parse::<StreamNames>(), Err(BadPrefix), "{prefix}");
            assert_eq!(names.clone().in_domain(prefix), None, "{prefix}");
        }
        let moved = names.clone().in_domain("hub").unwrap();
        assert_eq!((moved.api(), moved.stream(0)), (&Api::Domain("hub".into()), names.stream(0)));
    }

    #[test]
    fn a_prefix_of_subjects_has_whole_parts_without_wildcards() {
        for prefix in ["JS", "JS.shared.API", "JS.acc@hub.API", "$JS.hub.API", "_INBOX_noetl", &"a".repeat(128)] {
            assert_eq!(prefix.parse::<SubjectPrefix>().map(|parsed| parsed.to_string()), Ok(prefix.to_owned()));
        }
        for prefix in ["", ".", "JS.", ".JS", "JS..API", "JS.>", "JS.*", "J S", "JS\r", "ä", &"a".repeat(129)] {
            assert_eq!(prefix.parse::<SubjectPrefix>(), Err(BadSubjectPrefix), "{prefix}");
        }
    }

    #[test]
    fn a_prefix_covers_the_subjects_that_begin_with_its_parts() {
        let prefix: SubjectPrefix = "JS.shared.API".parse().unwrap();
        for (subject, is_covered) in [
            ("JS.shared.API", true),
            ("JS.shared.API.STREAM.DELETE.noetl_events", true),
            ("JS.shared.API2.INFO", false),
            ("JS.shared", false),
            ("a.JS.shared.API.INFO", false),
        ] {
            assert_eq!(prefix.covers(subject), is_covered, "{subject}");
        }
    }
}
