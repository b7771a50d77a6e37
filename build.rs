//! Rebuilds the crate when the embedded migrations or the embedded console change.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=playground/dist");
}
