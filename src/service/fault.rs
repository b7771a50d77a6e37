//! Places where a test stops the process as a crash would. They exist in debug builds only, and are silent unless the
//! configuration names one.

use std::sync::OnceLock;

static ARMED: OnceLock<String> = OnceLock::new();

/// Names the point that the process dies at.
pub fn arm(point: String) {
    ARMED.get_or_init(|| point);
}

/// Dies here, without unwinding or cleaning up, if this point is armed.
pub fn reach(point: &'static str) {
    if cfg!(debug_assertions) && ARMED.get().is_some_and(|armed| armed == point) {
        tracing::error!(point, "fault point reached");
        std::process::abort();
    }
}
