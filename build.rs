//! Rebuilds the crate when the embedded console changes.

fn main() {
    println!("cargo:rerun-if-changed=playground/dist");
}
