//! Static tokens of 256 random bits. The server stores only their SHA-256.
//!
//! The token file has one JSON object per line; empty lines, and lines that begin with `#`, are skipped. The file is
//! reloaded when it has changed and then stayed the same for half a second, so a file that is being written is not read. A
//! file that can't be read changes nothing. An invalid line gives no token, and the other lines take effect. Both problems
//! are logged and counted. A token that was removed from the file is revoked, together with its live connections: their
//! [`Grant::revoked`] is cancelled.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Grant;
use super::principal::{LOCAL, PROVIDED, Principal, Role, UnknownRole};
use plain_json::{self as json, Typed};

/// Prefix of every token, by which scanners for leaked secrets recognise tokens.
pub const PREFIX: &str = "noetl_";
/// Subject of the caller that sends `NOETL_INTERNAL_API_TOKEN`.
pub const INTERNAL: &str = "internal";
/// Interval at which the file is read.
const POLL: Duration = Duration::from_millis(250);
/// Number of further reads that must find the same content. A removed token is revoked within a second.
const SAME: u32 = 2;
/// Maximum number of bytes of a subject or tenant.
const MAX_NAME_BYTES: usize = 256;

/// Line of the token file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenLine {
    /// SHA-256 of the token's text, in hexadecimal.
    pub sha256: String,
    /// Names of roles, at least one.
    pub roles: Vec<String>,
    /// Name of the caller.
    pub subject: String,
    /// Tenant of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Time at which the token expires; absent if it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime<Utc>>,
}

impl Typed for TokenLine {}

/// Reason why a token file can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// The file can't be read.
    #[error("it can't be read: {0}")]
    Unreadable(String),
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, starting at 1.
        line: usize,
        /// Description of the problem.
        problem: LineProblem,
    },
}

/// Problem of a line of a token file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// The line is not JSON of the expected shape.
    #[error("it is not a line from `noetl-graphql token new` ({0})")]
    Malformed(&'static str),
    /// The digest is malformed.
    #[error("sha256 must be the 64 hexadecimal digits of a SHA-256")]
    Digest,
    /// A role does not exist.
    #[error(transparent)]
    UnknownRole(#[from] UnknownRole),
    /// The line names no role.
    #[error("roles must name at least one role")]
    NoRole,
    /// The subject or the tenant is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An earlier line has the same token.
    #[error("the same token is in an earlier line")]
    Duplicate,
}

/// Name of a caller or tenant that is not allowed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The name is empty, too long, or has control characters.
    #[error("{0} must have 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    Malformed(String),
    /// The subject is the name of a caller of the server itself, or of a provider's user.
    #[error("the subjects {LOCAL} and {INTERNAL}, and those that begin with {PROVIDED}, are reserved; choose another")]
    Reserved,
}

/// Returns random bytes as the text of a token.
#[must_use]
pub fn render(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// Returns the SHA-256 of a token, which the server stores.
#[must_use]
pub fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[derive(Debug, Clone)]
struct Entry {
    digest: [u8; 32],
    grant: Grant,
}

/// Valid static tokens.
#[derive(Debug)]
pub struct Tokens {
    /// Tokens that are valid until the process ends.
    fixed: Vec<Entry>,
    path: Option<PathBuf>,
    loaded: RwLock<Loaded>,
}

#[derive(Debug, Default)]
struct Loaded {
    /// Text in use.
    text: String,
    entries: Arc<Vec<Entry>>,
}

impl Tokens {
    /// Reads a token file. `internal` is the digest of an additional token with the roles `worker` and `importer`.
    pub fn open(path: Option<&Path>, internal: Option<[u8; 32]>) -> Result<Self, TokenFileError> {
        let worker = |digest| Entry { digest, grant: Principal::new(INTERNAL, &[Role::Worker, Role::Importer]).into() };
        let fixed = internal.map(worker).into_iter().collect();
        let loaded = path.map(|path| {
            let text = std::fs::read_to_string(path).map_err(|error| TokenFileError::Unreadable(error.to_string()))?;
            let Parsed { entries, problems } = parse(&text);
            match problems.into_iter().next() {
                Some(problem) => Err(problem),
                None => Ok(Loaded { text, entries: Arc::new(entries) }),
            }
        });
        let loaded = RwLock::new(loaded.transpose()?.unwrap_or_default());
        Ok(Self { fixed, path: path.map(Path::to_owned), loaded })
    }

    /// Finds the grant of a token. Every entry is compared in constant time, also after a match.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<Grant> {
        let (digest, mut found) = (digest(token), None);
        let entries = Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner).entries);
        for entry in self.fixed.iter().chain(entries.iter()) {
            if bool::from(entry.digest.ct_eq(&digest)) {
                found = Some(entry.grant.clone());
            }
        }
        found
    }

    /// Applies changes of the token file until `stop` is cancelled. After each change, `report` gets the number of its
    /// problems: its invalid lines, or 1 if it can't be read.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken, report: impl Fn(usize)) {
        let Some(path) = self.path.clone() else { return };
        let (mut ticks, mut readable) = (interval(POLL), true);
        let (mut latest, mut same) = (None, 0);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            match tokio::fs::read_to_string(&path).await {
                Ok(text) => {
                    same = if readable && latest.as_ref() == Some(&text) { same + 1 } else { 0 };
                    if same == SAME {
                        report(self.apply(&text, &path));
                    }
                    (latest, readable) = (Some(text), true);
                }
                Err(error) if readable => {
                    readable = false;
                    tracing::error!(
                        path = %path.display(),
                        %error,
                        "the token file can't be read; its tokens stay valid"
                    );
                    report(1);
                }
                Err(_) => {}
            }
        }
    }

    /// Applies the content of the file. Returns the number of invalid lines.
    fn apply(&self, text: &str, path: &Path) -> usize {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let Parsed { entries, problems } = parse(text);
        if loaded.text == text {
            return problems.len();
        }
        for problem in &problems {
            tracing::error!(path = %path.display(), %problem, "a line of the token file is invalid and gives no token");
        }
        let (before, after) = (Arc::clone(&loaded.entries), carry_over(&loaded.entries, entries));
        (loaded.entries, loaded.text) = (Arc::new(after), text.to_owned());
        let ended = before.iter().filter(|old| !loaded.entries.iter().any(|entry| entry.is(old)));
        let ended = ended.inspect(|old| old.grant.revoked.cancel()).count();
        tracing::info!(path = %path.display(), tokens = loaded.entries.len(), ended, "reloaded the token file");
        problems.len()
    }
}

/// Content of a token file.
struct Parsed {
    /// The tokens of the valid lines.
    entries: Vec<Entry>,
    /// The problems of the others.
    problems: Vec<TokenFileError>,
}

impl Entry {
    /// Returns whether both entries have the same token and principal.
    fn is(&self, other: &Self) -> bool {
        self.digest == other.digest && self.grant.principal == other.grant.principal
    }
}

/// Returns the entries that were read. An unchanged entry keeps its grant, so that its live connections continue.
fn carry_over(before: &[Entry], read: Vec<Entry>) -> Vec<Entry> {
    let kept = |entry: Entry| before.iter().find(|old| old.is(&entry)).cloned().unwrap_or(entry);
    read.into_iter().map(kept).collect()
}

fn parse(text: &str) -> Parsed {
    let (mut entries, mut problems, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match entry(line) {
            Ok(entry) if seen.insert(entry.digest) => entries.push(entry),
            wrong => {
                let problem = wrong.err().unwrap_or(LineProblem::Duplicate);
                problems.push(TokenFileError::Line { line: number + 1, problem });
            }
        }
    }
    Parsed { entries, problems }
}

fn entry(line: &str) -> Result<Entry, LineProblem> {
    let line: TokenLine = json::parse(line.as_bytes()).map_err(|error| LineProblem::Malformed(kind_of(&error)))?;
    let digest = unhex(&line.sha256).ok_or(LineProblem::Digest)?;
    let roles: Result<Vec<Role>, UnknownRole> = line.roles.iter().map(|name| name.parse()).collect();
    let roles = roles?;
    if roles.is_empty() {
        return Err(LineProblem::NoRole);
    }
    check_name("subject", &line.subject)?;
    line.tenant.as_deref().map_or(Ok(()), |tenant| check_name("tenant", tenant))?;
    let principal = Principal {
        tenant: line.tenant.as_deref().map(Arc::from),
        expires_at: line.expires,
        ..Principal::new(&line.subject, &roles)
    };
    Ok(Entry { digest, grant: principal.into() })
}

/// Checks a subject or a tenant: 1 to 256 bytes, no control characters, and not a reserved subject.
pub fn check_name(field: &str, name: &str) -> Result<(), InvalidName> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(InvalidName::Malformed(field.to_owned()));
    }
    if field == "subject" && ([LOCAL, INTERNAL].contains(&name) || name.starts_with(PROVIDED)) {
        return Err(InvalidName::Reserved);
    }
    Ok(())
}

/// Returns the kind of a JSON error, without the text of the line: the text may be a token that was pasted by mistake.
fn kind_of(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field is missing, unknown or of the wrong type",
        _ => "it is not a JSON object",
    }
}

/// Returns bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: [u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn line(token: &str, role: &str) -> String {
        format!(r#"{{"sha256":"{}","roles":["{role}"],"subject":"{token}"}}"#, hex(digest(token)))
    }

    fn opened(text: &str) -> (Tokens, tempfile::NamedTempFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        (Tokens::open(Some(file.path()), Some(digest("a token of NoETL's workers"))).unwrap(), file)
    }

    #[test]
    fn removed_or_changed_token_is_revoked_and_others_are_not() {
        let lines = [line("one", "viewer"), line("two", "viewer"), line("three", "viewer")];
        let (tokens, file) = opened(&format!("# tokens\n\n{}\n", lines.join("\n")));
        let [one, two, three] = ["one", "two", "three"].map(|token| tokens.find(token).unwrap());
        tokens.apply(&format!("{}\n{}\n", lines[0], line("two", "admin")), file.path());
        assert!(tokens.find("three").is_none() && three.revoked.is_cancelled());
        assert!(two.revoked.is_cancelled(), "its role has changed");
        assert_eq!(tokens.find("two").unwrap().principal.roles, [Role::Admin]);
        assert!(!one.revoked.is_cancelled() && !tokens.find("one").unwrap().revoked.is_cancelled());
        assert_eq!(tokens.find("a token of NoETL's workers").unwrap().principal.roles, [Role::Worker, Role::Importer]);
        assert!(tokens.find("four").is_none() && tokens.find("").is_none());
    }

    #[test]
    fn valid_lines_of_an_invalid_file_take_effect() {
        let lines = [line("one", "viewer"), line("two", "viewer")];
        for wrong in ["nonsense", "{}", &line("three", "god"), &line("one", "admin")] {
            let (tokens, file) = opened(&lines.join("\n"));
            let [one, two] = ["one", "two"].map(|token| tokens.find(token).unwrap());
            assert_eq!(tokens.apply(&format!("{}\n{wrong}", lines[0]), file.path()), 1, "{wrong}");
            assert!(!one.revoked.is_cancelled() && tokens.find("one").is_some(), "{wrong}");
            assert!(two.revoked.is_cancelled() && tokens.find("two").is_none(), "{wrong}");
            assert!(tokens.find("three").is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_is_not_applied() {
        let (tokens, file) = opened(&line("one", "viewer"));
        let (tokens, stop) = (Arc::new(tokens), CancellationToken::new());
        let reports = Arc::new(Mutex::new(Vec::new()));
        let watched = Arc::clone(&reports);
        let report = move |problems| watched.lock().unwrap().push(problems);
        let watching = Arc::clone(&tokens).watch(stop.clone(), report);
        let one = tokens.find("one").unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        let writing = async {
            write("");
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert!(!one.revoked.is_cancelled(), "the file was empty for a moment");
            write(&format!("{}\nnonsense", line("two", "viewer")));
            one.revoked.cancelled().await;
            assert!(tokens.find("two").is_some());
            stop.cancel();
        };
        tokio::join!(watching, writing);
        assert_eq!(reports.lock().unwrap().last(), Some(&1));
    }

    #[test]
    fn errors_of_invalid_lines_do_not_contain_their_text() {
        let good = line("one", "viewer");
        let wrong = [
            "noetl_secret".to_owned(),
            r#"{"sha256":"ab","roles":["viewer"],"subject":"a"}"#.to_owned(),
            good.replace("viewer", "root"),
            good.replace(r#"["viewer"]"#, "[]"),
            good.replace(r#""subject":"one""#, r#""subject":"""#),
            good.replace(r#""subject":"one""#, r#""subject":"local""#),
            good.replace(r#""subject":"one""#, r#""subject":"oidc:one""#),
            good.replace(r#""subject""#, r#""secret":"noetl_secret","subject""#),
            good.clone(),
        ];
        for wrong in wrong {
            let error = parse(&format!("{good}\n\n{wrong}")).problems.remove(0);
            assert!(matches!(error, TokenFileError::Line { line: 3, .. }), "{error}");
            assert!(!error.to_string().contains("noetl_secret"), "{error}");
        }
    }

    #[test]
    fn tokens_have_the_prefix_and_encode_all_bits() {
        let (one, other) = (render([255; 32]), render([254; 32]));
        assert!(one.starts_with(PREFIX) && one.len() == PREFIX.len() + 43 && one != other);
        assert_eq!(unhex(&hex(digest(&one))), Some(digest(&one)));
    }
}
