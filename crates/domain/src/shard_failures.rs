//! The rule that decides whether failed shards are missing from a response, or the response is an error.

use super::shard::ShardIndex;

/// Returns the failed shards in their order, which are missing from a response, with their errors. If no shard
/// `answered` and one had a fault, returns the first fault.
pub fn missing<E>(
    mut failed: Vec<(ShardIndex, E)>,
    answered: bool,
    is_fault: impl Fn(&E) -> bool,
) -> Result<Vec<(ShardIndex, E)>, E> {
    let fault = failed.iter().position(|(_, error)| is_fault(error)).filter(|_| !answered);
    if let Some(fault) = fault {
        return Err(failed.swap_remove(fault).1);
    }
    failed.sort_by_key(|(shard, _)| *shard);
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_returned_only_if_no_shard_answered() {
        let missing = |failed: &[(ShardIndex, &'static str)], answered| {
            missing(failed.to_vec(), answered, |error| *error == "fault")
        };
        let both = [(2, "fault"), (1, "unreachable")];
        assert_eq!(missing(&both, true), Ok(vec![(1, "unreachable"), (2, "fault")]));
        assert_eq!(missing(&both, false), Err("fault"));
        assert_eq!(missing(&both[1..], false), Ok(vec![(1, "unreachable")]));
    }
}
