//! Output of commands that print a result.

use std::io::{ErrorKind, Write, stderr, stdout};

use super::Failure;

/// Prints a text. A reader that closes the pipe early, such as `head`, wants no more output, so this is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut output = stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints a line about progress to standard error. A reader that is gone does not matter.
pub(super) fn note(line: &str) {
    let _ = writeln!(stderr().lock(), "{line}");
}
