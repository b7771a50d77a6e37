//! Errors with their causes, for logs and the command line.

use std::error::Error;
use std::fmt;

/// Displays an error and its causes in one line. A cause whose message ends the text already is left out.
#[derive(Debug)]
pub struct WithCauses<'a>(pub &'a dyn Error);

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let message = error.to_string();
            if !last.ends_with(&message) {
                write!(f, ": {message}")?;
                last = message;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("the disk is full")]
        Disk,
        #[error("storage failed")]
        Storage(#[source] Box<Failure>),
        #[error("could not write: {0}")]
        Write(#[source] Box<Failure>),
    }

    #[test]
    fn causes_follow_their_error_and_are_not_repeated() {
        let disk = || Box::new(Failure::Disk);
        let text = |error: &Failure| WithCauses(error).to_string();
        assert_eq!(text(&Failure::Disk), "the disk is full");
        assert_eq!(text(&Failure::Storage(disk())), "storage failed: the disk is full");
        assert_eq!(text(&Failure::Write(disk())), "could not write: the disk is full");
        assert_eq!(
            text(&Failure::Storage(Box::new(Failure::Write(disk())))),
            "storage failed: could not write: the disk is full"
        );
    }
}
