//! Backoff of failed outbox rows: the delay before a row is claimable again. It is 1, 2, 4 … 256 seconds by the number
//! of attempts, with a maximum.

/// Largest exponent of the delay.
const LAST_STEP: u32 = 8;
/// Maximum delay in seconds if the caller sets none.
pub const DEFAULT_MAX_SECONDS: i32 = 300;

/// Returns the delay in seconds after this many attempts: `min(max, 2^clamp(attempts - 1, 0, 8))`.
#[must_use]
pub fn delay_seconds(attempts: i32, max_seconds: i32) -> i32 {
    let step = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(LAST_STEP);
    (1 << step).min(max_seconds)
}

/// Returns the delays in seconds after 1, 2, 3 … attempts. The last delay applies to all further attempts.
#[must_use]
pub fn delays(max_seconds: i32) -> Vec<i32> {
    (1..).take(LAST_STEP as usize + 1).map(|attempts| delay_seconds(attempts, max_seconds)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_from_1_to_256_seconds_up_to_the_maximum() {
        assert_eq!(delays(86_400), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(delays(5), [1, 2, 4, 5, 5, 5, 5, 5, 5]);
        for (attempts, expected) in [(i32::MIN, 1), (0, 1), (1, 1), (9, 256), (10, 256), (i32::MAX, 256)] {
            assert_eq!(delay_seconds(attempts, 300), expected, "{attempts}");
        }
    }
}
