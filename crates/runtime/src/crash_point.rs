//! Fault points: places at which a test can crash the process. They exist in debug builds only, and do nothing unless
//! the configuration names one.

use std::sync::OnceLock;

static ARMED: OnceLock<String> = OnceLock::new();

/// Sets the fault point that ends the process. Only the first call has an effect.
pub fn arm(point: String) {
    ARMED.get_or_init(|| point);
}

/// Aborts the process, without unwinding or clean-up, if this fault point is armed.
pub fn reach(point: &'static str) {
    if cfg!(debug_assertions) && ARMED.get().is_some_and(|armed| armed == point) {
        tracing::error!(point, "fault point reached");
        std::process::abort();
    }
}
