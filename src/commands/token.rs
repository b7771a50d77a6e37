//! `token new`: makes a static token, shows it once, and gives the line by which servers know it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};
use clap::{Args, Subcommand};

use crate::auth::principal::Role;
use crate::auth::tokens::{self, TokenLine, check_name};

/// Commands for static tokens.
#[derive(Debug, Subcommand)]
pub(super) enum Token {
    /// Make a token. Its text is printed once and stored nowhere; the line for the token file holds only its SHA-256
    New(New),
}

/// Options of `token new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// Role of the caller; repeat it for several
    #[arg(long = "role", required = true, value_parser = Role::ALL.map(Role::name))]
    roles: Vec<String>,
    /// Name of the caller in events and in the audit log [default: the first role and a part of the token's SHA-256]
    #[arg(long)]
    subject: Option<String>,
    /// Tenant of the caller
    #[arg(long)]
    tenant: Option<String>,
    /// End of the token: a date, or a time such as 2030-01-31T12:00:00Z
    #[arg(long, value_parser = time)]
    expires: Option<DateTime<Utc>>,
    /// Token file to append the line to, instead of printing it; running servers read it at once
    #[arg(long)]
    file: Option<PathBuf>,
}

/// Reason why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(getrandom::Error),
    /// An option is wrong.
    #[error("{0}")]
    Option(String),
    /// The line can't be written.
    #[error("the line can't be written: {0}")]
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
    check_name("subject", &subject).map_err(TokenError::Option)?;
    options.tenant.as_deref().map_or(Ok(()), |tenant| check_name("tenant", tenant)).map_err(TokenError::Option)?;
    Ok(TokenLine {
        sha256,
        roles: options.roles.clone(),
        subject,
        tenant: options.tenant.clone(),
        expires: options.expires,
    })
}

/// Appends a line in one write, so that a server never reads a part of it. A file that is made here is its owner's alone.
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

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let day = text.parse::<NaiveDate>().map(|day| day.and_time(chrono::NaiveTime::MIN).and_utc());
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.to_utc());
    time.or(day).map_err(|_| "expected a date such as 2030-01-31, or a time such as 2030-01-31T12:00:00Z".to_owned())
}
