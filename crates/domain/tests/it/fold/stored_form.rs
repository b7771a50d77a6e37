//! A stored state is used only by a fold with the same rules.

use noetl_domain::projection::RULES;
use sha2::{Digest, Sha256};

use super::recorded::{Log, fold};

/// Digests of the states of all recorded logs, by the version of the rules. Those before the last version are of fewer
/// logs.
const DIGESTS: [(u32, &str); 11] = [
    (2, "35a3a2122c37f050d9eea259e54d89bce4174ffef0c7e6f45cc73a3111dd60ce"),
    (3, "0b24bddb5d985a1a87572edef4ddbb826f6a49727d1181f007be2c6ff3679849"),
    (4, "4513ae52a9f11bbf16c85c44344b29f56511094dac0057a1eeb16b81cfa5140f"),
    (5, "fb4d25a65117e9142bc8f9d093e04ab112c95d8dcc7c8903fc4885291b6c53f7"),
    (6, "b0e1369c890f01bf8060aef5da2a1b2904eff7f6b7e81a4b9b1416b9f56d68cd"),
    // None of these logs has a step that was left with an error.
    (7, "b0e1369c890f01bf8060aef5da2a1b2904eff7f6b7e81a4b9b1416b9f56d68cd"),
    (8, "b0e1369c890f01bf8060aef5da2a1b2904eff7f6b7e81a4b9b1416b9f56d68cd"),
    (9, "ede9ef6161f874bd35c0e80a7ac0f0172f2304e3962b3b551c7e56bcee2c0b42"),
    // None of these logs has labels.
    (10, "ede9ef6161f874bd35c0e80a7ac0f0172f2304e3962b3b551c7e56bcee2c0b42"),
    (11, "c4f4aa13bc36e98a04ed24b65ae493c7f1b129be874c879d73d1cbc589d7a672"),
    // None of these logs has events about the outbox.
    (12, "c4f4aa13bc36e98a04ed24b65ae493c7f1b129be874c879d73d1cbc589d7a672"),
];

#[test]
fn a_change_of_the_rules_or_of_the_stored_form_has_a_version_of_its_own() {
    let mut digest = Sha256::new();
    for log in Log::all() {
        let mut state = fold(&log.events).state;
        state.seal();
        digest.update(serde_json::to_value(state).unwrap().to_string());
    }
    let digest: Vec<String> = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let digest = digest.concat();
    assert_eq!(
        DIGESTS.last(),
        Some(&(RULES, digest.as_str())),
        "the fold gives other states: raise RULES in crates/domain/src/projection.rs, and add a line with it here"
    );
}
