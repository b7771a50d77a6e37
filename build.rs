//! Rebuilds the crate when the embedded console changes, and refuses an optimised build with the allocator of the system.

#![expect(clippy::disallowed_methods, reason = "Cargo gives its settings to build scripts in variables")]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=playground/dist");
    let is_optimised = env::var("OPT_LEVEL").is_ok_and(|level| level != "0");
    if is_optimised && env::var_os("CARGO_FEATURE_JEMALLOC").is_none() {
        println!("cargo::error=An optimised build needs `--features jemalloc`.");
    }
}
