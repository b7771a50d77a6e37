//! How long a failed outbox row waits before it may be claimed again (SPEC, "Outbox"): 1, 2, 4 … 256 seconds by the number
//! of attempts, capped.

/// Attempts from which the delay no longer grows.
const LAST_STEP: u32 = 8;
/// The cap when the caller names none, in seconds.
pub const DEFAULT_MAX_SECONDS: i32 = 300;

/// The delay in seconds after this many attempts: `min(max, 2^clamp(attempts - 1, 0, 8))`.
#[must_use]
pub fn delay_seconds(attempts: i32, max_seconds: i32) -> i32 {
    let step = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(LAST_STEP);
    (1 << step).min(max_seconds)
}

/// The delays after 1, 2, 3 … attempts; the last one holds for all further attempts.
#[must_use]
pub fn delays(max_seconds: i32) -> Vec<i32> {
    (1..).take(LAST_STEP as usize + 1).map(|attempts| delay_seconds(attempts, max_seconds)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_from_one_second_to_256_and_is_capped() {
        assert_eq!(delays(86_400), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(delays(5), [1, 2, 4, 5, 5, 5, 5, 5, 5]);
        for (attempts, expected) in [(i32::MIN, 1), (0, 1), (1, 1), (9, 256), (10, 256), (i32::MAX, 256)] {
            assert_eq!(delay_seconds(attempts, 300), expected, "{attempts}");
        }
    }
}
