//! `token new`: creates a static token, prints it once, and prints or appends the line for the servers' token file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Subcommand};

use noetl_auth::principal::Role;
use noetl_auth::tokens::{self, InvalidName, TokenLine, check_name};

/// Commands for static tokens.
#[derive(Debug, Subcommand)]
pub(super) enum Token {
    /// Create a token. Its text is printed once and not stored; the line for the token file holds only its SHA-256
    New(New),
}

/// Options of `token new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// Role of the caller; repeat the option for several roles
    #[arg(long = "role", required = true, value_parser = Role::ALL.map(Role::name))]
    roles: Vec<String>,
    /// Name of the caller in events and in the audit log [default: the first role and a part of the token's SHA-256]
    #[arg(long)]
    subject: Option<String>,
    /// Tenant of the caller
    #[arg(long)]
    tenant: Option<String>,
    /// Time at which the token expires: a date, or a time such as 2030-01-31T12:00:00Z [default: never]
    #[arg(long, value_parser = time)]
    expires: Option<DateTime<Utc>>,
    /// Token file to append the line to, instead of printing it; running servers read the file when it changes
    #[arg(long)]
    file: Option<PathBuf>,
}

/// Reason why no token was created.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The operating system provides no random bytes.
    #[error("the operating system provides no random bytes: {0}")]
    Random(getrandom::Error),
    /// An option is invalid.
    #[error(transparent)]
    Option(#[from] InvalidName),
    /// The line can't be written as JSON.
    #[error("the line can't be written as JSON: {0}")]
    Line(#[from] serde_json::Error),
    /// The file can't be written.
    #[error("{path} can't be written: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

pub(super) fn run(command: Token) -> Result<(), TokenError> {
    let Token::New(options) = command;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(TokenError::Random)?;
    let token = tokens::render(random);
    let line = serde_json::to_string(&line(&token, &options)?)?;
    match &options.file {
        Some(path) => {
            append(path, &line).map_err(|source| TokenError::File { path: path.clone(), source })?;
            println!("{token}");
        }
        None => println!("{token}\n\nAdd this line to the file that NOETL_AUTH_TOKENS names:\n{line}"),
    }
    Ok(())
}

fn line(token: &str, options: &New) -> Result<TokenLine, TokenError> {
    let sha256 = tokens::hex(tokens::digest(token));
    let role = options.roles.first().map_or("", String::as_str);
    let subject = options.subject.clone().unwrap_or_else(|| format!("{role}-{}", &sha256[..8]));
    check_name("subject", &subject)?;
    options.tenant.as_deref().map_or(Ok(()), |tenant| check_name("tenant", tenant))?;
    Ok(TokenLine {
        sha256,
        roles: options.roles.clone(),
        subject,
        tenant: options.tenant.clone(),
        expires: options.expires,
    })
}

/// Appends a line in one write, so that a server never reads a part of it. Only the owner can read a file created here.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let text = std::fs::read_to_string(path).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    })?;
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{separator}{line}\n").as_bytes())?;
    file.sync_all()
}

/// Text that is neither a date nor a time.
#[derive(Debug, thiserror::Error)]
#[error("expected a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z")]
struct MalformedTime;

fn time(text: &str) -> Result<DateTime<Utc>, MalformedTime> {
    let day = text.parse::<NaiveDate>().map(|day| day.and_time(chrono::NaiveTime::MIN).and_utc());
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    time.or(day).map_err(|_| MalformedTime)
}
