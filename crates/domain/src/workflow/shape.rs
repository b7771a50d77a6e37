//! Version of a stored state, derived from what the fold understands.

use super::fact::{KINDS, Kind};
use crate::execution::{ENDINGS, Status};

/// Returns the version of a state that is folded by the rules of version `rules` from the known event types: a hash of
/// at most nine digits.
#[must_use]
pub const fn shape(rules: u32) -> i32 {
    shape_of(rules, &KINDS, &ENDINGS)
}

const fn shape_of(rules: u32, kinds: &[(&str, Kind)], endings: &[(&str, Status)]) -> i32 {
    let mut hash = hashed(FNV_OFFSET, &rules.to_le_bytes());
    let mut index = 0;
    while index < kinds.len() {
        let (name, kind) = kinds[index];
        hash = hashed(hash, name.as_bytes());
        hash = hashed(hash, &[0, kind.number()]);
        index += 1;
    }
    index = 0;
    while index < endings.len() {
        let (name, status) = endings[index];
        hash = hashed(hash, name.as_bytes());
        hash = hashed(hash, &[1, status as u8]);
        index += 1;
    }
    (hash % 1_000_000_000).cast_signed()
}

/// Start of an FNV-1a hash of 32 bits.
const FNV_OFFSET: u32 = 0x811c_9dc5;

/// Returns an FNV-1a hash, continued with these bytes.
const fn hashed(mut hash: u32, bytes: &[u8]) -> u32 {
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u32).wrapping_mul(0x0100_0193);
        index += 1;
    }
    hash
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Started => 0,
            Self::Ended => 1,
            Self::CtxUpdated => 2,
            Self::Step(kind) => 3 + kind as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::{RULES, SHAPE};

    #[test]
    fn a_known_type_that_is_added_removed_renamed_or_of_another_kind_changes_the_shape() {
        assert_eq!(shape_of(RULES, &KINDS, &ENDINGS), SHAPE);
        assert!((0..1_000_000_000).contains(&SHAPE), "{SHAPE}: stored snapshots have at most nine digits");
        let mut shapes = vec![SHAPE, shape_of(RULES + 1, &KINDS, &ENDINGS)];
        for index in 0..KINDS.len() {
            let mut kinds = KINDS.to_vec();
            kinds[index].0 = "renamed";
            shapes.push(shape_of(RULES, &kinds, &ENDINGS));
            kinds[index] = (KINDS[index].0, Kind::Ended);
            shapes.push(shape_of(RULES, &kinds, &ENDINGS));
            kinds.remove(index);
            shapes.push(shape_of(RULES, &kinds, &ENDINGS));
        }
        for index in 0..ENDINGS.len() {
            let mut endings = ENDINGS.to_vec();
            endings[index].1 = Status::Running;
            shapes.push(shape_of(RULES, &KINDS, &endings));
            endings.remove(index);
            shapes.push(shape_of(RULES, &KINDS, &endings));
        }
        shapes.sort_unstable();
        assert!(shapes.windows(2).all(|pair| pair[0] != pair[1]), "{shapes:?}");
    }
}
